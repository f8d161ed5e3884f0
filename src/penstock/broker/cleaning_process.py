"""The process that compacts one log and ends: `python -m penstock.broker.cleaning_process`.

The broker writes the order to its standard input and reads the result from its standard output. The input stays open
for as long as the broker lives: if it ends, so does this process, before another broker may open the directory.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from typing import Final

from penstock.core.errors import ProtocolError
from penstock.log.batches import BatchAnomaly
from penstock.log.cleaning.cleaner import CleaningOrder, CleaningResult, clean
from penstock.log.filesystem import RealFileSystem

_FAILED: Final = 1
_DAMAGED: Final = 3
_NICENESS: Final = 10  # produce and fetch requests come first


class CleaningFailed(Exception):
    """The log was not cleaned. The message says why."""

    def __init__(self, reason: str, *, may_succeed_later: bool) -> None:
        super().__init__(reason)
        self.may_succeed_later = may_succeed_later


class CleaningProcess:
    """The broker's side. `run` blocks, in a thread; `end` may be called from another one."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ended = False

    def run(self, order: CleaningOrder) -> CleaningResult:
        """Raises CleaningFailed, or OSError if the process cannot be started."""
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "penstock.broker.cleaning_process"],
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
                pass  # It has ended; the reason is in its standard error.
            output = process.stdout.read()
            complaint = process.stderr.read().decode(errors="replace").strip()
        if process.returncode != 0:
            raise CleaningFailed(
                complaint.rpartition("\n")[2] or f"the cleaner ended with {process.returncode}",
                may_succeed_later=process.returncode != _DAMAGED,
            )
        result: CleaningResult = pickle.loads(output)  # noqa: S301  from the process that was started above
        return result

    def end(self) -> None:
        self._is_ended = True
        if self._process is not None:
            self._process.kill()


def main() -> int:
    order = pickle.load(sys.stdin.buffer)  # noqa: S301  from the broker that started this process
    threading.Thread(target=_end_with_the_broker, daemon=True).start()
    os.nice(_NICENESS)
    try:
        result = clean(order, RealFileSystem())
    except BatchAnomaly as error:
        print(f"damage at position {error.position}: {error.reason}", file=sys.stderr)
        return _DAMAGED
    except ProtocolError as error:
        print(f"a batch cannot be decoded: {error}", file=sys.stderr)
        return _DAMAGED
    except OSError as error:
        print(f"{error.filename or order.directory}: {error.strerror}", file=sys.stderr)
        return _FAILED
    pickle.dump(result, sys.stdout.buffer)
    sys.stdout.buffer.flush()
    return 0


def _end_with_the_broker() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(_FAILED)


if __name__ == "__main__":
    # Not through the interpreter's shutdown, which would wait for the lock of the standard input.
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
