"""Named steps of a commit at which a test may stop a process dead.

Nothing here happens outside a test: without `PENSTOCK_CRASH_POINTS` in the environment `reached` returns at once. A
test sets it to a directory and arms a step by writing a file of that name there, with the processes to kill as its
content: process ids, or `self`. The file is renamed to `<step>.hit` before the kill, so that a step kills once per
arming, however many tasks arrive at it, and so that the test can see that the kill landed there.

A commit of files is Spark's own Java; tests put steps there with a class of theirs that obeys the same files.
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


def arm(directory: Path, step: str, *victims: int | str) -> None:
    """For tests: the next arrival at the step kills these processes, or the one that arrives (SELF) if none is named.

    They are killed in this order: whoever names SELF as well names it last.
    """
    waiting = directory / f"{step}.new"
    waiting.write_text(" ".join(map(str, victims)) or SELF)
    waiting.rename(directory / step)


def was_hit(directory: Path, step: str) -> bool:
    """For tests: whether an armed step has been arrived at; forgets it, so that the step can be armed again."""
    try:
        (directory / f"{step}.hit").unlink()
    except FileNotFoundError:
        return False
    return True


def _obey(directory: Path, step: str) -> None:
    armed = directory / step
    hit = directory / f"{step}.hit"
    try:
        victims = armed.read_text().split()
        armed.rename(hit)  # whoever renames it is the one that kills
    except FileNotFoundError:
        return
    for victim in victims:
        os.kill(os.getpid() if victim == SELF else int(victim), signal.SIGKILL)
