"""Runs a benchmark client in its own process, so that its CPU time and its waits can be measured separately.

Owns the exchange: the load as JSON on the command line, the result as JSON on stdout, one line on stderr from a client
that failed. It must not know what a load is.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Final

from penstock.bench.measurement import MeasurementError

START_ALLOWANCE_S: Final = 30.0


def run_client(module: str, load: Mapping[str, Any], time_limit_s: float, description: str) -> dict[str, Any]:
    """The JSON that `python -m module` printed; MeasurementError if the client fails or times out."""
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
