"""Whether the files that a broker writes to still have their names.

An open file outlives its name: a broker whose data directory is moved or deleted could go on writing, and acknowledge
records that no reader finds after a restart. So names are compared with open files at intervals, and wherever a file
operation fails.

Must never know: what the files contain, or what follows from their absence.

Invariant: `PresenceCheck.run` uses only its own list, so it may run in any thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.core.ids import TopicPartition
from penstock.log.filesystem import File, FileSystem


@dataclass(frozen=True, slots=True)
class NamedFile:
    path: str
    file: File | None
    """None if the file is not open: then any file of this name will do."""

    def is_in_place(self, fs: FileSystem) -> bool:
        return fs.is_in_place(self.path, self.file)


@dataclass(frozen=True, slots=True)
class PresenceCheck:
    fs: FileSystem
    directory: NamedFile | None
    """The lock file of the data directory; None once the directory is closed."""
    partitions: Sequence[tuple[TopicPartition, NamedFile]]

    def run(self) -> Absence:
        if self.directory is not None and not self.directory.is_in_place(self.fs):
            return Absence(directory=True)
        return Absence(partitions=tuple(place for place, active in self.partitions if not active.is_in_place(self.fs)))


@dataclass(frozen=True, slots=True)
class Absence:
    """What a check did not find. `directory` is the data directory as a whole."""

    directory: bool = False
    partitions: tuple[TopicPartition, ...] = ()
