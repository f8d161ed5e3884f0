"""Structs, maps and arrays in tables: PostgreSQL's arrays, and JSON everywhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import uuid4

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.pipeline.sinks.table.column_types import columns_of
from penstock.pipeline.sinks.table.connections import forget, in_driver, trying_again
from penstock.pipeline.sinks.table.dialects.postgres import types as postgres_types
from penstock.pipeline.sinks.table.errors import TableRefused
from penstock.pipeline.sinks.table.nested_columns import json_columns
from penstock.pipeline.sinks.table.preparation import claim, prepare, table_store
from penstock.pipeline.sinks.table.target import TableTarget
from penstock.pipeline.sinks.table.task_output import TaskOutput
from tests.databases import DATABASES
from tests.postgres_server import PostgresServer

NESTED: dict[str, DataType] = {
    "numbers": ArrayType(IntegerType()),
    "names": MapType(StringType(), StringType()),
    "place": StructType([StructField("x", LongType())]),
    "matrix": ArrayType(ArrayType(LongType())),
}
ARRAYS: dict[str, tuple[DataType, list[Any]]] = {
    "booleans": (BooleanType(), [True, None, False]),
    "bytes_": (ByteType(), [-1, 2]),
    "shorts": (ShortType(), [2**15 - 1]),
    "ints": (IntegerType(), [-(2**31), None]),
    "longs": (LongType(), [2**63 - 1]),
    "floats": (FloatType(), [1.5]),
    "doubles": (DoubleType(), [0.1]),
    "texts": (StringType(), ["a", "", 'quoted "text", {with} commas', None]),
    "blobs": (BinaryType(), [b"\x00\xff"]),
    "days": (DateType(), [date(1969, 12, 31)]),
    "instants": (TimestampType(), [datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC)]),
    "clocks": (TimestampNTZType(), [datetime(1900, 1, 1, 0, 0, 1)]),
    "decimals": (DecimalType(20, 5), [Decimal("123456789012345.12345"), None]),
}


def schema(types: dict[str, DataType]) -> StructType:
    return StructType([StructField("id", LongType()), *(StructField(name, kind) for name, kind in types.items())])


def committed(target: TableTarget, given: StructType, rows: list[tuple[Any, ...]]) -> None:
    store = table_store(target, columns_of(given, target.json_columns))
    prepare(target, given)
    claim(target, given)
    columns = [
        pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), store.rows.schema, strict=True)
    ]
    output = TaskOutput("a", "q", 1)
    store.stage(output, iter([pa.RecordBatch.from_arrays(columns, schema=store.rows.schema)]))
    store.commit_once([output], 0)


@pytest.fixture
def new_target() -> Iterator[Callable[..., TableTarget]]:
    made = []

    def create(url: str, **settings: Any) -> TableTarget:
        name = f"t{uuid4().hex[:10]}"
        given = {"url": url, "table": name, "mode": "append", "pipeline": name, "run": "r"}
        made.append(TableTarget(**{**given, **settings}))
        return made[-1]

    yield create
    for target in made:
        forget(target)


@pytest.mark.parametrize("many", [1, 5000])
@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("database", DATABASES)
def test_json_arrives_as_json(
    database: str, mode: str, many: int, urls: Callable[[str], str], new_target: Callable[..., TableTarget]
) -> None:
    """Spark has made text of it by then."""
    target = new_target(urls(database), mode=mode, key=("id",) if mode == "upsert" else (), json_columns=("document",))
    given = schema({"document": StringType()})
    text = json.dumps({"a": [1, None], "b": 'it\'s "quoted"'})
    committed(target, given, [(0, None), *((number, text) for number in range(1, 1 + many))])
    query = f"SELECT document FROM {target.table} WHERE id IN (0, 1) ORDER BY id"
    found = [document for (document,) in trying_again(target, lambda each: each.query(query))]
    assert found[0] is None
    assert json.loads(found[1]) == json.loads(text)


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_arrays_of_every_plain_type_arrive_in_postgresql(
    mode: str, postgres: PostgresServer, new_target: Callable[..., TableTarget]
) -> None:
    target = new_target(postgres.url, mode=mode, key=("id",) if mode == "upsert" else ())
    given = schema({name: ArrayType(kind) for name, (kind, _) in ARRAYS.items()})
    values = [value for _, value in ARRAYS.values()]
    committed(target, given, [(1, *values), (2, *[[]] * len(values)), (3, *[None] * len(values))])
    with psycopg.connect(postgres.url) as connection:
        found = connection.execute(f"SELECT * FROM {target.table} ORDER BY id".encode()).fetchall()
    assert found[0][1:] == tuple(values)
    assert found[1][1:] == ([],) * len(values)
    assert found[2][1:] == (None,) * len(values)


def test_arrays_go_into_wider_arrays_that_exist(
    postgres: PostgresServer, new_target: Callable[..., TableTarget]
) -> None:
    target = new_target(postgres.url)
    with in_driver(target) as database:
        database.execute(f"CREATE TABLE {target.table} (id bigint, numbers bigint[], names text[])")
    given = schema({"numbers": ArrayType(IntegerType()), "names": ArrayType(StringType())})
    committed(target, given, [(1, [1, 2], ["a"])])
    with psycopg.connect(postgres.url) as connection:
        assert connection.execute(f"SELECT * FROM {target.table}".encode()).fetchall() == [(1, [1, 2], ["a"])]


def test_what_becomes_json(
    postgres: PostgresServer, urls: Callable[[str], str], new_target: Callable[..., TableTarget]
) -> None:
    nested, given = list(NESTED), schema(NESTED)
    assert json_columns(given, nested, new_target(urls("sqlite"))) == nested
    target = new_target(postgres.url)
    assert json_columns(given, nested, target) == ["names", "place", "matrix"], "an array stays one"
    with in_driver(target) as database:
        database.execute(f"CREATE TABLE {target.table} (id bigint, numbers jsonb)")
    assert json_columns(given, nested, target) == nested, "unless the table says otherwise"


@pytest.mark.parametrize(
    ("kind", "existing", "fits"),
    [
        (ArrayType(IntegerType()), "integer[]", True),
        (ArrayType(IntegerType()), "bigint[]", True),
        (ArrayType(LongType()), "integer[]", False),
        (ArrayType(IntegerType()), "integer", False),
        (IntegerType(), "integer[]", False),
        (ArrayType(DecimalType(10, 2)), "numeric(10,2)[]", True),
        (ArrayType(DecimalType(10, 2)), "numeric(9,2)[]", False),
    ],
)
def test_arrays_of_postgresql_that_lose_nothing(kind: DataType, existing: str, fits: bool) -> None:
    (column,) = columns_of(StructType([StructField("a", kind)]))
    assert postgres_types.fits(column.type, existing) is fits


def test_a_key_is_plain(postgres: PostgresServer, new_target: Callable[..., TableTarget]) -> None:
    target = new_target(postgres.url, mode="upsert", key=("numbers",))
    with pytest.raises(TableRefused, match="key's column 'numbers' is array<int>; a key is made of plain values"):
        prepare(target, schema({"numbers": ArrayType(IntegerType())}))
