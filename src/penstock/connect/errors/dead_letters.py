"""Dead letters of connectors: the original record, and headers that say what failed.

The headers are those of Kafka's DeadLetterQueueReporter, so that tools for Kafka Connect's dead letters read ours.
`penstock dead-letters` reads them too (`client/dead_letters`).

Owns the form of a letter. It must not know who decides about it, nor who writes it.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from penstock.connect.errors.stage import StagedFailure
from penstock.core import connect_dead_letters as names

_TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")
_NO_TIMESTAMP: Final = -1
_HEADERS: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)
LETTER_SCHEMA: Final = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", _HEADERS),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC")),
    ]
)


def places_of(originals: pa.RecordBatch) -> Callable[[int], int]:
    """Where the record of a failure is: by the column `row`, if there is one."""
    rows = _column(originals, "row")
    if rows is None:
        return lambda row: row
    places = {row: place for place, row in enumerate(rows.to_pylist())}
    return places.__getitem__


def dead_letters(
    failures: Sequence[tuple[int, StagedFailure]],
    originals: pa.RecordBatch,
    connector: str,
    task: int,
    *,
    context_headers: bool,
) -> pa.RecordBatch:
    """A letter for each row of `originals` that failed. A letter goes to the partition that its key chooses."""
    rows = pa.array([row for row, _failed in failures], pa.int64())
    taken = originals.take(rows)
    headers = _column(taken, "headers")
    own = [None] * len(rows) if headers is None else headers.to_pylist()
    context: list[list[tuple[str, bytes]]] = [[] for _ in failures]
    if context_headers:
        places = zip(*(_cells(taken, name) for name in ("topic", "partition", "offset")), strict=True)
        context = [
            list(_context(failed, place, connector, task))
            for (_row, failed), place in zip(failures, places, strict=True)
        ]
    written = [
        [*((header["key"], header["value"]) for header in before or ()), *added]
        for before, added in zip(own, context, strict=True)
    ]
    pairs = [[{"key": name, "value": value} for name, value in each] for each in written]
    return pa.RecordBatch.from_arrays(
        [
            taken.column("key"),
            taken.column("value"),
            pa.array(pairs, _HEADERS),
            _timestamps(taken),
        ],
        schema=LETTER_SCHEMA,
    )


def _timestamps(records: pa.RecordBatch) -> pa.Array:
    milliseconds = records.column("timestamp").cast(pa.timestamp("ms", tz="UTC"), safe=False)
    numbers = milliseconds.cast(pa.int64())
    missing = pa.compute.equal(numbers, _NO_TIMESTAMP)
    return pa.compute.if_else(missing, pa.scalar(None, milliseconds.type), milliseconds)


def _context(
    failed: StagedFailure, place: tuple[Any, Any, Any], connector: str, task: int
) -> Iterator[tuple[str, bytes]]:
    failure = failed.failure
    topic, partition, offset = place
    if offset is None:
        partition = None  # the record of a source, which has no place in a topic yet
    for name, value in (
        (names.TOPIC, topic),
        (names.PARTITION, partition),
        (names.OFFSET, offset),
        (names.CONNECTOR_NAME, connector),
        (names.TASK_ID, task),
        (names.STAGE, failed.stage.value),
        (names.CLASS_NAME, failed.executing_class),
        (names.EXCEPTION_CLASS, failure.java_class),
        (names.EXCEPTION_MESSAGE, failure.message),
        (names.EXCEPTION_STACKTRACE, _stacktrace(failure.java_class, failure.message, failure.cause)),
    ):
        if value is not None:
            yield name, str(value).encode()


def _stacktrace(java_class: str, message: str, cause: Any) -> str:
    text = f"{java_class}: {message}\n"
    if isinstance(cause, BaseException):
        return text + "Caused by: " + "".join(traceback.format_exception(cause))
    return text if cause is None else f"{text}Caused by: {cause}\n"


def where(originals: pa.RecordBatch, row: int, *, as_record: bool = False) -> str:
    """The place of a record for a message; empty where it was not read from a topic."""
    topic, partition, offset = (_cell(originals, name, row) for name in ("topic", "partition", "offset"))
    if not as_record:
        return "" if offset is None else f", topic {topic} partition {partition} offset {offset}"
    if offset is None:
        key, value = (_cell(originals, name, row) for name in ("key", "value"))
        return f", where source record is = {{topic='{topic}', key={key!r}, value={value!r}}}"
    record = f", where consumed record is {{topic='{topic}', partition={partition}, offset={offset}"
    timestamp = _timestamps(originals.slice(row, 1)).cast(pa.int64())[0].as_py()
    kind = _cell(originals, "timestampType", row) or 0
    if timestamp is not None:
        record += f", timestamp={timestamp}, timestampType={_TIMESTAMP_TYPES[kind]}"
    return record + "}"


def _cells(records: pa.RecordBatch, name: str) -> list[Any]:
    column = _column(records, name)
    return [None] * records.num_rows if column is None else column.to_pylist()


def _cell(records: pa.RecordBatch, name: str, row: int) -> Any:
    column = _column(records, name)
    return None if column is None else column[row].as_py()


def _column(records: pa.RecordBatch, name: str) -> Any:
    index = records.schema.get_field_index(name)
    return None if index < 0 else records.column(index)
