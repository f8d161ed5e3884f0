"""The database of a turn, with small loads and without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock.bench.measurement import MeasurementError
from penstock.bench.spark.driver import _stock_table_writer
from penstock.bench.spark.tables import absence, create_table, rows_of, running_database
from penstock.testing import postgres, spark_connector
from penstock.testing.database_server import DatabaseMissingError
from penstock.testing.java import JavaMissingError
from tests.conftest import optional_part_missing


@pytest.fixture
def jars_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that asks what is missing fetches nothing."""
    monkeypatch.setattr(spark_connector, "database_driver_jars", list)


def test_rows_are_counted_and_the_server_leaves_nothing(tmp_path: Path) -> None:
    try:
        with running_database(tmp_path / "data") as database:
            create_table(database, "out_100")
            assert rows_of(database, "out_100") == 0
            with psycopg.connect(database) as connection:
                connection.execute("INSERT INTO out_100 (value) VALUES ('a'), ('b')")
            assert rows_of(database, "out_100") == 2
            with psycopg.connect(database) as connection:
                # What is committed is on disk, on either side.
                settings = connection.execute(
                    "SELECT current_setting('fsync'), current_setting('synchronous_commit')"
                ).fetchone()
            assert settings == ("on", "on")
            with pytest.raises(MeasurementError, match="does not exist"):
                rows_of(database, "out_1024")
    except DatabaseMissingError as missing:
        optional_part_missing(str(missing))
    assert list((tmp_path / "data").iterdir()) == []


@pytest.mark.usefixtures("jars_at_hand")
def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "find_postgres", lambda: Path("bin"))
    assert absence() is None

    def no_jars() -> list[Path]:
        raise JavaMissingError("Maven fetches the jars")

    monkeypatch.setattr(spark_connector, "database_driver_jars", no_jars)
    assert absence() == "Maven fetches the jars"

    def no_postgres() -> Path:
        raise DatabaseMissingError("PostgreSQL is not installed")

    monkeypatch.setattr(postgres, "find_postgres", no_postgres)
    assert absence() == "PostgreSQL is not installed"


def test_the_stock_side_inserts_many_rows_with_one_statement() -> None:
    class Batch:
        def __init__(self) -> None:
            self.write = self
            self.written: list[tuple[Any, ...]] = []

        def jdbc(self, url: str, table: str, *, mode: str, properties: dict[str, str]) -> None:
            self.written.append((url, table, mode, properties))

    batch: Any = Batch()
    _stock_table_writer("postgresql://someone@127.0.0.1:5432/there", "out_100")(batch, 0)
    ((url, table, mode, properties),) = batch.written
    assert (url, table, mode) == ("jdbc:postgresql://127.0.0.1:5432/there", "out_100", "append")
    assert properties["user"] == "someone"
    assert properties["reWriteBatchedInserts"] == "true"
