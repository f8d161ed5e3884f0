"""Records between a topic and an outside system, in groups of equal schema, as Arrow columns.

Each record of Connect has its own schema. A task works on thousands of records at a time, most of which look alike: it
sorts them into groups whose keys, values and headers have equal schemas, and works on whole columns of a group.

Owns the form of records. It must not know how they come about.

Invariants:
- All columns of a group have the same length.
- `rows` says which record of the task's input each row is; transforms keep it, so that an error, a dead letter or the
  order of two records of different groups can always be traced. It may repeat where one record became several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from penstock.connect.data.schema import Schema

CONNECT_ERRORS: Final = "org.apache.kafka.connect.errors"
DATA_EXCEPTION: Final = f"{CONNECT_ERRORS}.DataException"
SERIALIZATION_EXCEPTION: Final = "org.apache.kafka.common.errors.SerializationException"


@dataclass(frozen=True, slots=True)
class Column:
    """Keys, values or one header of a group.

    With a schema, `values` is of `schema.arrow_type`. Without one (`schema` is None) the type of `values` is the shape
    that all rows share: null, bool, int64, double, string, binary, a list, or a struct for a map with text keys. Maps
    without a schema and with equal keys have equal shapes; a key that is missing and one that is null are two shapes.
    A null within a map or a list has the shape of its neighbours: `{"a": 1}` and `{"a": null}` share a struct. A list
    whose elements have different shapes is a list of a dense union.
    Transforms may also leave int8, int16, int32 and float32, where Java has narrower numbers, and timestamp[ms], where
    Java has a java.util.Date, which converters refuse as Kafka Connect's do.
    """

    schema: Schema | None
    values: pa.Array

    def take(self, indices: pa.Array) -> Column:
        return Column(self.schema, self.values.take(indices))


@dataclass(frozen=True, slots=True)
class RecordGroup:
    """`partition` is null where the partitioner decides. `offset` is that of a record read from a topic, else None."""

    rows: pa.Array  # int64
    topic: pa.Array  # string
    partition: pa.Array  # int32
    timestamp: pa.Array  # int64, milliseconds; null: none
    key: Column
    value: Column
    headers: tuple[tuple[str, Column], ...] = ()
    offset: pa.Array | None = None  # int64

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, indices: pa.Array) -> RecordGroup:
        return RecordGroup(
            self.rows.take(indices),
            self.topic.take(indices),
            self.partition.take(indices),
            self.timestamp.take(indices),
            self.key.take(indices),
            self.value.take(indices),
            tuple((name, column.take(indices)) for name, column in self.headers),
            None if self.offset is None else self.offset.take(indices),
        )

    def filter(self, mask: pa.Array) -> RecordGroup:
        return self.take(pa.compute.indices_nonzero(mask).cast(pa.int64()))

    def with_value(self, value: Column) -> RecordGroup:
        return replace(self, value=value)

    def with_key(self, key: Column) -> RecordGroup:
        return replace(self, key=key)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why records could not be converted or transformed. Dead letters name `java_class`, as in Kafka."""

    rows: Sequence[int]
    message: str
    java_class: str = DATA_EXCEPTION
    cause: Any = None


@dataclass(frozen=True, slots=True)
class StepResult:
    """What became of a group: its records in new groups, and those that failed. A record in neither was dropped."""

    groups: Sequence[RecordGroup]
    failures: Sequence[Failure] = ()
