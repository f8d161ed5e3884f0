"""What both metadata stores keep in a data directory: its lock, and `meta.properties`, Kafka's file with the ids of the
node and its cluster. And how a file is put in place whole.

Blocks on the disk. Knows nothing of the journal (`store_local.py`), or of a cluster's sessions.

Invariant: one process at a time has the directory, while the descriptor that `lock_directory` returned is open.
Invariant: only the owner can read what is put in place here.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

from penstock.core.properties import PropertiesError, format_properties, parse_properties

META_PROPERTIES: Final = "meta.properties"
OWNER_ONLY: Final = 0o600


class StoreError(Exception):
    """The directory cannot be used. The message is one line that names the file and the remedy."""


class StoreInUse(StoreError):
    """Another process uses the directory."""


def lock_directory(directory: Path) -> int:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        directory_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise unusable(directory, error) from error
    try:
        fcntl.flock(directory_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(directory_fd)
        raise StoreInUse(
            f"{directory} is in use by another broker; stop that one, or use another data directory"
        ) from None
    return directory_fd


def unusable(directory: Path, error: OSError) -> StoreError:
    place = error.filename or directory
    return StoreError(f"{place}: {error.strerror}; check the data directory's permissions and free space")


def read_meta_properties(path: Path) -> dict[str, str]:
    """The file's values; empty if there is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError:
        raise StoreError(f"{path}: not a text file; restore it from a backup") from None
    try:
        identity = {entry.key: entry.value for entry in parse_properties(text)}
    except PropertiesError as error:
        raise StoreError(f"{path}:{error.line_number}: {error.reason}; restore the file from a backup") from None
    if identity.get("version") != "1":
        raise StoreError(f"{path}: version={identity.get('version', '')} is not supported; expected version=1")
    return identity


def write_meta_properties(
    directory: Path, directory_fd: int, *, cluster_id: str, directory_id: str, node_id: int
) -> None:
    text = format_properties(
        {"cluster.id": cluster_id, "directory.id": directory_id, "node.id": str(node_id), "version": "1"}
    )
    replace_file(directory / META_PROPERTIES, text.encode("utf-8"), directory_fd)


def replace_file(path: Path, content: bytes, directory_fd: int) -> None:
    os.close(put_in_place(path, content))
    os.fsync(directory_fd)


def put_in_place(path: Path, content: bytes) -> int:
    """Puts a whole file in place and returns its descriptor, or leaves what was there and raises OSError.

    The rename is atomic, but on disk only once the directory has been flushed, which is the caller's.
    """
    temporary = path.with_name(path.name + ".tmp")
    fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, OWNER_ONLY)
    try:
        write_all(fd, content, 0)
        os.fsync(fd)
        os.rename(temporary, path)
    except BaseException:
        os.close(fd)
        temporary.unlink(missing_ok=True)
        raise
    return fd


def write_all(fd: int, content: bytes, position: int) -> None:
    """pwrite until everything is written: on a nearly full disk a write may stop half way without an error."""
    view = memoryview(content)
    while view:
        written = os.pwrite(fd, view, position)
        view = view[written:]
        position += written
