"""A file system in memory that fails on demand: full, broken, or interrupted by a crash.

Owns: the difference between written and synced bytes. Tests of the log run on it.
Must never know: what is stored in it.

Invariant: after `crash`, a file contains its last synced content plus some of the bytes written since, and a name
exists if its directory was synced since its creation, or if the crash kept it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence

from penstock.log.filesystem import TEMPORARY_SUFFIX, Buffer, File

KeepUnsynced = Callable[[str, int], int]


class _Inode:
    __slots__ = ("content", "synced")

    def __init__(self) -> None:
        self.content = bytearray()
        self.synced = b""


class MemoryFile:
    __slots__ = ("_fs", "_inode", "fd")

    def __init__(self, fs: MemoryFileSystem, inode: _Inode) -> None:
        self._fs = fs
        self._inode = inode
        self.fd = -1

    def pread(self, size: int, position: int) -> bytes:
        return bytes(self._inode.content[position : position + size])

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> int:
        data = b"".join(buffers)
        written = self._fs.admit(self._inode, position, data)
        content = self._inode.content
        if len(content) < position:
            content.extend(bytes(position - len(content)))
        content[position : position + written] = data[:written]
        return written

    def size(self) -> int:
        return len(self._inode.content)

    def is_of(self, inode: _Inode) -> bool:
        return self._inode is inode

    def truncate(self, size: int) -> None:
        self._fs.check_truncate()
        content = self._inode.content
        if size <= len(content):
            del content[size:]
        else:
            content.extend(bytes(size - len(content)))

    def sync(self) -> None:
        self._fs.check_sync()
        self._inode.synced = bytes(self._inode.content)


class _Lock(MemoryFile):
    __slots__ = ("_path",)

    def __init__(self, fs: MemoryFileSystem, inode: _Inode, path: str) -> None:
        super().__init__(fs, inode)
        self._path = path

    def __del__(self) -> None:
        self._fs.unlock(self._path)


class MemoryFileSystem:
    """Set the public attributes to make it fail."""

    def __init__(self) -> None:
        self.space_left: int | None = None  # bytes that may still be added before ENOSPC; None: endless
        self.write_error: int | None = None  # errno of every write
        self.torn_write: int | None = None  # the next write puts down this many bytes and then raises EIO
        self.sync_error: int | None = None
        self.truncate_error: int | None = None
        self.synced_files = 0
        self.clock_ms = 0  # the time of the last write of every file
        self._files: dict[str, _Inode] = {}
        self._synced_names: dict[str, _Inode] = {}
        self._directories: set[str] = {""}
        self._locked: set[str] = set()

    # What the log calls.

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        return MemoryFile(self, self._inode(path, create))

    def size(self, path: str) -> int:
        return len(self._inode(path).content)

    def modified_ms(self, path: str) -> int:
        self._inode(path)
        return self.clock_ms

    def read_file(self, path: str) -> bytes:
        return bytes(self._inode(path).content)

    def write_file(self, path: str, content: Buffer, *, sync: bool) -> None:
        file = self.open(path + TEMPORARY_SUFFIX, create=True)
        file.truncate(0)
        written = 0
        while written < len(content):
            written += file.pwritev([memoryview(content)[written:]], written)
        if sync:
            file.sync()
        self.rename(path + TEMPORARY_SUFFIX, path)
        if sync:
            self.sync_directory(os.path.dirname(path))

    def list_directory(self, path: str) -> list[str]:
        self._check_directory(path)
        names = [os.path.split(name) for name in (*self._files, *self._directories)]
        return sorted(name for parent, name in names if parent == path and name)

    def make_directory(self, path: str) -> None:
        while path not in self._directories:
            self._directories.add(path)
            path = os.path.dirname(path)

    def remove_file(self, path: str) -> None:
        self._inode(path)
        del self._files[path]

    def remove_directory(self, path: str) -> None:
        self._check_directory(path)
        for name in [name for name in self._files if name.startswith(path + "/")]:
            del self._files[name]
        self._directories -= {name for name in self._directories if name == path or name.startswith(path + "/")}

    def rename(self, source: str, target: str) -> None:
        if source in self._files:
            self._files[target] = self._files.pop(source)
            return
        self._check_directory(source)
        for name in [name for name in self._files if name.startswith(source + "/")]:
            self._files[target + name[len(source) :]] = self._files.pop(name)
        for name in [name for name in self._directories if name == source or name.startswith(source + "/")]:
            self._directories.remove(name)
            self._directories.add(target + name[len(source) :])

    def sync_directory(self, path: str) -> None:
        self.check_sync()
        self._check_directory(path)
        # Copies: the close of a data directory syncs its logs in several threads.
        for name in tuple(self._synced_names):
            if os.path.dirname(name) == path and name not in self._files:
                self._synced_names.pop(name, None)
        for name, inode in tuple(self._files.items()):
            if os.path.dirname(name) == path:
                self._synced_names[name] = inode

    def is_in_place(self, path: str, file: File | None) -> bool:
        named = self._files.get(path)
        return named is not None and (file is None or (isinstance(file, MemoryFile) and file.is_of(named)))

    def path_now(self, file: File) -> str | None:
        assert isinstance(file, MemoryFile)
        return next((path for path, inode in self._files.items() if file.is_of(inode)), None)

    def lock(self, path: str) -> MemoryFile:
        inode = self._inode(path, create=True)
        if path in self._locked:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)
        self._locked.add(path)
        return _Lock(self, inode, path)

    # What tests do to it.

    def crash(self, keep: KeepUnsynced = lambda path, unsynced: 0) -> MemoryFileSystem:
        """The file system as the next process finds it after a power failure.

        Of the bytes that a file had grown by since its last sync, `keep(path, how many)` stay. Names made since the
        last sync of their directory are lost if `keep(path, -1)` is 0.
        """
        after = type(self)()
        after._directories = set(self._directories)
        for path in {**self._synced_names, **self._files}:
            inode = self._synced_names.get(path)
            if inode is None:
                if not keep(path, -1):
                    continue
                inode = self._files[path]
            synced, written = inode.synced, bytes(inode.content)
            kept = keep(path, len(written) - len(synced)) if len(written) > len(synced) else 0
            survivor = _Inode()
            survivor.content = bytearray(synced + written[len(synced) : len(synced) + kept])
            survivor.synced = bytes(survivor.content)
            after._files[path] = after._synced_names[path] = survivor
        return after

    def copy(self) -> MemoryFileSystem:
        """The file system as the next process finds it after this one was killed: nothing written is lost."""
        after = type(self)()
        after._directories = set(self._directories)
        for path, inode in self._files.items():
            after.put(path, bytes(inode.content))
        return after

    def put(self, path: str, content: bytes) -> None:
        """Makes a file of these bytes, synced, whatever faults are set."""
        inode = _Inode()
        inode.content = bytearray(content)
        inode.synced = content
        self.make_directory(os.path.dirname(path))
        self._files[path] = self._synced_names[path] = inode

    # What files ask before they change.

    def admit(self, inode: _Inode, position: int, data: bytes) -> int:
        """How many of these bytes may be written; raises the error that is due."""
        if self.write_error is not None:
            raise OSError(self.write_error, os.strerror(self.write_error))
        if self.torn_write is not None:
            torn, self.torn_write = min(self.torn_write, len(data)), None
            inode.content[position : position + torn] = data[:torn]
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        growth = max(0, position + len(data) - len(inode.content))
        if self.space_left is None or not data:
            return len(data)
        if growth > self.space_left:
            allowed = len(data) - (growth - self.space_left)
            if allowed <= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self.space_left = 0
            return allowed
        self.space_left -= growth
        return len(data)

    def check_sync(self) -> None:
        if self.sync_error is not None:
            raise OSError(self.sync_error, os.strerror(self.sync_error))
        self.synced_files += 1

    def check_truncate(self) -> None:
        if self.truncate_error is not None:
            raise OSError(self.truncate_error, os.strerror(self.truncate_error))

    def unlock(self, path: str) -> None:
        self._locked.discard(path)

    def _inode(self, path: str, create: bool = False) -> _Inode:
        inode = self._files.get(path)
        if inode is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            self._check_directory(os.path.dirname(path))
            inode = self._files[path] = _Inode()
        return inode

    def _check_directory(self, path: str) -> None:
        if path not in self._directories:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
