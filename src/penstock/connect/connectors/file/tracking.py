"""Which file is which: files are recognised by inode and beginning, so that renaming and truncating are noticed.

An offset of a file is Kafka's `position`, in bytes, and two fields of ours: `inode`, and `head`, the CRC of the file's
first bytes. An offset without them, as Kafka's connector writes it, is taken by the name of its file.

Owns the meaning of offsets. It must not know lines or records.

Invariants:
- A file that was renamed goes on at its position, under its new name, or as the rest of the old one.
- A file that was truncated or written anew begins at 0.
"""

from __future__ import annotations

import glob
import os
import stat
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from penstock.connect.connector import ConnectError, SourceOffset

HEAD_BYTES: Final = 256
POSITION: Final = "position"
_SCAN_BYTES: Final = 64 * 1024
_GLOB_CHARACTERS: Final = "*?["


@dataclass(frozen=True, slots=True)
class FileState:
    path: str
    inode: int
    size: int


@dataclass(frozen=True, slots=True)
class FileOffset:
    position: int
    inode: int | None = None
    head: int | None = None

    @classmethod
    def parse(cls, offset: Mapping[str, Any]) -> FileOffset:
        position, inode, head = offset.get(POSITION), offset.get("inode"), offset.get("head")
        if not isinstance(position, int) or isinstance(position, bool) or position < 0:
            raise ConnectError(f"the offset of a file needs a '{POSITION}' of at least 0, and this is {dict(offset)}")
        return cls(position, inode if isinstance(inode, int) else None, head if isinstance(head, int) else None)

    def to_json(self) -> dict[str, int]:
        return {POSITION: self.position, "inode": self.inode or 0, "head": self.head or 0}


@dataclass(frozen=True, slots=True)
class Unread:
    """Bytes of a file that are to be read from `position` on. `name` is the file's source partition."""

    name: str
    state: FileState
    position: int


def files_of(pattern: str) -> list[FileState]:
    """A file, all files of a directory, or those that match a pattern; hidden files are left out. Sorted by name."""
    if os.path.isdir(pattern):
        paths: Iterable[str] = (os.path.join(pattern, name) for name in os.listdir(pattern) if not name.startswith("."))
    elif any(each in pattern for each in _GLOB_CHARACTERS) and not os.path.exists(pattern):
        paths = glob.glob(pattern, recursive=True)
    else:
        paths = [pattern]
    return [state for path in sorted(paths) if (state := state_of(path)) is not None]


def names_many(pattern: str) -> bool:
    return os.path.isdir(pattern) or any(each in pattern for each in _GLOB_CHARACTERS)


def state_of(path: str) -> FileState | None:
    """None if there is no such file, or it is no regular file."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return FileState(path, found.st_ino, found.st_size) if stat.S_ISREG(found.st_mode) else None


def head_of(path: str, position: int) -> int:
    """The CRC of the file's beginning, as far as it has been read."""
    with open(path, "rb") as data:
        return zlib.crc32(data.read(min(position, HEAD_BYTES)))


def has_line(state: FileState, position: int) -> bool:
    """Whether the end of a line has been written behind `position`."""
    if state.size <= position:
        return False
    try:
        with open(state.path, "rb") as data:
            data.seek(position)
            return any(b"\n" in content for content in iter(lambda: data.read(_SCAN_BYTES), b""))
    except FileNotFoundError:
        return False


def parse_offsets(offsets: Mapping[str, SourceOffset]) -> dict[str, FileOffset]:
    """By name of file."""
    return {name: FileOffset.parse(offset) for name, offset in offsets.items()}


def renamed(files: Iterable[FileState], known: Mapping[str, FileOffset]) -> dict[str, FileOffset]:
    """Files whose offset stands under a name that they had before. It has to be committed under the new one, for all of
    them at once, before another file's offset takes its place."""
    found = {}
    for state in files:
        own = known.get(state.path)
        if own is not None and own.inode in (None, 0, state.inode):
            continue
        before = [each for each in known.values() if each.inode == state.inode and _is_same(state, each)]
        if before:
            found[state.path] = max(before, key=lambda each: each.position)
    return found


def unread(files: Iterable[FileState], known: Mapping[str, FileOffset]) -> Iterator[Unread]:
    """Files with whole lines that have not been read. None of them is `renamed`."""
    states = list(files)
    names = {state.path for state in states}
    for state in states:
        own = known.get(state.path)
        rest = _rest_of_renamed(state, own, names)
        if rest is not None:
            yield rest
            continue
        position = 0 if own is None else _position(state, own)
        if has_line(state, position):
            yield Unread(state.path, state, position)


def _position(state: FileState, own: FileOffset) -> int:
    if not own.inode:  # of Kafka's connector, or of a person
        return own.position if own.position <= state.size else 0
    return own.position if own.inode == state.inode and _is_same(state, own) else 0


def _is_same(state: FileState, offset: FileOffset) -> bool:
    if offset.position > state.size:
        return False
    try:
        return head_of(state.path, offset.position) == (offset.head or 0)
    except FileNotFoundError:
        return False


def _rest_of_renamed(state: FileState, offset: FileOffset | None, names: set[str]) -> Unread | None:
    """The unread lines of the file that had this name before, if it is beside it and no file of the connector's own."""
    if offset is None or not offset.inode or offset.inode == state.inode:
        return None
    with os.scandir(Path(state.path).parent) as entries:
        beside = [entry.path for entry in entries if entry.inode() == offset.inode and entry.path not in names]
    for path in beside:
        before = state_of(path)
        if before is not None and _is_same(before, offset) and has_line(before, offset.position):
            return Unread(state.path, before, offset.position)
    return None
