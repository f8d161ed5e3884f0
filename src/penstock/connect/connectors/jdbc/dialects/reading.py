"""A database as the JDBC source reads it: tables, columns as Connect's schemas, positions, transactions that still run.

Each database has a class here beside its dialect. `numeric.mapping` is Confluent's.

It must not know connectors, their properties or offsets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.connect.connectors.jdbc.decimals import to_unscaled
from penstock.connect.connectors.jdbc.dialects.dialect import JdbcDialect, TableColumn
from penstock.connect.connectors.jdbc.table_names import Identifiers, TableName
from penstock.connect.data import schema as s
from penstock.connect.data.schema import DATE, DECIMAL, DECIMAL_SCALE, TIME, TIMESTAMP, Schema

if TYPE_CHECKING:
    from penstock.pipeline.sinks.table.database import Database

SCALE_UNKNOWN: Final = 127
"""Of a number without a declared scale: what Confluent's connector takes for it."""
_ARROW_DIGITS_MAX: Final = 76
_LONG_DIGITS: Final = 19


class NumericMapping(Enum):
    NONE = "none"
    PRECISION_ONLY = "precision_only"
    BEST_FIT = "best_fit"
    BEST_FIT_EAGER_DOUBLE = "best_fit_eager_double"


@dataclass(frozen=True, slots=True)
class SourceTable:
    """`catalog` is the database of a server."""

    table: TableName
    catalog: str | None = None

    @property
    def qualified(self) -> str:
        return ".".join(filter(None, (self.catalog, self.table.schema, self.table.name)))

    @property
    def names(self) -> tuple[str, ...]:
        """All that a list of tables may call it."""
        return (self.qualified, str(self.table), self.table.name)


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column of a table or query: its schema, and SQL for its values with `{}` in place of the column."""

    name: str
    schema: Schema
    select: str = "{}"


class Reading(ABC):
    dialect: ClassVar[JdbcDialect]
    late_commits_are_held_back: ClassVar[bool] = False
    """Whether `running` finds transactions that may still commit rows behind others."""

    def __init__(self, identifiers: Identifiers) -> None:
        self.ids = identifiers

    # The catalog

    @abstractmethod
    def tables(self, database: Database, kinds: Sequence[str], schemas: str | None) -> list[SourceTable]:
        """Of these kinds (TABLE, VIEW, PARTITIONED TABLE), without those of the system; `schemas` as LIKE has it."""

    @abstractmethod
    def query_columns(self, database: Database, query: str) -> Sequence[TableColumn]: ...

    def source_columns(self, columns: Sequence[TableColumn], mapping: NumericMapping) -> list[SourceColumn]:
        """Without those whose type has no schema."""
        found = []
        for column in columns:
            typed = self.typed(column, mapping)
            if typed is not None:
                schema, select = typed
                found.append(SourceColumn(column.name, replace(schema, is_optional=column.is_nullable), select))
        return found

    @abstractmethod
    def typed(self, column: TableColumn, mapping: NumericMapping) -> tuple[Schema, str] | None:
        """The schema of a column's values, and SQL for them; None if there is none."""

    # Values

    def unloaded(self, schema: Schema, values: pa.Array, timezone: str) -> pa.Array:
        """Fetched values in the base type of their schema. Raises pa.ArrowInvalid for a value that does not fit."""
        match schema.name:
            case str(name) if name == DECIMAL:
                return _unscaled(values, int(schema.parameter(DECIMAL_SCALE) or 0))
            case str(name) if name == DATE:
                return values.cast(pa.date32()).cast(pa.int32())
            case str(name) if name == TIME:
                return milliseconds_of_day(values)
            case str(name) if name == TIMESTAMP:
                # Floored: a moment before 1970 belongs to the millisecond before it.
                return (
                    pc.floor_temporal(to_instants(values, timezone), unit="millisecond")
                    .cast(pa.timestamp("ms"))
                    .cast(pa.int64())
                )
        return values if values.type == schema.arrow_type else values.cast(schema.arrow_type)

    # Positions

    def timestamp(self, columns: Sequence[str]) -> str:
        """SQL for the timestamp of a row: the first of these columns that is not null."""
        written = [self.ids.written(name) for name in columns]
        return written[0] if len(written) == 1 else f"COALESCE({', '.join(written)})"

    @abstractmethod
    def timestamp_literal(self, micros: int, timezone: str) -> str:
        """A moment, to be compared with `timestamp`."""

    @abstractmethod
    def timestamp_micros(self, expression: str, timezone: str) -> str:
        """SQL that makes microseconds since 1970 of `timestamp`, for `instant`."""

    def instant(self, micros: int, timezone: str) -> int:
        """What `timestamp_micros` gives, in UTC."""
        return micros

    @abstractmethod
    def clock_micros(self) -> str:
        """SQL for the database's clock."""

    # Transactions

    def running(self, database: Database, table: TableName | None, *, all_transactions: bool) -> frozenset[str]:
        """Transactions that run now and may commit rows of the table (None: of any table) behind those of others."""
        return frozenset()


def _unscaled(values: pa.Array, scale: int) -> pa.Array:
    if scale <= _ARROW_DIGITS_MAX // 2:
        texts = values if pa.types.is_string(values.type) else values.cast(pa.string())
        return to_unscaled(texts.cast(pa.decimal256(_ARROW_DIGITS_MAX, scale)))
    return pa.array([None if each is None else _unscaled_bytes(str(each), scale) for each in values.to_pylist()])


def _unscaled_bytes(text: str, scale: int) -> bytes:
    sign, digits, exponent = Decimal(text).as_tuple()
    if not isinstance(exponent, int):
        raise pa.ArrowInvalid(f"{text} is no decimal number")  # as Arrow's cast refuses it, for smaller scales
    number = int("".join(map(str, digits))) * 10 ** (scale + exponent)
    signed: int = -number if sign else number
    length = (signed + (signed < 0)).bit_length() // 8 + 1
    return signed.to_bytes(length, "big", signed=True)


def milliseconds_of_day(values: pa.Array) -> pa.Array:
    unit = values.type.unit
    return pc.divide(values.cast(pa.int64()), {"s": 1, "ms": 1, "us": 1000, "ns": 1_000_000}[unit]).cast(pa.int32())


def to_instants(values: pa.Array, timezone: str) -> pa.Array:
    """Timestamps in UTC without zone; those without zone are on clocks of `timezone`."""
    if values.type.tz is not None:
        return values.cast(pa.timestamp(values.type.unit, "UTC")).cast(pa.timestamp(values.type.unit))
    if timezone == "UTC":
        return values
    aware = pc.assume_timezone(values, timezone, ambiguous="earliest", nonexistent="latest")
    return aware.cast(pa.timestamp(values.type.unit, "UTC")).cast(pa.timestamp(values.type.unit))


def numeric(precision: int | None, scale: int | None, mapping: NumericMapping) -> Schema:
    """Confluent's rules. A number without a declared precision has neither."""
    is_known = precision is not None and scale is not None
    if mapping is NumericMapping.BEST_FIT_EAGER_DOUBLE and (not is_known or (scale or 0) > 0):
        return s.FLOAT64
    if is_known and mapping is not NumericMapping.NONE:
        assert precision is not None
        if (scale or 0) <= 0 and precision < _LONG_DIGITS:
            return _integer(precision)
        if mapping is NumericMapping.BEST_FIT and (scale or 0) > 0 and precision < _LONG_DIGITS:
            return s.FLOAT64
    return s.decimal(scale if is_known and scale is not None else SCALE_UNKNOWN)


def _integer(precision: int) -> Schema:
    if precision > 9:
        return s.INT64
    if precision > 4:
        return s.INT32
    return s.INT16 if precision > 2 else s.INT8


def local_text(micros: int, timezone: str) -> str:
    """A moment as SQL writes it, on clocks of a time zone."""
    moment: Any = pa.scalar(micros, pa.int64()).cast(pa.timestamp("us"))
    if timezone != "UTC":
        aware = moment.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us", timezone))
        moment = pc.local_timestamp(aware)
    return str(moment.cast(pa.string()).as_py())
