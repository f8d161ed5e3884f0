"""Group commit: one fsync for everything that was appended before it began.

The log hands out a ticket, some other thread syncs it while appends go on, and the log takes it back. The ticket
touches only its own list of open files and names, so it needs no lock. Indexes and snapshots are not synced: whoever
opens the log notices that they are missing or stale and builds them anew. Transaction indexes are, with what vouches
for them, because nothing else would tell that one was lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.log.filesystem import File, FileSystem


@dataclass(frozen=True, slots=True)
class FlushTicket:
    """Once `sync` returned, every offset below `end_offset` survives a power failure."""

    end_offset: int
    files: Sequence[File]
    small_files: Sequence[tuple[str, bytes]]
    directory: str | None  # set if a name in it is new; writing a small file there syncs it as well
    fs: FileSystem

    def sync(self) -> None:
        """May run in any thread. An OSError means that nothing is known about what reached the disk."""
        for file in self.files:
            file.sync()
        for path, content in self.small_files:
            self.fs.write_file(path, content, sync=True)
        if self.directory is not None and not self.small_files:
            self.fs.sync_directory(self.directory)


def sync_in_turn(tickets: Sequence[FlushTicket]) -> None:
    for ticket in tickets:
        ticket.sync()
