"""`penstock broker` with two faults on call: a wall clock that is wrong, and a disk that forgets what was not synced.

    python -m penstock.testing.faulty_broker DIRECTORY broker ...

A process of its own, so that everything but three system calls is the real thing. `Faults` is the other end, in the
process of the test: both share files of DIRECTORY.

- `clock` holds the error of the wall clock in milliseconds. It acts at once. The monotonic clock is never wrong.
- `synced` gets a record after each fsync: the inode, and the size before the call. `lose_unsynced` truncates each
  file of a dead broker to the size that was synced last, as a power failure may. Names of files survive: this is
  the smallest loss that a file system may cause, and not the largest.

Must not know clusters. Invariant: bytes that were synced before the end of the process are never cut off.
"""

from __future__ import annotations

import mmap
import os
import runpy
import struct
import sys
import time
from pathlib import Path
from typing import Final

_CLOCK: Final = "clock"
_SYNCED: Final = "synced"
_OFFSET_MS: Final = struct.Struct("=q")
_SYNC: Final = struct.Struct("=QQ")  # inode, size
# A compaction writes and syncs its files in another process, and the broker gives them their names.
_CLEANED_SUFFIX: Final = ".cleaned"


class Faults:
    """The files that a broker with faults shares with the test that causes them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        (directory / _SYNCED).touch()
        if not (directory / _CLOCK).exists():
            (directory / _CLOCK).write_bytes(_OFFSET_MS.pack(0))

    @property
    def program(self) -> tuple[str, ...]:
        """What runs the broker; see `BrokerProcess.start`."""
        return ("penstock.testing.faulty_broker", str(self._directory))

    def skew_clock(self, offset_ms: int) -> None:
        with (self._directory / _CLOCK).open("r+b") as file:
            file.write(_OFFSET_MS.pack(offset_ms))

    def lose_unsynced(self, data_dir: Path) -> int:
        """Truncates the files of a broker that has ended; returns the number of lost bytes."""
        synced = self._synced_sizes()
        lost = 0
        for path in data_dir.rglob("*"):
            if path.is_symlink() or not path.is_file():
                continue
            found = path.stat()
            kept = min(found.st_size, synced.get(found.st_ino, 0))
            if kept < found.st_size:
                os.truncate(path, kept)
                lost += found.st_size - kept
        return lost

    def _synced_sizes(self) -> dict[int, int]:
        content = (self._directory / _SYNCED).read_bytes()
        whole = len(content) - len(content) % _SYNC.size
        return dict(_SYNC.iter_unpack(content[:whole]))


def _record_syncs(directory: Path) -> None:
    # O_APPEND: the records of several threads do not mix.
    log = os.open(directory / _SYNCED, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    fsync, fdatasync, rename = os.fsync, os.fdatasync, os.rename

    def record(inode: int, size: int) -> None:
        os.write(log, _SYNC.pack(inode, size))

    def recorded_fsync(descriptor: int) -> None:
        before = os.fstat(descriptor)
        fsync(descriptor)
        record(before.st_ino, before.st_size)

    def recorded_fdatasync(descriptor: int) -> None:
        before = os.fstat(descriptor)
        fdatasync(descriptor)
        record(before.st_ino, before.st_size)

    def recorded_rename(source: str | Path, target: str | Path) -> None:
        if str(source).endswith(_CLEANED_SUFFIX):
            before = os.stat(source)
            record(before.st_ino, before.st_size)
        rename(source, target)

    os.fsync, os.fdatasync, os.rename = recorded_fsync, recorded_fdatasync, recorded_rename  # type: ignore[assignment]


def _skew_clock(directory: Path) -> None:
    with (directory / _CLOCK).open("rb") as file:
        shared = mmap.mmap(file.fileno(), _OFFSET_MS.size, prot=mmap.PROT_READ)
    right_ns, offset_ms = time.time_ns, _OFFSET_MS.unpack_from
    time.time_ns = lambda: right_ns() + offset_ms(shared)[0] * 1_000_000


def _main() -> None:
    directory = Path(sys.argv[1])
    # Before the log is imported, which keeps a reference to fdatasync.
    _record_syncs(directory)
    _skew_clock(directory)
    # The command line is another program; nothing here knows its modules.
    sys.argv = ["penstock", *sys.argv[2:]]
    runpy.run_module("penstock.cli.main", run_name="__main__")


if __name__ == "__main__":
    _main()
