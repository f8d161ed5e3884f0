"""The file operations of the log, as a Protocol, and their implementation on the operating system.

Tests have another implementation, in memory, that fails on demand.
Must never know: segments, offsets, batches.

Invariant: a `File` stays readable while it is referenced, even after its name was removed. A response that is being
sent references the file of its slice; the descriptor closes with the last reference.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Protocol

Buffer = bytes | bytearray | memoryview

TEMPORARY_SUFFIX: Final = ".tmp"  # such a file is incomplete and is ignored
FILE_NAME_BYTES_MAX: Final = 255
IOV_MAX: Final = os.sysconf("SC_IOV_MAX")

# fdatasync omits the timestamps of a file, never its length. macOS has only fsync.
_sync_data = getattr(os, "fdatasync", os.fsync)
_temporary_numbers = itertools.count()
_GET_PATH: Final[int | None] = getattr(fcntl, "F_GETPATH", None)


class FileMoved(OSError):
    """The name of an open file no longer refers to it: the file was moved, deleted or replaced."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.ENOENT, "the file was moved or deleted while the broker was running", path)


class File(Protocol):
    """An open file. Positions are absolute; there is no shared cursor."""

    @property
    def fd(self) -> int:
        """The file descriptor, for sendfile; -1 if there is none."""

    def pread(self, size: int, position: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> int:
        """Writes the buffers one after another and returns the number of written bytes, which may be fewer."""

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Returns when the file's content and length are on disk."""


class FileSystem(Protocol):
    """Paths are strings with forward slashes. All errors are OSErrors."""

    def open(self, path: str, *, create: bool = False) -> File: ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int:
        """When the file was last written to."""

    def read_file(self, path: str) -> bytes: ...

    def write_file(self, path: str, content: Buffer, *, sync: bool) -> None:
        """Replaces a small file atomically for readers; with `sync`, also across a crash."""

    def list_directory(self, path: str) -> list[str]: ...

    def make_directory(self, path: str) -> None:
        """Creates the directory and its parents if they do not exist."""

    def remove_file(self, path: str) -> None: ...

    def remove_directory(self, path: str) -> None:
        """Removes the directory and its contents."""

    def rename(self, source: str, target: str) -> None: ...

    def sync_directory(self, path: str) -> None:
        """Returns when the names in this directory are on disk."""

    def is_in_place(self, path: str, file: File | None) -> bool:
        """Whether the name refers to this open file; without one, whether it refers to any. Safe in any thread."""

    def path_now(self, file: File) -> str | None:
        """Where an open file is now, if it was moved; None if it was deleted or the system does not tell."""

    def lock(self, path: str) -> File:
        """Locks the file; raises BlockingIOError if another process has locked it.

        The lock is released with the last reference to the returned file.
        """


class RealFile:
    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        os.close(self.fd)

    def pread(self, size: int, position: int) -> bytes:
        return os.pread(self.fd, size, position)

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> int:
        return os.pwritev(self.fd, buffers, position)

    def size(self) -> int:
        return os.fstat(self.fd).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self.fd, size)

    def sync(self) -> None:
        _sync_data(self.fd)


class RealFileSystem:
    __slots__ = ()

    def open(self, path: str, *, create: bool = False) -> RealFile:
        return RealFile(os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644))

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def read_file(self, path: str) -> bytes:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            chunks = []
            while chunk := os.read(fd, 1 << 20):
                chunks.append(chunk)
            return b"".join(chunks)
        finally:
            os.close(fd)

    def write_file(self, path: str, content: Buffer, *, sync: bool) -> None:
        # Two threads may write the same file at the same time: the last one wins, and neither fails.
        temporary = f"{path}.{next(_temporary_numbers)}{TEMPORARY_SUFFIX}"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            try:
                rest = memoryview(content)
                while rest:
                    rest = rest[os.write(fd, rest) :]
                if sync:
                    os.fsync(fd)
            finally:
                os.close(fd)
            os.replace(temporary, path)
        except OSError:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        if sync:
            self.sync_directory(os.path.dirname(path))

    def list_directory(self, path: str) -> list[str]:
        return os.listdir(path)

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def remove_file(self, path: str) -> None:
        os.unlink(path)

    def remove_directory(self, path: str) -> None:
        for root, directories, files in os.walk(path, topdown=False):
            for name in files:
                os.unlink(os.path.join(root, name))
            for name in directories:
                os.rmdir(os.path.join(root, name))
        os.rmdir(path)

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def sync_directory(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def is_in_place(self, path: str, file: File | None) -> bool:
        try:
            named = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return file is None or os.path.samestat(named, os.fstat(file.fd))

    def path_now(self, file: File) -> str | None:
        try:
            if _GET_PATH is None:
                path = os.readlink(f"/proc/self/fd/{file.fd}")  # Linux
            else:
                path = os.fsdecode(fcntl.fcntl(file.fd, _GET_PATH, bytes(1024)).rstrip(b"\0"))  # macOS
            return path if os.path.samestat(os.stat(path), os.fstat(file.fd)) else None
        except OSError:
            return None

    def lock(self, path: str) -> RealFile:
        file = self.open(path, create=True)
        fcntl.flock(file.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return file


def write_fully(file: File, buffers: Sequence[Buffer], size: int, position: int) -> None:
    """Writes all buffers (`size` bytes) or raises OSError; after an error some bytes may be in the file."""
    if len(buffers) <= IOV_MAX and file.pwritev(buffers, position) == size:
        return
    rest: list[Buffer] = list(buffers)
    end = position + size
    first = 0
    # The call above may have written a prefix; writing it again is simpler than finding out where it ended.
    while position < end:
        written = file.pwritev(rest[first : first + IOV_MAX], position)
        if written == 0:
            raise OSError(f"no bytes could be written at position {position}; {end - position} are left")
        position += written
        while written:
            length = len(rest[first])
            if written >= length:
                written -= length
                first += 1
            else:
                rest[first] = memoryview(rest[first])[written:]
                written = 0
