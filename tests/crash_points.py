"""Arms the crash points of `penstock.pipeline.crash_points`, and tells whether a process arrived there.

A commit of files is Spark's own Java; `tests/pipeline/kills` puts steps there with a class that obeys the same files.
"""

from __future__ import annotations

from pathlib import Path

from penstock.pipeline.crash_points import ENVIRONMENT_VARIABLE, SELF

__all__ = ["ENVIRONMENT_VARIABLE", "SELF", "arm", "was_hit"]


def arm(directory: Path, step: str, *victims: int | str) -> None:
    """The next arrival at the step kills these processes, or the one that arrives (SELF) if none is named.

    They are killed in this order; SELF comes last.
    """
    waiting = directory / f"{step}.new"
    waiting.write_text(" ".join(map(str, victims)) or SELF)
    waiting.rename(directory / step)


def was_hit(directory: Path, step: str) -> bool:
    """Whether a process arrived at an armed step; forgets it, so that the step can be armed again."""
    try:
        (directory / f"{step}.hit").unlink()
    except FileNotFoundError:
        return False
    return True
