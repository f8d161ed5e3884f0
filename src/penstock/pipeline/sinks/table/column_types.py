"""Spark's column types, the Arrow types that rows arrive in, and the types of the databases that hold them.

Owns which types a table can have at all, what a new table's columns are declared as, and which columns of an existing
table fit. It must never know a connection.

Invariant: a type that fits loses nothing: no digits, no fraction, no time zone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from penstock.pipeline.rows.dead_letters import DEAD_LETTER
from penstock.pipeline.sinks.table.errors import TableRefused

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_DECIMAL: Final = re.compile(r"(?:decimal|numeric)\((\d+),(\d+)\)")
_UNBOUNDED: Final = "numeric"


@dataclass(frozen=True, slots=True)
class ColumnType:
    """One of Spark's types. `spark` is its name as SQL writes it."""

    spark: str
    arrow: Any
    postgres: str
    sqlite: str
    fitting_postgres: tuple[str, ...]
    fitting_affinities: tuple[str, ...]

    @property
    def sqlite_arrow(self) -> Any:
        """What the SQLite driver is given: it has no decimals, and text keeps all of their digits."""
        return pa.string() if pa.types.is_decimal(self.arrow) else self.arrow


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: ColumnType


_WHOLE: Final = ("INTEGER", "NUMERIC", "BLOB")
_REAL: Final = ("REAL", "NUMERIC", "BLOB")
_TEXT: Final = ("TEXT", "BLOB")
_TEXT_OR_NUMERIC: Final = ("TEXT", "NUMERIC", "BLOB")  # NUMERIC leaves a text that is no number as it is
_TYPES: Final[dict[str, ColumnType]] = {
    kind.spark: kind
    for kind in (
        ColumnType("boolean", pa.bool_(), "boolean", "BOOLEAN", ("boolean",), _WHOLE),
        ColumnType("tinyint", pa.int8(), "smallint", "SMALLINT", ("smallint", "integer", "bigint", _UNBOUNDED), _WHOLE),
        ColumnType(
            "smallint", pa.int16(), "smallint", "SMALLINT", ("smallint", "integer", "bigint", _UNBOUNDED), _WHOLE
        ),
        ColumnType("int", pa.int32(), "integer", "INT", ("integer", "bigint", _UNBOUNDED, "double precision"), _WHOLE),
        # Not INTEGER: as a primary key that would be SQLite's row id, and a null in it a number of its own choice.
        ColumnType("bigint", pa.int64(), "bigint", "BIGINT", ("bigint", _UNBOUNDED), _WHOLE),
        ColumnType("float", pa.float32(), "real", "REAL", ("real", "double precision"), _REAL),
        ColumnType("double", pa.float64(), "double precision", "DOUBLE", ("double precision",), _REAL),
        ColumnType(
            "string",
            pa.string(),
            "text",
            "TEXT",
            ("text", "character varying", "character", "json", "jsonb", "uuid"),
            _TEXT,
        ),
        ColumnType("binary", pa.binary(), "bytea", "BLOB", ("bytea",), ("BLOB",)),
        ColumnType("date", pa.date32(), "date", "DATE", ("date",), _TEXT_OR_NUMERIC),
        ColumnType(
            "timestamp",
            pa.timestamp("us", "UTC"),
            "timestamp with time zone",
            "TIMESTAMP",
            ("timestamp with time zone",),
            _TEXT_OR_NUMERIC,
        ),
        ColumnType(
            "timestamp_ntz",
            pa.timestamp("us"),
            "timestamp without time zone",
            "TIMESTAMP",
            ("timestamp without time zone",),
            _TEXT_OR_NUMERIC,
        ),
    )
}


def plain_type(spark: str) -> ColumnType:
    """By its name in Spark's SQL; a decimal is not plain."""
    return _TYPES[spark]


def columns_of(schema: StructType) -> list[Column]:
    """The columns that go into the table. Raises TableRefused for one that no table can hold, with the remedy."""
    columns = [
        Column(field.name, _type_of(field.name, field.dataType)) for field in schema if field.name != DEAD_LETTER
    ]
    if not columns:
        raise TableRefused("there is no column to write; SELECT at least one")
    seen: set[str] = set()
    for column in columns:
        if column.name.lower() in seen:
            raise TableRefused(f"two columns are called '{column.name}'; give one another name with AS")
        seen.add(column.name.lower())
    return columns


def has_dead_letters(schema: StructType) -> bool:
    return DEAD_LETTER in schema.fieldNames()


def arrow_schema(columns: Sequence[Column]) -> Any:
    return pa.schema([pa.field(column.name, column.type.arrow) for column in columns])


def _type_of(name: str, kind: DataType) -> ColumnType:
    written = kind.simpleString()
    if match := _DECIMAL.fullmatch(written):
        precision, scale = int(match[1]), int(match[2])
        declared = f"numeric({precision},{scale})"
        return ColumnType(written, pa.decimal128(precision, scale), declared, "TEXT", (declared, _UNBOUNDED), _TEXT)
    if written.startswith(("char(", "varchar(", "string")):
        return _TYPES["string"]
    if written in _TYPES:
        return _TYPES[written]
    if written.startswith(("array<", "map<", "struct<")) or written == "variant":
        raise TableRefused(
            f"column '{name}' is {_shortened(written)}, and a table holds plain values; write"
            f" to_json({name}) AS {name}, or SELECT its parts"
        )
    if written == "void":
        raise TableRefused(f"column '{name}' is always null and has no type; write CAST(NULL AS STRING) AS {name}")
    raise TableRefused(
        f"column '{name}' is {written}, which a table cannot hold; write CAST({name} AS STRING) AS {name}"
    )


def _shortened(text: str, characters_max: int = 60) -> str:
    return text if len(text) <= characters_max else f"{text[:characters_max]}..."


def fits_postgres(column: ColumnType, existing: str) -> bool:
    """`existing` as format_type() writes it, e.g. `character varying(20)` or `numeric(10,2)`."""
    wanted = _DECIMAL.fullmatch(column.postgres)
    there = _DECIMAL.fullmatch(existing)
    if there is not None:
        precision, scale = int(there[1]), int(there[2])
        if wanted is not None:
            return scale >= int(wanted[2]) and precision - scale >= int(wanted[1]) - int(wanted[2])
        digits = {"smallint": 5, "integer": 10, "bigint": 19}.get(column.postgres)
        return digits is not None and precision - scale >= digits
    plain = re.sub(r"\(\d+(,\d+)?\)", "", existing)
    if plain.startswith("timestamp") and plain != existing:
        return False  # fewer digits of a second than there are
    return plain in column.fitting_postgres


def same_in_copy(column: ColumnType, existing: str) -> bool:
    """Whether a binary COPY may write the column as it is; `existing` as format_type() writes it without its length."""
    return existing == column.postgres.partition("(")[0] or (column.postgres, existing) == ("text", "character varying")


def fits_sqlite(column: ColumnType, declared: str) -> bool:
    return sqlite_affinity(declared) in column.fitting_affinities


def sqlite_affinity(declared: str) -> str:
    """SQLite's own rules, in their order: what a column prefers to store, from the words of its declaration."""
    name = declared.upper()
    rules: Sequence[tuple[str, Callable[[str], bool]]] = (
        ("INTEGER", lambda text: "INT" in text),
        ("TEXT", lambda text: any(word in text for word in ("CHAR", "CLOB", "TEXT"))),
        ("BLOB", lambda text: not text or "BLOB" in text),
        ("REAL", lambda text: any(word in text for word in ("REAL", "FLOA", "DOUB"))),
    )
    return next((affinity for affinity, applies in rules if applies(name)), "NUMERIC")


def cast_batches(batches: Iterator[Any], schema: Any) -> Iterator[Any]:
    """Spark may hand over a wider type of the same kind (large_string), or another name of UTC."""
    for batch in batches:
        if batch.schema.equals(schema):
            yield batch
        else:
            arrays = [
                column if column.type.equals(field.type) else column.cast(field.type)
                for column, field in zip(batch.columns, schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
