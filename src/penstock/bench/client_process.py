"""A client in a process of its own: its CPU time and its waiting are then mixed with nobody else's.

Owns the way there and back: the load as JSON on the command line, the result as JSON on standard output, and one line
on standard error from a client that could not do its work. It must never know what a load is.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Final

from penstock.bench.errors import MeasurementError

START_ALLOWANCE_S: Final = 30.0


def run_client(module: str, load: Mapping[str, Any], time_limit_s: float, description: str) -> dict[str, Any]:
    """What `python -m module` printed. A client that failed, or did not end in time, is a MeasurementError."""
    command = [sys.executable, "-m", module, json.dumps(load)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=time_limit_s + START_ALLOWANCE_S, check=False
        )
    except subprocess.TimeoutExpired as late:
        raise MeasurementError(f"{description} did not end within {late.timeout:g} s") from late
    if done.returncode != 0:
        last_line = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise MeasurementError(f"{description}: {last_line}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result
