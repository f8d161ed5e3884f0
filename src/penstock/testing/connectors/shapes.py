"""Records for sinks under test: each has a number, which the adapter finds again in the outside system.

Owns the schemas and values of these records, and their groups. It must not know connectors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from penstock.connect.data.records import Column, RecordGroup
from penstock.connect.data.schema import BYTES, INT64, STRING, Schema, struct
from penstock.core.ids import TopicPartition

_TIMESTAMP_MS: Final = 1_700_000_000_000
_NUMBER: Final = re.compile(r"record (\d+)")


@dataclass(frozen=True, slots=True)
class RecordShape:
    """A schema of keys and values (None: without a schema), and the key and value of the record with a number."""

    name: str
    value_schema: Schema | None
    value: Callable[[int], Any]
    key_schema: Schema | None = None
    key: Callable[[int], Any] = lambda _number: None


def text_of(number: int) -> str:
    return f"record {number}"


def number_in(text: str) -> int | None:
    """The number of the record whose text is in `text`; None if there is none."""
    found = _NUMBER.search(text)
    return None if found is None else int(found[1])


def _fields(number: int) -> dict[str, Any]:
    return {"number": number, "text": text_of(number), "note": None if number % 3 else "third"}


_STRUCT: Final = struct({"number": INT64, "text": STRING, "note": STRING.optional()})

TEXT: Final = RecordShape("text", STRING, text_of)
BYTES_VALUE: Final = RecordShape("bytes", BYTES, lambda number: text_of(number).encode())
NUMBER: Final = RecordShape("number", INT64, lambda number: number)
STRUCT: Final = RecordShape("struct", _STRUCT, _fields)
"""The fields `number`, `text` and `note`, which is null in two of three records."""
OTHER_STRUCT: Final = RecordShape(
    "other_struct",
    struct({"number": INT64, "text": STRING, "note": STRING.optional(), "extra": INT64.optional()}),
    lambda number: {**_fields(number), "extra": number if number % 2 else None},
)
"""STRUCT with one more field, as after a change of the schema."""
KEYED: Final = RecordShape("keyed", _STRUCT, _fields, struct({"id": INT64}), lambda number: {"id": number})
"""STRUCT with a key, a struct with the field `id`."""
NESTED: Final = RecordShape(
    "nested",
    struct({"number": INT64, "inner": struct({"text": STRING})}),
    lambda number: {"number": number, "inner": {"text": text_of(number)}},
)
SCHEMALESS: Final = RecordShape(
    "schemaless", None, lambda number: {"number": number, "text": text_of(number)}, STRING, text_of
)

ALL_SHAPES: Final = (TEXT, BYTES_VALUE, NUMBER, STRUCT, OTHER_STRUCT, KEYED, NESTED, SCHEMALESS)


@dataclass(frozen=True, slots=True)
class Record:
    """`key_number` is the number whose key it has, if that is not its own."""

    number: int
    shape: RecordShape
    is_tombstone: bool = False
    key_number: int | None = None


def groups_of(partition: TopicPartition, start_offset: int, records: Sequence[Record]) -> list[RecordGroup]:
    """Records that follow each other in a partition, in groups of equal schema, as a task makes them."""
    numbers: dict[tuple[str, bool], list[int]] = {}
    for row, record in enumerate(records):
        numbers.setdefault((record.shape.name, record.is_tombstone), []).append(row)
    return [_group(partition, start_offset, rows, [records[row] for row in rows]) for rows in numbers.values()]


def _group(partition: TopicPartition, start_offset: int, rows: Sequence[int], records: Sequence[Record]) -> RecordGroup:
    count, shape = len(records), records[0].shape
    keys = [shape.key(each.number if each.key_number is None else each.key_number) for each in records]
    if records[0].is_tombstone:
        value = Column(None, pa.nulls(count))
    else:
        value = _column(shape.value_schema, [shape.value(each.number) for each in records])
    return RecordGroup(
        rows=pa.array(rows, pa.int64()),
        topic=pa.array([partition.topic] * count, pa.string()),
        partition=pa.array([partition.partition] * count, pa.int32()),
        timestamp=pa.array([_TIMESTAMP_MS + each.number for each in records], pa.int64()),
        key=_column(shape.key_schema, keys),
        value=value,
        offset=pa.array([start_offset + row for row in rows], pa.int64()),
    )


def _column(schema: Schema | None, values: Sequence[Any]) -> Column:
    return Column(schema, pa.array(values, None if schema is None else schema.arrow_type))
