"""Raw records to groups of equal schema, and groups back to raw records.

A record is converted in three parts, as in Kafka Connect: key, value and headers. Each part sorts the records of a
batch into groups of its own; a RecordGroup has the records that are together in all of them.

Owns the assembly of the parts. It must not know formats, which converters know, nor what happens to failures.

Invariants:
- Each row of a batch is in one group or in one failure. A record fails at its first stage only: key, value, headers
  when it is read; headers, key, value when it is written, as in Kafka Connect.
- Rows of a group are in the order of the batch. `to_raw` returns records in the order of `rows`, and those of one row
  in the order of the groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.connect.converters.configured import Converters
from penstock.connect.converters.converter import FromTopic, ToTopic
from penstock.connect.converters.json.writing import JsonWriter
from penstock.connect.data.records import Column, Failure, RecordGroup
from penstock.connect.errors.stage import Stage, StagedFailure

_HEADERS: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)
RAW_SCHEMA: Final = pa.schema(
    [
        pa.field("row", pa.int64()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", _HEADERS),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC")),
    ]
)
"""What `to_raw` returns. `ColumnEncoder.encode` takes it as it is, for the records of one topic (`by_topic`)."""

_Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Assembled:
    groups: Sequence[RecordGroup]
    failures: Sequence[StagedFailure] = ()


@dataclass(frozen=True, slots=True)
class Raw:
    """`records` is of RAW_SCHEMA. `rows` of failures are those of the groups."""

    records: pa.RecordBatch
    failures: Sequence[StagedFailure] = ()


# Topic to groups


@dataclass(slots=True)
class _Part:
    """One part of all records: for each row the number of its group, and its place there. -1: not in a group."""

    columns: list[Column]
    group: _Rows
    place: _Rows


def to_groups(batch: pa.RecordBatch, converters: Converters) -> Assembled:
    """`batch` has the columns of `penstock.columns.decoding`; `headers` may be missing. `rows` are its row numbers."""
    count = batch.num_rows
    topics = batch.column("topic")
    failures: list[StagedFailure] = []
    alive = np.ones(count, np.bool_)

    def part(converted: FromTopic, stage: Stage, executing_class: str, rows: _Rows | None = None) -> _Part:
        failures.extend(_first_failures(converted.failures, rows, alive, stage, executing_class))
        return _part(converted, rows, count)

    key = part(converters.key.to_connect(topics, batch.column("key")), Stage.KEY_CONVERTER, converters.key_class)
    value = part(
        converters.value.to_connect(topics, batch.column("value")), Stage.VALUE_CONVERTER, converters.value_class
    )
    signatures = list(_header_signatures(batch))
    headers = [
        [
            part(converters.header.to_connect(name, payloads), Stage.HEADER_CONVERTER, converters.header_class, rows)
            for name, payloads in named
        ]
        for rows, named in signatures
    ]
    groups = []
    for (rows, named), parts in zip(signatures, headers, strict=True):
        for chosen in _combinations([key, value, *parts], rows[alive[rows]]):
            key_column, value_column, *header_columns = (_taken(each, chosen) for each in (key, value, *parts))
            names = (name for name, _payloads in named)
            groups.append(
                _group(batch, chosen, key_column, value_column, tuple(zip(names, header_columns, strict=True)))
            )
    return Assembled(groups, failures)


def _part(converted: FromTopic, rows: _Rows | None, count: int) -> _Part:
    """`rows` are the rows of the batch that were converted; None for all of them."""
    group, place = np.full(count, -1, np.int64), np.zeros(count, np.int64)
    for number, each in enumerate(converted.groups):
        its_rows = _numbers(each.rows)
        if rows is not None:
            its_rows = rows[its_rows]
        group[its_rows] = number
        place[its_rows] = np.arange(len(its_rows))
    return _Part([each.column for each in converted.groups], group, place)


def _combinations(parts: Sequence[_Part], rows: _Rows) -> Iterator[_Rows]:
    """The rows that are in the same group in all parts."""
    if not len(rows):
        return
    label = np.zeros(len(rows), np.int64)
    for part in parts:
        if len(part.columns) > 1:
            # Renumbered each time, so that many parts do not overflow.
            _, label = np.unique(label * len(part.columns) + part.group[rows], return_inverse=True)
    last = int(label.max())
    if last == 0:
        yield rows
        return
    order = np.argsort(label, kind="stable")
    yield from np.split(rows[order], np.searchsorted(label[order], np.arange(1, last + 1)))


def _taken(part: _Part, rows: _Rows) -> Column:
    column = part.columns[int(part.group[rows[0]])]
    places = part.place[rows]
    if len(places) == len(column.values) and np.array_equal(places, np.arange(len(places))):
        return column
    return column.take(pa.array(places))


def _group(
    batch: pa.RecordBatch, rows: _Rows, key: Column, value: Column, headers: tuple[tuple[str, Column], ...]
) -> RecordGroup:
    indices = pa.array(rows)
    is_whole = len(rows) == batch.num_rows

    def column(name: str) -> Any:
        return batch.column(name) if is_whole else batch.column(name).take(indices)

    milliseconds = column("timestamp").cast(pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64())
    # NO_TIMESTAMP of Kafka.
    timestamp = pc.if_else(pc.less(milliseconds, 0), pa.scalar(None, pa.int64()), milliseconds)
    return RecordGroup(indices, column("topic"), column("partition"), timestamp, key, value, headers, column("offset"))


def _header_signatures(batch: pa.RecordBatch) -> Iterator[tuple[_Rows, list[tuple[str, pa.Array]]]]:
    """For each sequence of header names: the rows that have it, and the payloads of each header."""
    every_row = np.arange(batch.num_rows)
    index = batch.schema.get_field_index("headers")
    if index < 0:
        yield every_row, []
        return
    headers = batch.column(index)
    counts = _numbers(pc.fill_null(pc.list_value_length(headers), 0))
    if not counts.any():
        yield every_row, []
        return
    flat = headers.flatten()
    names = flat.field("key").dictionary_encode()
    codes = _numbers(names.indices)
    starts = np.cumsum(counts) - counts
    for count in np.unique(counts).tolist():
        rows = np.flatnonzero(counts == count)
        if count == 0:
            yield rows, []
            continue
        places = starts[rows][:, None] + np.arange(count)
        for signature, mine in _equal_rows(codes[places]):
            yield (
                rows[mine],
                [
                    (names.dictionary[code].as_py(), flat.field("value").take(pa.array(places[mine, nth])))
                    for nth, code in enumerate(signature)
                ],
            )


def _equal_rows(table: _Rows) -> Iterator[tuple[list[int], _Rows]]:
    """The distinct rows of a table of small numbers, and where they are."""
    if (table == table[0]).all():
        yield table[0].tolist(), np.arange(len(table))
        return
    distinct, which = np.unique(table, axis=0, return_inverse=True)
    for number, row in enumerate(distinct.tolist()):
        yield row, np.flatnonzero(which.ravel() == number)


# Groups to topic


def to_raw(groups: Sequence[RecordGroup], converters: Converters) -> Raw:
    """Converts headers, keys and values of all groups, and puts their records into the order of `rows`."""
    failures: list[StagedFailure] = []
    batches = [_raw_group(group, converters, failures) for group in groups if len(group)]
    if not batches:
        return Raw(pa.RecordBatch.from_pylist([], RAW_SCHEMA), failures)
    records = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    rows = _numbers(records.column("row"))
    if (np.diff(rows) < 0).any():
        records = records.take(pa.array(np.argsort(rows, kind="stable")))
    return Raw(records, failures)


def to_originals(groups: Sequence[RecordGroup], converters: Converters) -> pa.RecordBatch:
    """What is kept of a source's records as dead letters: what they are converted to, before any transform.

    A part that cannot be converted is written as JSON without a schema, so that a person can read it. The batch is of
    RAW_SCHEMA; its column `row` says which record is which.
    """
    batches = [_raw_group(group, converters, None) for group in groups if len(group)]
    return pa.concat_batches(batches) if batches else pa.RecordBatch.from_pylist([], RAW_SCHEMA)


def by_topic(records: pa.RecordBatch) -> Mapping[str, pa.RecordBatch]:
    """The records of each topic, in their order."""
    topics = records.column("topic").dictionary_encode()
    if len(topics.dictionary) == 1:
        return {topics.dictionary[0].as_py(): records}
    codes = _numbers(topics.indices)
    return {
        topic: records.take(pa.array(np.flatnonzero(codes == number)))
        for number, topic in enumerate(topics.dictionary.to_pylist())
    }


def _raw_group(group: RecordGroup, converters: Converters, failures: list[StagedFailure] | None) -> pa.RecordBatch:
    """Without a list of failures, all records are returned."""
    alive = np.ones(len(group), np.bool_)
    rows = _numbers(group.rows)

    def payloads(column: Column, converted: ToTopic, stage: Stage, executing_class: str) -> pa.Array:
        if failures is None:
            return _readable(column, converted)
        for failed in _first_failures(converted.failures, None, alive, stage, executing_class):
            its_rows = rows[np.asarray(failed.failure.rows)].tolist()
            failures.append(StagedFailure(stage, executing_class, _with_rows(failed.failure, its_rows)))
        return converted.payloads

    header_payloads = [
        payloads(column, converters.header.from_connect(name, column), Stage.HEADER_CONVERTER, converters.header_class)
        for name, column in group.headers
    ]
    key_payloads = converters.key.from_connect(group.topic, group.key)
    key = payloads(group.key, key_payloads, Stage.KEY_CONVERTER, converters.key_class)
    value_payloads = converters.value.from_connect(group.topic, group.value)
    value = payloads(group.value, value_payloads, Stage.VALUE_CONVERTER, converters.value_class)
    records = pa.RecordBatch.from_arrays(
        [
            group.rows,
            group.topic,
            group.partition,
            key,
            value,
            _interleaved([name for name, _column in group.headers], header_payloads, len(group)),
            group.timestamp.cast(pa.timestamp("ms", tz="UTC")),
        ],
        schema=RAW_SCHEMA,
    )
    return records if alive.all() else records.filter(pa.array(alive))


def _readable(column: Column, converted: ToTopic) -> pa.Array:
    failed = [row for failure in converted.failures for row in failure.rows]
    if not failed:
        return converted.payloads
    texts, _forbidden = JsonWriter().texts(column.schema, column.values)
    is_failed = np.isin(np.arange(len(texts)), failed)
    return pc.if_else(pa.array(is_failed), texts.cast(pa.binary()), converted.payloads)


def _interleaved(names: Sequence[str], payloads: Sequence[pa.Array], count: int) -> pa.Array:
    """A column of headers: each row has all names."""
    width = len(names)
    offsets = pa.array(np.arange(0, width * count + 1, max(width, 1), dtype=np.int32) if width else [0] * (count + 1))
    if not width:
        empty = pa.array([], _HEADERS.value_type)
        return pa.ListArray.from_arrays(offsets.cast(pa.int32()), empty, type=_HEADERS)
    places = (np.arange(width) * count + np.arange(count)[:, None]).ravel()
    values = pa.concat_arrays(payloads).take(pa.array(places))
    keys = pa.array(names, pa.string()).take(pa.array(np.tile(np.arange(width), count)))
    pairs = pa.StructArray.from_arrays([keys, values], fields=list(_HEADERS.value_type))
    return pa.ListArray.from_arrays(offsets, pairs, type=_HEADERS)


# Both ways


def _first_failures(
    failures: Sequence[Failure], rows: _Rows | None, alive: NDArray[np.bool_], stage: Stage, executing_class: str
) -> Iterator[StagedFailure]:
    """Failures of records that have not failed before; they are marked in `alive`."""
    for failure in failures:
        its_rows = np.asarray(failure.rows, np.int64)
        if rows is not None:
            its_rows = rows[its_rows]
        new = np.unique(its_rows[alive[its_rows]])
        if len(new):
            alive[new] = False
            yield StagedFailure(stage, executing_class, _with_rows(failure, new.tolist()))


def _with_rows(failure: Failure, rows: Sequence[int]) -> Failure:
    return Failure(rows, failure.message, failure.java_class, failure.cause)


def _numbers(array: pa.Array) -> _Rows:
    return np.asarray(array.to_numpy(zero_copy_only=False)).astype(np.int64, copy=False)
