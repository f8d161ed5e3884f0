"""A table before its first row: created, or refused with one line and nothing changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType, TimestampType

from penstock.pipeline.sinks.table.connections import forget, in_driver, in_worker
from penstock.pipeline.sinks.table.databases import dialect_of
from penstock.pipeline.sinks.table.errors import (
    DatabaseAccessDenied,
    DatabaseNotWritable,
    DatabaseUnavailable,
    Fenced,
    TableRefused,
)
from penstock.pipeline.sinks.table.ledger import Ledger
from penstock.pipeline.sinks.table.preparation import claim, prepare
from penstock.pipeline.sinks.table.target import TableTarget
from tests.databases import DATABASE_PARAMS
from tests.postgres_server import PostgresServer

SCHEMA = StructType(
    [
        StructField("customer", StringType()),
        StructField("revenue", DoubleType()),
        StructField("orders", LongType()),
        StructField("at", TimestampType()),
    ]
)
COLUMNS = {
    "sqlite": {"customer": "TEXT", "revenue": "REAL", "orders": "INTEGER", "at": "TIMESTAMP"},
    "postgresql": {"customer": "text", "revenue": "double precision", "orders": "bigint", "at": "timestamptz"},
    "mysql": {
        "customer": "varchar(100) COLLATE utf8mb4_bin",
        "revenue": "double",
        "orders": "bigint",
        "at": "datetime(6)",
    },
}


class Place:
    """A database, and the name of a table that is not there yet."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.kind = url.partition(":")[0]
        self.table = f"t_{uuid4().hex[:8]}"

    def target(self, **settings: Any) -> TableTarget:
        given = {"url": self.url, "table": self.table, "mode": "append", "pipeline": self.table, "run": "first"}
        return TableTarget(**{**given, **settings})

    def upsert(self, **settings: Any) -> TableTarget:
        return self.target(mode="upsert", key=("customer",), **settings)

    def execute(self, *statements: str) -> None:
        with in_driver(self.target()) as database:
            for statement in statements:
                database.execute(statement)

    def create(self, *more: str, **changed: str | None) -> None:
        """The table that fits, with these changes; None is a column that is left out."""
        types: dict[str, str | None] = {**COLUMNS[self.kind], **changed}
        quoted = dialect_of(self.url).quoted
        columns = [f"{quoted(name)} {declared}" for name, declared in types.items() if declared is not None]
        self.execute(f"CREATE TABLE {self.table} ({', '.join([*columns, *more])})")

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        with in_driver(self.target()) as database:
            return database.query(statement)


@pytest.fixture(params=DATABASE_PARAMS)
def place(request: pytest.FixtureRequest, urls: Callable[[str], str]) -> Place:
    return Place(urls(request.param))


def test_a_missing_table_is_created_with_its_key(place: Place) -> None:
    target = place.upsert()
    prepare(target, SCHEMA)
    prepare(target, SCHEMA)  # and is then one that fits
    with pytest.raises(TableRefused, match=r"(?i)constraint"):
        place.execute(f"INSERT INTO {place.table} (customer) VALUES ('a'), ('a')")
    with pytest.raises(TableRefused, match=r"(?i)constraint"):
        place.execute(f"INSERT INTO {place.table} (customer) VALUES (NULL)")


def test_a_table_that_fits_is_taken_as_it_is(place: Place) -> None:
    place.create("note varchar(20) DEFAULT 'x' NOT NULL", "UNIQUE (customer)")
    prepare(place.upsert(), SCHEMA)
    prepare(place.target(), SCHEMA)


Change = Callable[[Place], None]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda place: place.create(orders=None), "has no column 'orders'; ALTER TABLE .* ADD COLUMN [\"`]orders[\"`]"),
        (
            lambda place: place.create(revenue="BIGINT"),
            "column 'revenue' of table '.*' is (?i:bigint).*, and the pipeline's is double; CAST it in the SELECT",
        ),
        (
            lambda place: place.create("note varchar(20) NOT NULL"),
            "column 'note' of table '.*' is NOT NULL without a default.*SELECT it, or give it a default",
        ),
        (
            lambda place: place.create(orders="BIGINT GENERATED ALWAYS AS (1) STORED"),
            "column 'orders' of table '.*' is generated; leave it out of the SELECT",
        ),
        (lambda place: place.execute(f"CREATE VIEW {place.table} AS SELECT 1 AS customer"), "view.*name a table"),
    ],
    ids=["column missing", "type too narrow", "not null", "generated", "view"],
)
def test_a_table_that_does_not_fit_is_refused_and_nothing_is_made(place: Place, change: Change, message: str) -> None:
    change(place)
    with pytest.raises(TableRefused, match=message) as refusal:
        prepare(place.target(pipeline="other"), SCHEMA)
    assert "\n" not in str(refusal.value)
    with pytest.raises(TableRefused, match=message):
        prepare(place.target(), SCHEMA)


@pytest.mark.parametrize("index", ["", "(customer, orders)", "(customer) WHERE orders > 0", "(lower(customer))"])
def test_upsert_wants_a_unique_index_on_exactly_its_key(place: Place, index: str) -> None:
    place.create()
    if place.kind == "mysql" and index and index != "(customer, orders)":
        index = "(customer(10))"  # it has neither partial indexes nor expressions in them, and has prefixes
    if index:
        place.execute(f"CREATE UNIQUE INDEX {place.table}_i ON {place.table} {index}")
    with pytest.raises(TableRefused, match="has no unique index on exactly its key; CREATE UNIQUE INDEX"):
        prepare(place.upsert(), SCHEMA)
    prepare(place.target(), SCHEMA)


def test_a_key_that_the_pipeline_does_not_have_is_refused(place: Place) -> None:
    with pytest.raises(TableRefused, match="key's column 'Customer' is not among the pipeline's: customer, revenue"):
        prepare(place.target(mode="upsert", key=("Customer",)), SCHEMA)


def test_the_last_claim_owns_the_table(place: Place) -> None:
    first, second = place.target(run="first"), place.target(run="second")
    prepare(first, SCHEMA)
    claim(first, SCHEMA)
    try:
        Ledger(first).read(in_worker(first))
        claim(second, SCHEMA)
        with pytest.raises(Fenced, match="another run of pipeline"):
            Ledger(first).read(in_worker(first))
        prepare(first, SCHEMA)  # takes nothing back
        assert Ledger(second).read(in_worker(second)).owner == "second"
    finally:
        forget(first)


def test_a_table_in_a_schema_keeps_the_ledger_beside_it(postgres: PostgresServer) -> None:
    place = Place(postgres.url)
    place.execute("CREATE SCHEMA shop")
    target = place.target(table="shop.revenue")
    prepare(target, SCHEMA)
    claim(target, SCHEMA)
    assert place.query("SELECT owner FROM shop.penstock_ledger") == [("first",)]


def test_a_user_who_may_not_write_is_told_so(postgres: PostgresServer) -> None:
    place = Place(postgres.url)
    place.create("UNIQUE (customer)")
    place.execute(f"CREATE ROLE {place.table} LOGIN", f"GRANT INSERT ON {place.table} TO {place.table}")
    url = postgres.url.replace("penstock@", f"{place.table}@")
    with pytest.raises(DatabaseAccessDenied, match="may not UPDATE: GRANT INSERT, UPDATE, SELECT ON"):
        prepare(place.upsert(url=url), SCHEMA)
    with pytest.raises(DatabaseAccessDenied, match="permission denied for schema public; GRANT it"):
        prepare(place.target(url=url), SCHEMA)


@pytest.mark.parametrize(
    ("user", "database", "kind", "message"),
    [
        ("nobody-here:hunter2", "postgres", DatabaseAccessDenied, "check the user and the password of the URL"),
        ("penstock:hunter2", "nowhere", TableRefused, 'database "nowhere" does not exist; create the database'),
    ],
)
def test_a_url_that_leads_nowhere(
    postgres: PostgresServer, user: str, database: str, kind: type[Exception], message: str
) -> None:
    target = Place(f"postgresql://{user}@127.0.0.1:{postgres.port}/{database}").target()
    with pytest.raises(kind, match=message) as refusal:
        prepare(target, SCHEMA)
    assert "hunter2" not in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(DatabaseUnavailable, match=r"PostgreSQL postgresql://me:\*\*\*@127.0.0.1:1/x does not answer"):
        prepare(Place("postgresql://me:hunter2@127.0.0.1:1/x").target(), SCHEMA)


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(
        DatabaseNotWritable, match="unable to open database file; the file and its directory must exist"
    ):
        prepare(Place(f"sqlite:///{tmp_path}/none/shop.db").target(), SCHEMA)


def test_another_kind_of_file(tmp_path: Path) -> None:
    (tmp_path / "shop.db").write_text("not a database, but long enough to look like one" * 20)
    with pytest.raises(TableRefused, match="it is damaged, or another kind of file"):
        prepare(Place(f"sqlite:///{tmp_path}/shop.db").target(), SCHEMA)


def test_readers_go_on_while_a_new_database_is_written(tmp_path: Path) -> None:
    prepare(Place(f"sqlite:///{tmp_path}/shop.db").target(), SCHEMA)
    connection = sqlite3.connect(tmp_path / "shop.db")
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
