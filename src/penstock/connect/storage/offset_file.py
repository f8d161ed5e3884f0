"""The offsets file of a standalone worker (`offset.storage.file.filename`), in the format of Kafka Connect.

Kafka Connect writes a Java map from bytes to bytes, by Java's serialization: the same keys and values as in the offsets
topic. This reads and writes that one shape of it, so that a user can change between the two workers.

Owns the file. It must not know what keys and values mean.

Invariant: the file is replaced as a whole, so a crash leaves the old or the new one.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from penstock.connect.connector import ConnectError, RetriableError
from penstock.connect.storage.json_values import KeyValue

_INT: Final = struct.Struct(">i")
_NULL: Final = 0x70
_REFERENCE: Final = 0x71
_ARRAY: Final = 0x75
_END: Final = 0x78
_HEADER: Final = b"\xac\xed\x00\x05"
# An object of java.util.HashMap with the fields loadFactor and threshold, and data of its own behind them.
_HASH_MAP: Final = (
    b"sr\x00\x11java.util.HashMap\x05\x07\xda\xc1\xc3\x16\x60\xd1\x03\x00\x02F\x00\nloadFactorI\x00\tthresholdxp"
)
_LOAD_FACTOR: Final = b"?@\x00\x00"  # 0.75
_BLOCK: Final = b"w\x08"  # 8 bytes: the number of buckets and that of entries
_BYTE_ARRAY_CLASS: Final = b"r\x00\x02[B\xac\xf3\x17\xf8\x06\x08T\xe0\x02\x00\x00xp"
# Handles count from this number on: the map's class, the map, then the class of byte arrays.
_BYTE_ARRAY_HANDLE: Final = b"\x00\x7e\x00\x02"


def encode(records: Mapping[bytes, bytes | None]) -> bytes:
    buckets = 16
    while buckets * 3 // 4 < len(records):
        buckets *= 2
    out = bytearray(_HEADER + _HASH_MAP + _LOAD_FACTOR + _INT.pack(buckets * 3 // 4))
    out += _BLOCK + _INT.pack(buckets) + _INT.pack(len(records))
    is_class_known = False
    for content in (each for pair in records.items() for each in pair):
        if content is None:
            out.append(_NULL)
            continue
        out.append(_ARRAY)
        out += bytes([_REFERENCE]) + _BYTE_ARRAY_HANDLE if is_class_known else _BYTE_ARRAY_CLASS
        out += _INT.pack(len(content)) + content
        is_class_known = True
    out.append(_END)
    return bytes(out)


def decode(content: bytes) -> dict[bytes, bytes | None]:
    """Raises ValueError for any other content."""
    start = _HEADER + _HASH_MAP
    if not content.startswith(start):
        raise ValueError("it is not a map that Java has written")
    at = len(start) + len(_LOAD_FACTOR) + _INT.size
    if content[at : at + len(_BLOCK)] != _BLOCK:
        raise ValueError("the map has another form")
    found: list[bytes | None] = []
    try:
        (count,) = _INT.unpack_from(content, at + len(_BLOCK) + _INT.size)
        at += len(_BLOCK) + 2 * _INT.size
        for _ in range(2 * count):
            item, at = _item(content, at)
            found.append(item)
    except struct.error:
        raise ValueError("it ends too early") from None
    pairs = zip(found[::2], found[1::2], strict=True)
    return {key: value for key, value in pairs if key is not None}


def _item(content: bytes, at: int) -> tuple[bytes | None, int]:
    if content[at : at + 1] == bytes([_NULL]):
        return None, at + 1
    if content[at : at + 1] != bytes([_ARRAY]):
        raise ValueError(f"the entry at byte {at} is neither null nor an array of bytes")
    for description in (_BYTE_ARRAY_CLASS, bytes([_REFERENCE]) + _BYTE_ARRAY_HANDLE):
        if content.startswith(description, at + 1):
            at += 1 + len(description)
            (length,) = _INT.unpack_from(content, at)
            at += _INT.size
            if length < 0 or at + length > len(content):
                raise ValueError(f"the entry at byte {at} is longer than the file")
            return content[at : at + length], at + length
    raise ValueError(f"the entry at byte {at} is not an array of bytes")


class OffsetFile:
    """Threads may share it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._records = self._load()

    def _load(self) -> dict[bytes, bytes | None]:
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ConnectError(
                f"{self._path} (offset.storage.file.filename) cannot be read: {error.strerror}"
            ) from error
        try:
            return decode(content) if content else {}
        except ValueError as error:
            raise ConnectError(
                f"{self._path} (offset.storage.file.filename) has no offsets of Kafka Connect: {error}; "
                "name another file"
            ) from error

    def records(self) -> dict[bytes, bytes | None]:
        with self._lock:
            return dict(self._records)

    def write(self, records: Sequence[KeyValue]) -> None:
        """Returns when they are durable. A tombstone removes its key. Raises RetriableError: a disk may be full."""
        with self._lock:
            changed = self._records | dict(records)
            changed = {key: value for key, value in changed.items() if value is not None}
            try:
                self._replace(encode(changed))
            except OSError as error:
                raise RetriableError(
                    f"{self._path} (offset.storage.file.filename) cannot be written: {error.strerror}"
                ) from error
            self._records = changed

    def _replace(self, content: bytes) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_name(f".{self._path.name}.new")
        with new.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)
