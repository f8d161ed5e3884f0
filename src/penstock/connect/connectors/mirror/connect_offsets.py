"""Source partitions and source offsets of the mirror connectors, as MirrorMaker 2 writes them to the offsets topic.

A copied partition is `{"cluster": alias, "partition": 0, "topic": "orders"}`, and `{"offset": 41}` is the offset of the
last record that was copied. Checkpoints and heartbeats have no position: their offset is always 0.

Owns these forms and their checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from penstock.connect.connector import ConnectError, SourceOffset, SourcePartition
from penstock.core.ids import TopicPartition

_OFFSET: Final = "offset"
NO_POSITION: Final[SourceOffset] = {_OFFSET: 0}

_Changes = Sequence[tuple[SourcePartition, SourceOffset | None]]


def copied_partition(alias: str, partition: TopicPartition) -> dict[str, Any]:
    return {"cluster": alias, "partition": partition.partition, "topic": partition.topic}


def copied_up_to(last_offset: int) -> dict[str, Any]:
    return {_OFFSET: last_offset}


def next_offset(offset: SourceOffset) -> int:
    """Where reading continues. Raises ConnectError."""
    return _whole_number(offset) + 1


def check_copied(offsets: _Changes) -> None:
    """Raises ConnectError."""
    for partition, offset in offsets:
        _check_fields(partition, {"cluster": str, "partition": int, "topic": str})
        if partition["partition"] < 0:
            raise ConnectError(f"partition {partition['partition']} of topic '{partition['topic']}' is negative")
        if offset is not None:
            _whole_number(offset)


def check_without_position(offsets: _Changes, fields: dict[str, type]) -> None:
    """Raises ConnectError."""
    for partition, offset in offsets:
        _check_fields(partition, fields)
        if offset is not None and _whole_number(offset) != 0:
            raise ConnectError("this connector has no positions: the offset must be 0, or null to remove it")


def _check_fields(partition: SourcePartition, fields: dict[str, type]) -> None:
    for name, kind in fields.items():
        value = partition.get(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            expected = "a whole number" if kind is int else "a text"
            raise ConnectError(f"a source partition must have the key '{name}' with {expected}: {dict(partition)}")


def _whole_number(offset: SourceOffset) -> int:
    value = offset.get(_OFFSET)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ConnectError(f"a source offset must have the key '{_OFFSET}' with a whole number from 0: {dict(offset)}")
    return value
