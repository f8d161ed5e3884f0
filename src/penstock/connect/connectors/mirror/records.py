"""The records of MirrorMaker 2's own topics: offset syncs, checkpoints and heartbeats.

Owns their bytes, which are Kafka's generic `Struct` encoding: numbers are big-endian, a text is its length in two bytes
and UTF-8. Values of checkpoints and heartbeats begin with a version. MirrorMaker 2 and its client read what is written
here, and the other way round.

It must not know what the records mean for a group.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from penstock.core.ids import TopicPartition

_VERSION: Final = 0
_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")


class MalformedRecord(ValueError):
    """The bytes are no record of this kind, or one of a later version."""


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """The record at `upstream_offset` of the source's partition is at `downstream_offset` of the target's."""

    partition: TopicPartition
    """Of the source cluster."""
    upstream_offset: int
    downstream_offset: int

    def encode(self) -> tuple[bytes, bytes]:
        key = _text(self.partition.topic) + _INT.pack(self.partition.partition)
        return key, _LONG.pack(self.upstream_offset) + _LONG.pack(self.downstream_offset)

    @classmethod
    def decode(cls, key: bytes, value: bytes) -> OffsetSync:
        """Raises MalformedRecord."""
        reader = _Reader(key)
        partition = TopicPartition(reader.text(), reader.number(_INT))
        reader = _Reader(value)
        return cls(partition, reader.number(_LONG), reader.number(_LONG))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where a group stands: its offset in the source's partition, and the translated one in the target's."""

    group: str
    partition: TopicPartition
    """Of the target cluster, so with the name of the remote topic."""
    upstream_offset: int
    downstream_offset: int
    metadata: str = ""

    def encode(self) -> tuple[bytes, bytes]:
        key = _text(self.group) + _text(self.partition.topic) + _INT.pack(self.partition.partition)
        value = _SHORT.pack(_VERSION) + _LONG.pack(self.upstream_offset) + _LONG.pack(self.downstream_offset)
        return key, value + _text(self.metadata)

    @classmethod
    def decode(cls, key: bytes, value: bytes) -> Checkpoint:
        """Raises MalformedRecord."""
        reader = _Reader(key)
        group = reader.text()
        partition = TopicPartition(reader.text(), reader.number(_INT))
        reader = _Reader(value)
        reader.version()
        return cls(group, partition, reader.number(_LONG), reader.number(_LONG), reader.text())


@dataclass(frozen=True, slots=True)
class Heartbeat:
    source_alias: str
    target_alias: str
    timestamp_ms: int

    def encode(self) -> tuple[bytes, bytes]:
        key = _text(self.source_alias) + _text(self.target_alias)
        return key, _SHORT.pack(_VERSION) + _LONG.pack(self.timestamp_ms)

    @classmethod
    def decode(cls, key: bytes, value: bytes) -> Heartbeat:
        """Raises MalformedRecord."""
        reader = _Reader(key)
        source, target = reader.text(), reader.text()
        reader = _Reader(value)
        reader.version()
        return cls(source, target, reader.number(_LONG))


def _text(text: str) -> bytes:
    content = text.encode()
    return _SHORT.pack(len(content)) + content


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._position = 0

    def number(self, form: struct.Struct) -> int:
        return int(form.unpack(self._take(form.size))[0])

    def text(self) -> str:
        try:
            return self._take(self.number(_SHORT)).decode()
        except UnicodeDecodeError as mistake:
            raise MalformedRecord(f"a text is not UTF-8: {mistake}") from mistake

    def version(self) -> None:
        version = self.number(_SHORT)
        if version != _VERSION:
            raise MalformedRecord(f"version {version} is unknown")

    def _take(self, size: int) -> bytes:
        end = self._position + size
        if size < 0 or end > len(self._content):
            raise MalformedRecord(f"{len(self._content)} bytes are too short")
        taken = self._content[self._position : end]
        self._position = end
        return taken
