"""A file system in memory whose process is killed after a number of operations that change it."""

from __future__ import annotations

from tests.memory_filesystem import MemoryFile, MemoryFileSystem


class Stopped(BaseException):
    """The process was killed here. Not an Exception: nothing may handle it."""


class StoppingFileSystem(MemoryFileSystem):
    """Set `operations_left`; `copy` and `crash` are what the next process finds."""

    def __init__(self) -> None:
        super().__init__()
        self.operations_left: int | None = None

    def _count(self) -> None:
        if self.operations_left is not None:
            if self.operations_left == 0:
                raise Stopped
            self.operations_left -= 1

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        if create:
            self._count()
        return super().open(path, create=create)

    def remove_file(self, path: str) -> None:
        self._count()
        super().remove_file(path)

    def rename(self, source: str, target: str) -> None:
        self._count()
        super().rename(source, target)

    def admit(self, inode: object, position: int, data: bytes) -> int:
        self._count()
        return super().admit(inode, position, data)  # type: ignore[arg-type]

    def check_sync(self) -> None:
        self._count()
        super().check_sync()

    def check_truncate(self) -> None:
        self._count()
        super().check_truncate()
