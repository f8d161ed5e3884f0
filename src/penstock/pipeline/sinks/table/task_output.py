"""The output of a task: its rows and its dead letters, small ones in the message itself, large ones staged.

Owns the split of a task's batches into good rows and dead letters, and the form of the message. It must never know a
database.

Invariant: a partition is never held in memory as a whole, and the size of a message is bounded.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import WriterCommitMessage

from penstock.pipeline.rows.dead_letters import DEAD_LETTER
from penstock.pipeline.sinks.table.column_types import Column, arrow_schema, cast_batches, plain_type
from penstock.pipeline.sinks.table.errors import TableRefused

INLINE_BYTES_MAX: Final = 64 * 1024
_SPOOL_BYTES_IN_MEMORY: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Relation:
    """Rows of one shape on their way into a table. `name` is short: it becomes part of names."""

    name: str
    columns: tuple[Column, ...]

    @property
    def schema(self) -> Any:
        return arrow_schema(self.columns)


DEAD_LETTERS: Final = Relation(
    "dead",
    (
        Column("key", plain_type("binary")),
        Column("value", plain_type("binary")),
        Column("reason", plain_type("string")),
        Column("stage", plain_type("string")),
        Column("topic", plain_type("string")),
        Column("partition", plain_type("int")),
        Column("offset", plain_type("bigint")),
    ),
)
"""The fields of the struct column `__dead_letter`, which is null in good rows. A field may be missing: it is null."""


@dataclass(frozen=True, slots=True)
class Portion:
    """So many rows: in `inline` as an Arrow stream, in the file `path`, already in the transaction that the driver
    holds open (`landed`), or, with none of these, in a staging table."""

    rows: int
    inline: bytes | None = None
    path: str | None = None
    landed: bool = False

    @property
    def is_staged(self) -> bool:
        return self.rows > 0 and self.inline is None and not self.landed


NOTHING: Final = Portion(0, b"")


@dataclass
class TaskOutput(WriterCommitMessage):
    """The message of a successful task to the commit. `task` is unique in a run of Spark."""

    attempt: str
    query_id: str
    task: int
    rows: Portion = NOTHING
    dead: Portion = NOTHING

    def portion(self, relation: Relation) -> Portion:
        return self.dead if relation == DEAD_LETTERS else self.rows


class SplitRows:
    """Iterates over the good rows; the dead ones are put aside meanwhile, in a file when they are many."""

    def __init__(self, batches: Iterable[Any], rows: Relation, key: Sequence[str]) -> None:
        self._batches = batches
        self._rows = rows
        self._key = key
        self._spool: IO[bytes] | None = None
        self._writer: Any = None
        self.dead_rows = 0

    def __iter__(self) -> Iterator[Any]:
        return cast_batches(self._good_rows(), self._rows.schema)

    def _good_rows(self) -> Iterator[Any]:
        for batch in self._batches:
            good = self._without_dead(batch) if DEAD_LETTER in batch.schema.names else batch
            if good.num_rows:
                self._refuse_null_key(good)
                yield good

    def _without_dead(self, batch: Any) -> Any:
        at = batch.schema.get_field_index(DEAD_LETTER)
        letters = batch.column(at)
        good = batch.remove_column(at)
        if letters.null_count == batch.num_rows:
            return good
        is_dead = pc.is_valid(letters)
        self._put_aside(letters.filter(is_dead))
        return good.filter(pc.invert(is_dead))

    def _put_aside(self, letters: Any) -> None:
        schema = DEAD_LETTERS.schema
        given = {field.name for field in letters.type}
        columns = [
            pc.struct_field(letters, field.name).cast(field.type)
            if field.name in given
            else pa.nulls(len(letters), field.type)
            for field in schema
        ]
        if self._writer is None:
            self._spool = tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES_IN_MEMORY)  # noqa: SIM115 (closed below)
            self._writer = pa.ipc.new_stream(self._spool, schema)
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
        self.dead_rows += len(letters)

    def dead_letters(self) -> Iterator[Any]:
        """To be asked for when the good rows have been read to their end, and to be read to its own."""
        if self._writer is None or self._spool is None:
            return
        self._writer.close()
        self._spool.seek(0)
        with self._spool, pa.ipc.open_stream(self._spool) as reader:
            yield from reader

    def _refuse_null_key(self, batch: Any) -> None:
        for name in self._key:
            if batch.column(name).null_count:
                raise TableRefused(
                    f"a row has no {name}, which is part of the key; filter it in the transform:"
                    f" WHERE {name} IS NOT NULL"
                )


def inline_or_rest(batches: Iterator[Any], schema: Any) -> Portion | Iterator[Any]:
    """A portion if there are few bytes; else all batches, those that were looked at first."""
    first: list[Any] = []
    for batch in batches:
        first.append(batch)
        if sum(each.nbytes for each in first) > INLINE_BYTES_MAX:
            return _chained(first, batches)
    if not first:
        return NOTHING
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in first:
            writer.write_batch(batch)
    return Portion(sum(batch.num_rows for batch in first), sink.getvalue().to_pybytes())


def _chained(first: list[Any], rest: Iterator[Any]) -> Iterator[Any]:
    while first:
        yield first.pop(0)
    yield from rest


def inline_batches(portion: Portion) -> Iterator[Any]:
    if portion.inline:
        with pa.ipc.open_stream(portion.inline) as reader:
            yield from reader
