"""Which types a table can hold, and which existing columns fit."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.pipeline.sinks.table.column_types import columns_of, has_dead_letters
from penstock.pipeline.sinks.table.dialects.postgres import types as postgres
from penstock.pipeline.sinks.table.dialects.sqlite import types as sqlite
from penstock.pipeline.sinks.table.errors import TableRefused


def schema(**types: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


def only(kind: DataType):  # type: ignore[no-untyped-def]
    (column,) = columns_of(schema(a=kind))
    return column.type


def test_dead_letters_are_no_column_of_the_table() -> None:
    given = StructType([StructField("id", LongType()), StructField("__dead_letter", schema(reason=StringType()))])
    assert [column.name for column in columns_of(given)] == ["id"]
    assert has_dead_letters(given)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            ArrayType(schema(b=LongType())),
            r"column 'a' is array<struct<b:bigint>>, .*; write to_json\(a\) AS a, or SELECT its parts",
        ),
        (schema(b=LongType()), r"column 'a' is struct<b:bigint>.*to_json\(a\) AS a"),
        (NullType(), r"column 'a' is always null.*CAST\(NULL AS STRING\) AS a"),
    ],
)
def test_what_no_table_can_hold_is_refused_with_the_remedy(kind: DataType, message: str) -> None:
    with pytest.raises(TableRefused, match=message):
        columns_of(schema(a=kind))


def test_two_names_that_a_database_takes_for_one_are_refused() -> None:
    with pytest.raises(TableRefused, match="two columns are called 'A'"):
        columns_of(schema(a=LongType(), A=LongType()))


def test_no_column_at_all_is_refused() -> None:
    with pytest.raises(TableRefused, match="no column to write"):
        columns_of(StructType())


@pytest.mark.parametrize(
    ("kind", "existing", "fits"),
    [
        (LongType(), "bigint", True),
        (LongType(), "integer", False),
        (LongType(), "numeric", True),
        (LongType(), "numeric(18,0)", False),
        (LongType(), "numeric(21,2)", True),
        (LongType(), "double precision", False),
        (IntegerType(), "bigint", True),
        (DoubleType(), "real", False),
        (StringType(), "character varying(20)", True),
        (StringType(), "jsonb", True),
        (StringType(), "integer", False),
        (BinaryType(), "text", False),
        (DateType(), "date", True),
        (TimestampType(), "timestamp with time zone", True),
        (TimestampType(), "timestamp(3) with time zone", False),
        (TimestampType(), "timestamp without time zone", False),
        (TimestampNTZType(), "timestamp without time zone", True),
        (DecimalType(10, 2), "numeric(10,2)", True),
        (DecimalType(10, 2), "numeric(12,3)", True),
        (DecimalType(10, 2), "numeric(10,3)", False),
        (DecimalType(10, 2), "numeric(12,1)", False),
        (DecimalType(10, 2), "numeric", True),
        (DecimalType(10, 2), "bigint", False),
    ],
)
def test_columns_of_postgresql_that_lose_nothing(kind: DataType, existing: str, fits: bool) -> None:
    assert postgres.fits(only(kind), existing) is fits


@pytest.mark.parametrize(
    ("kind", "declared", "fits"),
    [
        (LongType(), "INTEGER", True),
        (LongType(), "VARCHAR(10)", False),
        (LongType(), "", True),
        (StringType(), "TEXT", True),
        (StringType(), "INT", False),
        (DoubleType(), "DOUBLE PRECISION", True),
        (DoubleType(), "BIGINT", False),
        (TimestampType(), "DATETIME", True),
        (DecimalType(10, 2), "DECIMAL(10,2)", False),
        (DecimalType(10, 2), "TEXT", True),
        (BinaryType(), "TEXT", False),
    ],
)
def test_columns_of_sqlite_that_lose_nothing(kind: DataType, declared: str, fits: bool) -> None:
    assert sqlite.fits(only(kind), declared) is fits


def test_affinities_follow_sqlites_order_of_rules() -> None:
    assert sqlite.affinity("FLOATING POINT") == "INTEGER"  # "POINT" holds "INT", and that rule comes first
    assert sqlite.affinity("NUMBER") == "NUMERIC"
