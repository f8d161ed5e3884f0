"""The process that compacts one log and ends: `python -m penstock.cleaner`. `broker/cleaning_process.py` starts it.

The broker writes the order to the standard input and reads the result from the standard output. The input stays open
for as long as the broker lives: when it ends, so does this process, before another broker may open the directory.

Owns: the choice between plain Python and kernels. Kernels take a while to load, and pay off for large logs; without
numba every log is compacted in plain Python.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
from typing import Final

from penstock.core.errors import ProtocolError
from penstock.log.batches import BatchAnomaly
from penstock.log.cleaning.cleaner import CleaningOrder, NewOffsets, clean
from penstock.log.cleaning.key_offsets import KeyOffsets
from penstock.log.filesystem import RealFileSystem

DAMAGED: Final = 3
DISK_FAILED: Final = 4  # which may have room later

_NICENESS: Final = 10  # produce and fetch requests come first
_KERNEL_BYTES_MIN: Final = 32 << 20


def main() -> int:
    order = pickle.load(sys.stdin.buffer)  # noqa: S301  from the broker that started this process
    threading.Thread(target=_end_with_the_broker, daemon=True).start()
    os.nice(_NICENESS)
    try:
        result = clean(order, RealFileSystem(), _offsets_for(order))
    except BatchAnomaly as error:
        print(f"damage at position {error.position}: {error.reason}", file=sys.stderr)
        return DAMAGED
    except ProtocolError as error:
        print(f"a batch cannot be decoded: {error}", file=sys.stderr)
        return DAMAGED
    except OSError as error:
        print(f"{error.filename or order.directory}: {error.strerror}", file=sys.stderr)
        return DISK_FAILED
    pickle.dump(result, sys.stdout.buffer)
    sys.stdout.buffer.flush()
    return 0


def _offsets_for(order: CleaningOrder) -> NewOffsets:
    if sum(segment.size for segment in order.segments) < _KERNEL_BYTES_MIN:
        return KeyOffsets
    try:
        from penstock.columns.kernel_compilation import keep_compiled_in

        keep_compiled_in(_kernel_cache())
        from penstock.columns.key_table import KeyTable
    except ImportError:
        return KeyOffsets
    return lambda capacity: KeyTable(capacity, order.hash_seed)


def _kernel_cache() -> str:
    """Where pipelines keep theirs (`pipeline/kernel_cache.py`)."""
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    caches = chosen if os.path.isabs(chosen) else os.path.expanduser("~/.cache")
    return os.path.join(caches, "penstock", "numba") if os.path.isabs(caches) else ""


def _end_with_the_broker() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    # Not through the interpreter's shutdown, which would wait for the lock of the standard input.
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
