"""MariaDB: what only this database can refuse, how its errors are told, and its bulk load."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from penstock.pipeline.sinks.table.column_types import arrow_schema, columns_of
from penstock.pipeline.sinks.table.connections import forget, in_driver, in_worker
from penstock.pipeline.sinks.table.databases import checked_url, dialect_of
from penstock.pipeline.sinks.table.dialects.mariadb.bulk_insert import insert_statements
from penstock.pipeline.sinks.table.dialects.mariadb.database import connect
from penstock.pipeline.sinks.table.errors import (
    DatabaseAccessDenied,
    DatabaseUnavailable,
    StagingLost,
    TableRefused,
    TableSinkError,
)
from penstock.pipeline.sinks.table.landing import LandingStore
from penstock.pipeline.sinks.table.preparation import claim, prepare, table_store
from penstock.pipeline.sinks.table.row_receiver import RowReceiver
from penstock.pipeline.sinks.table.target import TableTarget
from penstock.pipeline.sinks.table.task_output import TaskOutput
from penstock.testing.mariadb import MariaDbServer
from tests.databases import running_mariadb

SCHEMA = StructType([StructField("id", LongType()), StructField("word", StringType())])
MANY = 20_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDbServer]:
    with running_mariadb(tmp_path_factory.mktemp("mariadb")) as running:
        yield running


@pytest.fixture
def target(server: MariaDbServer) -> Iterator[TableTarget]:
    name = f"t{uuid4().hex[:10]}"
    made = TableTarget(url=server.url, table=name, mode="upsert", key=("word",), pipeline=name, run="r")
    yield made
    forget(made)


def execute(target: TableTarget, *statements: str) -> None:
    with in_driver(target) as database:
        for statement in statements:
            database.execute(statement)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ("id BIGINT, word VARCHAR(9) COLLATE utf8mb4_bin UNIQUE) ENGINE=MyISAM", "stored by MyISAM, .*ENGINE = InnoDB"),
        ("id BIGINT PRIMARY KEY, word VARCHAR(9) COLLATE utf8mb4_bin UNIQUE)", "another unique index .*, PRIMARY, .*"),
        ("id BIGINT, word VARCHAR(9) COLLATE utf8mb4_general_ci UNIQUE)", "different keys may replace one row; .*_bin"),
        ("id BIGINT UNSIGNED, word VARCHAR(9) COLLATE utf8mb4_bin UNIQUE)", "'id' .* is bigint.* unsigned, and the"),
    ],
)
def test_a_table_that_could_not_keep_its_rows_apart_is_refused(
    target: TableTarget, declared: str, message: str
) -> None:
    execute(target, f"CREATE TABLE {target.table} ({declared}")
    with pytest.raises(TableRefused, match=message):
        prepare(target, SCHEMA)


def test_a_number_that_the_table_gives_itself_is_no_other_key(target: TableTarget) -> None:
    columns = "n BIGINT AUTO_INCREMENT PRIMARY KEY, id BIGINT, word VARCHAR(9) COLLATE utf8mb4_bin UNIQUE"
    execute(target, f"CREATE TABLE {target.table} ({columns})")
    prepare(target, SCHEMA)


def test_keys_that_differ_in_case_or_spaces_are_different(target: TableTarget) -> None:
    store = made(target)
    store.commit_once([staged(store, [(1, "a"), (2, "A"), (3, "a ")])], 0)
    assert rows(target) == Counter([(1, "a"), (2, "A"), (3, "a ")])


def test_a_user_who_may_not_write_is_told_so(server: MariaDbServer, target: TableTarget) -> None:
    execute(
        target,
        f"CREATE TABLE {target.table} (id BIGINT, word VARCHAR(9) COLLATE utf8mb4_bin UNIQUE)",
        f"CREATE USER {target.table}@'127.0.0.1' IDENTIFIED BY 'hunter2'",
        f"GRANT SELECT, INSERT ON penstock.{target.table} TO {target.table}@'127.0.0.1'",
    )
    url = server.url.replace("penstock@", f"{target.table}:hunter2@")
    with pytest.raises(DatabaseAccessDenied, match=r"UPDATE command denied .*; GRANT it"):
        prepare(replace(target, url=url), SCHEMA)
    with pytest.raises(DatabaseAccessDenied, match="check the user and the password") as refusal:
        prepare(replace(target, url=url.replace("hunter2", "hunter3")), SCHEMA)
    assert "hunter3" not in str(refusal.value)


def test_urls_that_lead_nowhere(server: MariaDbServer) -> None:
    with pytest.raises(TableRefused, match="Unknown database 'nowhere'; create the database"):
        connect(server.url.removesuffix("penstock") + "nowhere")
    with pytest.raises(DatabaseUnavailable, match=r"MariaDB mysql://me:\*\*\*@127.0.0.1:1/x: Can't connect"):
        connect("mysql://me:hunter2@127.0.0.1:1/x")
    for url, message in [("mysql://h", "names a database"), ("mariadb://h/d?sll=1", "takes the options ssl_ca")]:
        with pytest.raises(ValueError, match=message):
            checked_url(url)
    assert dialect_of("mariadb://h/d") is dialect_of("mysql://h/d")


def test_a_deadlock_and_a_killed_session_may_pass(server: MariaDbServer) -> None:
    first, second = connect(server.url), connect(server.url)
    first.execute("CREATE TABLE IF NOT EXISTS locks (id INT PRIMARY KEY) ENGINE=InnoDB")
    first.execute("REPLACE INTO locks VALUES (1), (2)")
    failures: list[TableSinkError] = []

    def lock(database: Any, *ids: int) -> None:
        try:
            with database.transaction():
                for number in ids:
                    database.query(f"SELECT * FROM locks WHERE id = {number} FOR UPDATE")
                    barrier.wait(60)
        except TableSinkError as failure:
            failures.append(failure)
            barrier.abort()
        except threading.BrokenBarrierError:
            pass

    barrier = threading.Barrier(2)
    threads = [threading.Thread(target=lock, args=arguments) for arguments in ((first, 1, 2), (second, 2, 1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert [type(failure) for failure in failures] == [DatabaseUnavailable]
    assert "Deadlock found" in str(failures[0])
    second.execute(f"KILL CONNECTION {first.session_id}")
    with pytest.raises(DatabaseUnavailable):
        first.query("SELECT 1")
    first.close()
    second.close()


def test_a_value_that_does_not_fit_is_refused_and_not_quoted(target: TableTarget) -> None:
    store = made(target)
    with pytest.raises(TableRefused, match=r"Data too long for column .*; a row does not fit its column") as refusal:
        store.commit_once([staged(store, [(1, "hunter2" * 100)])], 0)
    assert "hunter2" not in str(refusal.value)
    assert rows(target) == Counter()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_mariadb_has_not_is_refused(value: float) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1.5, value, None])], names=["x"])
    with pytest.raises(TableRefused, match="column 'x' holds NaN or an infinity"):
        list(insert_statements("INSERT INTO t (`x`)", batch, 1000))


def test_statements_are_no_longer_than_the_server_takes() -> None:
    words = [f"it's \\ {number}" * (number % 7) for number in range(1000)]
    batch = pa.RecordBatch.from_arrays([pa.array(words), pa.array(range(1000))], names=["word", "id"]).slice(3, 990)
    statements = list(insert_statements("INSERT INTO t (`word`, `id`)", batch, 2000))
    assert len(statements) > 10
    assert all(len(statement) <= 2000 for statement in statements)
    assert sum(statement.count(b"),(") + 1 for statement in statements) == 990
    with pytest.raises(TableRefused, match=r"a row takes .* bytes, and the server's max_allowed_packet allows 60"):
        list(insert_statements("INSERT INTO t (`word`, `id`)", batch, 60))


def test_texts_and_bytes_arrive_as_they_are(server: MariaDbServer) -> None:
    texts = ["", "it's", "a\\'b", "\\", "%s ? %%", "zero \0 byte", "\n\r\x1a", "日本 \U0001f600", None]
    blobs = [b"", b"'", b"\\'", b"\x00\xff\x1a", None, b"%s", b"x" * 1000, b"\n", b"?"]
    database = connect(server.url)
    database.execute("CREATE OR REPLACE TABLE texts (n BIGINT, t LONGTEXT, b LONGBLOB) ENGINE=InnoDB CHARSET=utf8mb4")
    batch = pa.RecordBatch.from_arrays(
        [pa.array(range(len(texts))), pa.array(texts, pa.string()), pa.array(blobs, pa.binary())], names=["n", "t", "b"]
    )
    assert database.ingest("texts", (batch.schema, iter([batch.slice(0, 4), batch.slice(4)]))) == len(texts)
    assert database.query("SELECT t, b FROM texts ORDER BY n") == list(zip(texts, blobs, strict=True))
    database.close()


def test_a_table_is_read_with_the_types_of_its_columns(server: MariaDbServer) -> None:
    database = connect(server.url)
    database.execute(
        "CREATE OR REPLACE TABLE names (id INT, big BIGINT, price DECIMAL(10,2), name VARCHAR(20), born DATE,"
        " seen DATETIME(6), raw BLOB, ratio DOUBLE)"
    )
    dialect = dialect_of(server.url)
    empty = dialect.read_table(server.url, "names")
    assert empty.num_rows == 0
    database.execute("INSERT INTO names VALUES (1, 2, 3.25, 'Zoë', '2024-02-29', '2024-02-29 01:02:03.5', 'x', 0.1)")
    database.execute("INSERT INTO names (id) VALUES (2)")
    found = dialect.read_table(server.url, "names")
    assert found.num_rows == 2
    kinds = ["int64", "int64", "decimal128", "string", "date32", "timestamp", "binary", "double"]
    assert [str(kind).partition("[")[0].partition("(")[0] for kind in found.schema.types] == kinds
    assert found.to_pylist()[0]["name"] == "Zoë"
    database.close()


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_rows_land_in_the_transaction_that_commits_them(target: TableTarget, mode: Any) -> None:
    target = replace(target, mode=mode, key=("word",) if mode == "upsert" else ())
    store = made(target)
    assert isinstance(store, LandingStore)
    with RowReceiver(store) as receiver:
        sending = table_store(replace(target, receiver=receiver.path), store.rows.columns)
        output = staged(sending, [(number, f"w{number}") for number in range(MANY)])
        assert output.rows.landed
        assert rows(target) == Counter()
        sending.commit_once([output], 0)
        sending.commit_once([staged(sending, [(number, f"w{number}") for number in range(MANY)], attempt="b")], 0)
        expected = Counter((number, f"w{number}") for number in range(MANY))
        assert rows(target) == expected
        output = staged(sending, [(number, f"v{number}") for number in range(MANY)], attempt="c")
        claim(replace(target, run="later"), SCHEMA)  # ends the session that holds the rows
        with pytest.raises((StagingLost, DatabaseUnavailable)):
            sending.commit_once([output], 1)
    assert rows(target) == expected


def made(target: TableTarget, schema: StructType = SCHEMA) -> Any:
    prepare(target, schema)
    claim(target, schema)
    return table_store(target, columns_of(schema))


def staged(store: Any, values: list[tuple[Any, ...]], attempt: str = "a") -> TaskOutput:
    arrow = arrow_schema(store.rows.columns)
    arrays = [pa.array(column, field.type) for column, field in zip(zip(*values, strict=True), arrow, strict=True)]
    output = TaskOutput(attempt, "q", 1)
    store.stage(output, iter([pa.RecordBatch.from_arrays(arrays, schema=arrow)]))
    return output


def rows(target: TableTarget) -> Counter[tuple[Any, ...]]:
    return Counter(in_worker(target).query(f"SELECT id, word FROM {target.table}"))


def test_a_double_is_a_number_of_the_schema(target: TableTarget) -> None:
    schema = StructType([*SCHEMA, StructField("x", DoubleType())])
    store = made(target, schema)
    store.commit_once([staged(store, [(1, "a", 1e300), (2, "b", -0.1), (3, "c", None)])], 0)
    found = in_worker(target).query(f"SELECT x FROM {target.table} ORDER BY id")
    assert found == [(1e300,), (-0.1,), (None,)]
