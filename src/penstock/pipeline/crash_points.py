"""Named steps of a commit at which a test may kill a process.

Nothing happens outside a test: without `PENSTOCK_CRASH_POINTS` in the environment `reached` returns at once. A test
sets it to a directory and arms a step with a file of that name, whose content is the processes to kill: process ids, or
`self`. The file is renamed to `<step>.hit` before the kill, so that a step kills once per arming, however many tasks
arrive at it, and so that the test can see that the kill landed there. Tests arm steps with `tests/crash_points.py`.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Final

ENVIRONMENT_VARIABLE: Final = "PENSTOCK_CRASH_POINTS"
SELF: Final = "self"


def reached(step: str) -> None:
    """Called by the code under test when it arrives at a step, e.g. `topic.before_end_txn`."""
    directory = os.environ.get(ENVIRONMENT_VARIABLE)
    if directory:
        _obey(Path(directory), step)


def _obey(directory: Path, step: str) -> None:
    armed = directory / step
    hit = directory / f"{step}.hit"
    try:
        victims = armed.read_text().split()
        armed.rename(hit)  # only one process succeeds, and that one kills
    except FileNotFoundError:
        return
    for victim in victims:
        os.kill(os.getpid() if victim == SELF else int(victim), signal.SIGKILL)
