"""Commits of staged rows on real databases, without Spark: what counts, what is moved, what is repeated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.pipeline import crash_points
from penstock.pipeline.sinks.table.column_types import arrow_schema, columns_of
from penstock.pipeline.sinks.table.connections import forget, in_worker, trying_again
from penstock.pipeline.sinks.table.errors import Fenced, StagingLost, TableRefused
from penstock.pipeline.sinks.table.preparation import claim, prepare, table_store
from penstock.pipeline.sinks.table.store import TableStore
from penstock.pipeline.sinks.table.target import TableTarget
from penstock.pipeline.sinks.table.task_output import TaskOutput
from penstock.testing.mariadb import MariaDbServer
from tests.databases import DATABASE_PARAMS, running_mariadb
from tests.postgres_server import PostgresServer

SCHEMA = StructType([StructField("id", LongType()), StructField("word", StringType())])
FEW, MANY = 10, 20_000  # in the message; staged


@pytest.fixture(scope="module")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDbServer]:
    with running_mariadb(tmp_path_factory.mktemp("mariadb")) as server:
        yield server


class Table:
    """A pipeline's table in the hands of a test that plays the tasks and the driver."""

    def __init__(self, target: TableTarget, schema: StructType = SCHEMA) -> None:
        self.target = target
        self.schema = schema
        self.columns = columns_of(schema)
        self.store: TableStore = table_store(target, self.columns)
        self._tasks = iter(range(1, 1000))
        prepare(target, schema)
        claim(target, schema)

    def stage(self, rows: Sequence[tuple[Any, ...]], *, attempt: str = "a", query: str = "q") -> TaskOutput:
        output = TaskOutput(attempt, query, next(self._tasks))
        arrow = arrow_schema(self.columns)
        columns = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), arrow, strict=True)]
        batch = pa.RecordBatch.from_arrays(columns, schema=arrow)
        self.store.stage(output, iter([batch.slice(0, len(rows) // 2), batch.slice(len(rows) // 2)]))
        return output

    def words(self, count: int, word: str = "w", *, attempt: str = "a", query: str = "q") -> TaskOutput:
        return self.stage([(number, f"{word}{number}") for number in range(count)], attempt=attempt, query=query)

    def rows(self, columns: str = "id, word") -> Counter[tuple[Any, ...]]:
        query = f"SELECT {columns} FROM {self.target.table}"
        return Counter(trying_again(self.target, lambda database: database.query(query)))


NewTable = Callable[..., Table]


@pytest.fixture(params=DATABASE_PARAMS)
def new_table(request: pytest.FixtureRequest, urls: Callable[[str], str]) -> Iterator[NewTable]:
    name = f"t{uuid4().hex[:10]}"
    url = urls(request.param)
    targets = []

    def create(schema: StructType = SCHEMA, **settings: Any) -> Table:
        given = {"url": url, "table": name, "mode": "append", "pipeline": name, "run": uuid4().hex}
        targets.append(TableTarget(**{**given, **settings}))
        return Table(targets[-1], schema)

    yield create
    for target in targets:
        forget(target)


@pytest.fixture(params=[FEW, MANY], ids=["few", "many"])
def count(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def expected(count: int, word: str = "w") -> Counter[tuple[int, str]]:
    return Counter((number, f"{word}{number}") for number in range(count))


def test_where_rows_wait(new_table: NewTable) -> None:
    table = new_table()
    assert not table.words(FEW).rows.is_staged
    assert table.words(MANY).rows.is_staged


def test_a_batch_is_moved_once_however_often_it_is_committed(new_table: NewTable, count: int) -> None:
    table = new_table()
    outputs = [table.words(count), table.words(FEW, "v")]
    table.store.commit_once(outputs, 0)
    table.store.commit_once([table.words(count, attempt="b")], 0)
    assert table.rows() == expected(count) + expected(FEW, "v")
    table.store.commit_once([table.words(count, attempt="c")], 1)
    assert table.rows() == expected(count) + expected(FEW, "v") + expected(count)


def test_a_new_query_counts_its_own_batches(new_table: NewTable) -> None:
    table = new_table()
    table.store.commit_once([table.words(FEW)], 7)
    table.store.commit_once([table.words(FEW, query="another")], 0)
    assert table.rows() == expected(FEW) + expected(FEW)


def test_rows_of_a_task_that_failed_do_not_count(new_table: NewTable, count: int) -> None:
    table = new_table()
    table.words(count, "failed")
    table.store.commit_once([table.words(count)], 0)
    assert table.rows() == expected(count)


def test_the_last_row_of_a_key_stays(new_table: NewTable, count: int) -> None:
    table = new_table(mode="upsert", key=("id",))
    table.store.commit_once([table.words(FEW, "old")], 0)
    twice = [*((number, "first") for number in range(count)), *((number, f"w{number}") for number in range(count))]
    table.store.commit_once([table.words(count, "earlier task"), table.stage(twice)], 1)
    assert table.rows() == expected(count)


def test_a_key_alone_is_kept_as_it_is(new_table: NewTable) -> None:
    table = new_table(StructType([StructField("id", LongType())]), mode="upsert", key=("id",))
    for batch in range(2):
        table.store.commit_once([table.stage([(1,), (2,), (2,)])], batch)
    assert table.rows("id") == Counter([(1,), (2,)])


def test_a_row_without_a_key_is_refused(new_table: NewTable, count: int) -> None:
    table = new_table(mode="upsert", key=("id",))
    rows = [*((number, "w" * 10) for number in range(count)), (None, "x")]
    with pytest.raises(TableRefused, match=r"a row has no id, .*: WHERE id IS NOT NULL"):
        table.stage(rows)


def test_a_row_that_breaks_a_constraint_is_refused_and_is_not_quoted(new_table: NewTable) -> None:
    table = new_table()
    in_worker(table.target).execute(f"CREATE UNIQUE INDEX i_{table.target.table} ON {table.target.table} (word)")
    with pytest.raises(TableRefused, match="a row breaks a constraint of the table") as refusal:
        table.store.commit_once([table.stage([(1, "hunter2"), (2, "hunter2")])], 0)
    assert "hunter2" not in str(refusal.value)
    assert table.rows() == Counter()


def test_a_run_that_was_taken_over_commits_nothing(new_table: NewTable, count: int) -> None:
    first = new_table()
    outputs = [first.words(count)]
    second = new_table()
    with pytest.raises(Fenced):
        first.store.commit_once(outputs, 0)
    assert first.rows() == Counter()
    second.store.commit_once([second.words(count)], 0)
    assert first.rows() == expected(count)


def test_staged_rows_that_are_gone_are_noticed(new_table: NewTable) -> None:
    table = new_table()
    output = table.words(MANY)
    if output.rows.path is None:
        name = table.store.names.staging(output.attempt, "rows")
        in_worker(table.target).execute(f"DELETE FROM {name} WHERE c0 = 5")
    else:
        content = Path(output.rows.path).read_bytes()
        Path(output.rows.path).write_bytes(content[: len(content) // 2])
    with pytest.raises(StagingLost):
        table.store.commit_once([output], 0)
    assert table.rows() == Counter()


ALL_TYPES = {
    "a_boolean": (BooleanType(), True),
    "a_byte": (ByteType(), -1),
    "a_short": (ShortType(), 2**15 - 1),
    "an_int": (IntegerType(), -(2**31)),
    "a_long": (LongType(), 2**63 - 1),
    "a_float": (FloatType(), 1.5),
    "a_double": (DoubleType(), 0.1),
    "a_string": (StringType(), "日本 \"quoted\" 'text'"),
    "some_bytes": (BinaryType(), b"\x00\xff"),
    "a_day": (DateType(), date(1969, 12, 31)),
    "an_instant": (TimestampType(), datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC)),
    "a_wall_clock": (TimestampNTZType(), datetime(1900, 1, 1, 0, 0, 1)),
    "a_decimal": (DecimalType(38, 9), Decimal("12345678901234567890123456789.123456789")),
    'ünï "code"': (StringType(), "name"),
}
# What a driver reads where it is not the value itself.
STORED: dict[str, dict[str, Any]] = {
    "sqlite": {
        "a_boolean": 1,
        "a_day": "1969-12-31",
        "an_instant": "2024-02-29T23:59:59.999999",
        "a_wall_clock": "1900-01-01T00:00:01.000000",
        "a_decimal": "12345678901234567890123456789.123456789",
    },
    "postgresql": {"a_decimal": "12345678901234567890123456789.123456789"},
    "mysql": {"a_boolean": 1, "an_instant": datetime(2024, 2, 29, 23, 59, 59, 999_999)},
}


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_every_type_arrives_as_it_is(new_table: NewTable, mode: str) -> None:
    schema = StructType([StructField("id", LongType()), *(StructField(n, t) for n, (t, _) in ALL_TYPES.items())])
    table = new_table(schema, mode=mode, key=("id",) if mode == "upsert" else ())
    values = [value for _, value in ALL_TYPES.values()]
    table.store.commit_once([table.stage([(1, *values), (2, *[None] * len(values))])], 0)
    found = in_worker(table.target).query(f"SELECT * FROM {table.target.table} ORDER BY id")
    stored = STORED[table.target.url.partition(":")[0]]
    values = [stored.get(name, value) for name, (_, value) in ALL_TYPES.items()]
    assert found == [(1, *values), (2, *[None] * len(values))]


def test_text_goes_into_json(postgres: PostgresServer) -> None:
    target = TableTarget(url=postgres.url, table="documents", mode="append", pipeline="documents", run="r")
    in_worker(target).execute("CREATE TABLE documents (id bigint, word jsonb)")
    table = Table(target)
    table.store.commit_once([table.stage([(1, '{"a": 1}')])], 0)
    assert table.rows("word->>'a'") == Counter([("1",)])
    with pytest.raises(TableRefused, match="invalid input syntax for type json; a row does not fit its column"):
        table.store.commit_once([table.stage([(1, "{")])], 1)
    forget(target)


def test_a_zero_byte_in_a_text_is_explained(postgres: PostgresServer) -> None:
    target = TableTarget(url=postgres.url, table="zero_bytes", mode="append", pipeline="zero_bytes", run="r")
    table = Table(target)
    with pytest.raises(TableRefused, match="a text holds a zero byte, which PostgreSQL cannot store"):
        table.store.commit_once([table.stage([(1, "a\0b")])], 0)
    forget(target)


@pytest.mark.parametrize("step", ["table.before_ledger", "table.before_database_commit", "table.after_database_commit"])
@pytest.mark.parametrize("name_of_server", ["postgres", "mariadb"])
def test_a_server_that_dies_in_a_commit(
    request: pytest.FixtureRequest, name_of_server: str, monkeypatch: pytest.MonkeyPatch, step: str, count: int
) -> None:
    server: PostgresServer | MariaDbServer = request.getfixturevalue(name_of_server)
    name = f"t{uuid4().hex[:10]}"
    table = Table(TableTarget(url=server.url, table=name, mode="append", pipeline=name, run="r"))
    outputs = [table.words(count)]
    armed = [step]

    def die(reached: str) -> None:
        if reached in armed:
            armed.remove(reached)
            server.kill()
            server.start()

    monkeypatch.setattr(crash_points, "reached", die)
    try:
        table.store.commit_once(outputs, 0)
    except StagingLost:
        assert count == MANY
        assert step != "table.after_database_commit"
        assert table.rows() == Counter()
        table.store.commit_once([table.words(count, attempt="b")], 0)
    assert not armed
    assert table.rows() == expected(count)
    forget(table.target)
