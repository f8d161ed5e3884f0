"""The broker's side of a cleaning: starts `python -m penstock.cleaner`, sends the order and receives the result.

A process of its own, because decoding records in this one would delay every produce request (docs/adr/0014). It is
started by its name and not imported, because it may use numba, which the broker never loads.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.log.cleaning.cleaner import CleaningOrder, CleaningResult

_DISK_FAILED: Final = 4  # the exit code for a disk that failed or is full; others say that the log cannot be cleaned


class CleaningFailed(Exception):
    """The log was not cleaned. The message says why."""

    def __init__(self, reason: str, *, may_succeed_later: bool) -> None:
        super().__init__(reason)
        self.may_succeed_later = may_succeed_later


class CleaningProcess:
    """`run` blocks, in a thread; `end` may be called from another one."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ended = False

    def run(self, order: CleaningOrder) -> CleaningResult:
        """Raises CleaningFailed, or OSError if the process cannot be started."""
        import pickle  # not at the start of every broker

        process = subprocess.Popen(
            # -P: a directory named penstock where the broker runs is not meant.
            [sys.executable, "-P", "-m", "penstock.cleaner"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._process = process
        if self._is_ended:
            process.kill()
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        with process:
            try:
                pickle.dump(order, process.stdin)
                process.stdin.flush()
            except BrokenPipeError:
                # It has ended; the reason is in its standard error. What it did not read would be written once more.
                with suppress(BrokenPipeError):
                    process.stdin.close()
            output = process.stdout.read()
            complaint = process.stderr.read().decode(errors="replace").strip()
        if process.returncode != 0:
            raise CleaningFailed(
                complaint.rpartition("\n")[2] or f"the cleaner ended with {process.returncode}",
                may_succeed_later=process.returncode == _DISK_FAILED or process.returncode < 0,
            )
        result: CleaningResult = pickle.loads(output)  # noqa: S301  from the process that was started above
        return result

    def end(self) -> None:
        self._is_ended = True
        if self._process is not None:
            self._process.kill()
