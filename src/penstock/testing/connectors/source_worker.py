"""A source's worker in one process: plans slices, reads them, keeps their records and offsets in one commit.

It does what `connect/runtime` does around a connector, and stops reading where a test says. Committed records and
offsets outlive it.

Invariants:
- Whatever passes between driver and tasks is pickled, and offsets are JSON between runs.
- The records of a slice and its last offset are committed together, or not at all.
"""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.connect.connector import Slice, SourceConnector, SourceOffset, SourcePartition, SourceRows, partition_key
from penstock.connect.data.records import Column, RecordGroup

_SHORT_POLL_S: Final = 0.05


@dataclass(slots=True)
class Committed:
    """What the cluster keeps: values of records in their order by source partition, and offsets as JSON."""

    values: dict[str, list[Any]] = field(default_factory=dict)
    offsets: dict[str, str] = field(default_factory=dict)

    def copy(self) -> Committed:
        return Committed({key: list(values) for key, values in self.values.items()}, dict(self.offsets))

    def add(self, moved: Moved) -> None:
        for key, values in moved.values.items():
            self.values.setdefault(key, []).extend(values)
        self.offsets.update({key: json.dumps(offset) for key, (_, offset) in moved.offsets.items()})

    def all_values(self) -> list[Any]:
        return [value for values in self.values.values() for value in values]


@dataclass(slots=True)
class Moved:
    """What one transaction has: the records of a slice, or of its beginning."""

    values: dict[str, list[Any]] = field(default_factory=dict)
    offsets: dict[str, tuple[SourcePartition, SourceOffset]] = field(default_factory=dict)


class SourceWorker:
    def __init__(self, connector: SourceConnector, committed: Committed) -> None:
        self.connector = connector
        self._committed = committed

    def plan(self) -> list[Slice]:
        """A source that asks its system at intervals may have nothing to say before the next one is over."""
        offsets = {key: json.loads(text) for key, text in self._committed.offsets.items()}
        slices = list(self.connector.plan(offsets))
        if not slices and self.connector.poll_interval_s <= _SHORT_POLL_S:
            time.sleep(self.connector.poll_interval_s)
            slices = list(self.connector.plan(offsets))
        keys = [partition_key(each.partition) for each in slices]
        assert len(set(keys)) == len(keys), f"two slices of one source partition: {keys}"
        return slices

    def read(self, slice_: Slice) -> Generator[Moved, None, None]:
        """In a task: what would be committed if the slice ended behind each of its offsets."""
        copy, own = pickle.loads(pickle.dumps((self.connector, slice_)))  # noqa: S301 (our own)
        moved = Moved()
        for together in _with_one_offset(copy.read(own)):
            partition = own.partition if together[0].partition is None else together[0].partition
            check_json(partition, together[0].offset)
            key = partition_key(partition)
            moved.values.setdefault(key, []).extend(_in_order(together))
            moved.offsets[key] = (partition, together[0].offset)
            yield Moved({each: list(values) for each, values in moved.values.items()}, dict(moved.offsets))

    def move(self, slice_: Slice) -> int:
        """Reads and commits a slice. Returns the number of its records."""
        moved = Moved()
        for moved in self.read(slice_):  # noqa: B007 (the last one)
            pass
        self._committed.add(moved)
        if moved.offsets:
            self.connector.committed({key: offset for key, (_, offset) in moved.offsets.items()})
        return sum(map(len, moved.values.values()))

    def drain(self, rounds_max: int = 50) -> None:
        """Until there is nothing to read."""
        for _ in range(rounds_max):
            slices = self.plan()
            if not slices:
                return
            for each in slices:
                self.move(each)
        raise AssertionError(f"the source still plans slices after {rounds_max} rounds; plan returns none at the end")


def check_json(partition: SourcePartition, offset: SourceOffset) -> None:
    assert json.loads(json.dumps(dict(partition))) == dict(partition), f"not JSON: partition {partition}"
    assert json.loads(json.dumps(dict(offset))) == dict(offset), f"not JSON: offset {offset}"
    nested = [name for name, value in partition.items() if isinstance(value, dict | list)]
    assert nested == [], f"values of a source partition are neither lists nor objects: {nested}"


def check_group(group: RecordGroup) -> None:
    """What a task relies on: types by schema, and columns of one length."""
    columns = [group.rows, group.topic, group.partition, group.timestamp, group.key.values, group.value.values]
    columns += [column.values for _, column in group.headers]
    assert {len(each) for each in columns} == {len(group)}, "columns of a group have one length"
    types = [str(each.type) for each in columns[:4]]
    assert types == ["int64", "string", "int32", "int64"], f"rows, topic, partition and timestamp are {types}"
    for column in (group.key, group.value, *(column for _, column in group.headers)):
        _check_column(column)
    assert group.topic.null_count == 0, "each record has a topic"


def _check_column(column: Column) -> None:
    if column.schema is not None:
        assert column.values.type.equals(column.schema.arrow_type), (
            f"a column of {column.schema} has the type {column.schema.arrow_type}, not {column.values.type}"
        )


def _in_order(together: Sequence[SourceRows]) -> list[Any]:
    values: list[tuple[int, Any]] = []
    for each in together:
        check_group(each.group)
        found = each.group.value.values.to_pylist(maps_as_pydicts="lossy")
        values += zip(each.group.rows.to_pylist(), found, strict=True)
    return [value for _, value in sorted(values, key=lambda pair: pair[0])]


def _with_one_offset(read: Iterator[SourceRows]) -> Iterator[list[SourceRows]]:
    """Groups that share the object of their offset were read together, and `rows` is their order."""
    together: list[SourceRows] = []
    for rows in read:
        if together and (rows.offset is not together[0].offset or rows.partition is not together[0].partition):
            yield together
            together = []
        together.append(rows)
    if together:
        yield together
