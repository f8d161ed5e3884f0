"""Group commit: one fsync for everything that was appended before it began.

The log issues a ticket, another thread syncs it while appends continue, and the log completes it. The ticket uses only
its own list of open files and names, so it needs no lock. Indexes and snapshots are not synced: recovery detects that
they are missing or stale and rebuilds them. Transaction indexes and their checkpoint are synced, because their loss
would go unnoticed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.log.filesystem import File, FileMoved, FileSystem


@dataclass(frozen=True, slots=True)
class FlushTicket:
    """After `sync` returns, every offset below `end_offset` survives a power failure."""

    end_offset: int
    files: Sequence[tuple[str, File]]
    """With their names: what is synced to a file without a name is lost with the process."""
    small_files: Sequence[tuple[str, bytes]]
    directory: str | None  # set if it has new names; writing a small file syncs it as well
    fs: FileSystem

    def sync(self) -> None:
        """May run in any thread. After an OSError it is unknown what reached the disk.

        Raises FileMoved if a file was moved or deleted.
        """
        for path, file in self.files:
            file.sync()
            if not self.fs.is_in_place(path, file):
                raise FileMoved(path)
        for path, content in self.small_files:
            self.fs.write_file(path, content, sync=True)
        if self.directory is not None and not self.small_files:
            self.fs.sync_directory(self.directory)


def sync_in_turn(tickets: Sequence[FlushTicket]) -> None:
    for ticket in tickets:
        ticket.sync()
