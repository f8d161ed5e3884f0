"""What is wrong with a database, and the exit code of a pipeline that ends with it: the whole table, each dialect."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from penstock.core.error_table import Retry
from penstock.core.exit_codes import ExitCode
from penstock.pipeline.sinks.table.connections import in_driver
from penstock.pipeline.sinks.table.dialects.postgres.database import _not_connected
from penstock.pipeline.sinks.table.errors import TableSinkError
from penstock.pipeline.sinks.table.preparation import prepare
from penstock.pipeline.sinks.table.target import TableTarget

SCHEMA = StructType([StructField("id", LongType()), StructField("word", StringType())])
NOBODY = 65534
Urls = Callable[[str], str]


def target(url: str, **settings: Any) -> TableTarget:
    name = f"t{uuid4().hex[:10]}"
    return TableTarget(**{"url": url, "table": name, "mode": "append", "pipeline": name, "run": "r", **settings})


def error_of(wrong: TableTarget) -> TableSinkError:
    with pytest.raises(TableSinkError) as failed:
        prepare(wrong, SCHEMA)
    assert "\n" not in str(failed.value)
    assert "hunter2" not in str(failed.value)
    return failed.value


def execute(made: TableTarget, *statements: str) -> None:
    with in_driver(made) as database:
        for statement in statements:
            database.execute(statement)


def with_database(url: str, database: str) -> str:
    return f"{url.rpartition('/')[0]}/{database}"


def with_user(url: str, user: str) -> str:
    return url.replace("penstock@", f"{user}@")


def stranger(url: str) -> TableTarget:
    """A table, and a user who may look at it and nothing else."""
    made = target(url)
    prepare(made, SCHEMA)
    user = f"u{uuid4().hex[:10]}"
    if url.startswith("mysql"):
        execute(
            made,
            f"CREATE USER {user}@'127.0.0.1' IDENTIFIED BY 'hunter2'",
            f"GRANT SELECT ON penstock.* TO {user}@'127.0.0.1'",
        )
    else:
        execute(made, f"CREATE ROLE {user} LOGIN", f"GRANT SELECT ON {made.table} TO {user}")
    return target(with_user(url, f"{user}:hunter2"), table=made.table)


def narrow(url: str) -> TableTarget:
    made = target(url)
    execute(made, f"CREATE TABLE {made.table} (id BIGINT)")
    return made


SERVERS: dict[str, tuple[Callable[[str], TableTarget], ExitCode, Retry]] = {
    "unknown user": (
        lambda url: target(with_user(url, "nobody-here:hunter2")),
        ExitCode.ACCESS_DENIED,
        Retry.NEVER,
    ),
    "no privilege": (stranger, ExitCode.ACCESS_DENIED, Retry.NEVER),
    "unknown database": (lambda url: target(with_database(url, "nowhere")), ExitCode.SINK_REFUSED, Retry.NEVER),
    "column missing": (narrow, ExitCode.SINK_REFUSED, Retry.NEVER),
    "unreachable": (
        lambda url: target(f"{url.partition(':')[0]}://me:hunter2@127.0.0.1:1/x"),
        ExitCode.UNREACHABLE,
        Retry.UNTIL_IT_RETURNS,
    ),
    "unknown host": (
        lambda url: target(f"{url.partition(':')[0]}://me:hunter2@no-such-host.invalid/x"),
        ExitCode.SINK_REFUSED,
        Retry.NEVER,
    ),
}


@pytest.mark.parametrize("database", ["postgresql", "mysql"])
@pytest.mark.parametrize("what", SERVERS)
def test_a_server_that_cannot_be_written(what: str, database: str, urls: Urls) -> None:
    wrong, code, retry = SERVERS[what]
    error = error_of(wrong(urls(database)))
    assert (error.entry.exit_code, error.entry.retry) == (code, retry)


def test_a_wrong_password() -> None:
    """PostgreSQL's words; the server of the tests lets everybody in. MariaDB's does not: see test_mariadb.py."""
    said = 'IO: [libpq] Failed to connect: FATAL:  password authentication failed for user "me"'
    error = _not_connected("PostgreSQL", "postgresql://me:hunter2@host/x", said)
    assert (error.entry.exit_code, error.entry.retry) == (ExitCode.ACCESS_DENIED, Retry.NEVER)


def no_directory(directory: Path) -> Path:
    return directory / "none" / "shop.db"


def a_directory(directory: Path) -> Path:
    return directory


def below_a_file(directory: Path) -> Path:
    (directory / "file").write_text("")
    return directory / "file" / "shop.db"


def no_database(directory: Path) -> Path:
    (directory / "shop.db").write_text("not a database, but long enough to look like one" * 20)
    return directory / "shop.db"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (no_directory, ExitCode.NOT_WRITABLE),
        (a_directory, ExitCode.NOT_WRITABLE),
        (below_a_file, ExitCode.NOT_WRITABLE),
        (no_database, ExitCode.SINK_REFUSED),
    ],
)
def test_a_file_that_cannot_be_a_database(path: Callable[[Path], Path], code: ExitCode, tmp_path: Path) -> None:
    error = error_of(target(f"sqlite:///{path(tmp_path)}"))
    assert (error.entry.exit_code, error.entry.retry) == (code, Retry.NEVER)


@pytest.mark.parametrize("what", ["a read-only file", "a read-only directory"])
def test_a_database_that_this_user_may_not_write(what: str, open_directory: Path) -> None:
    database = open_directory / "shop.db"
    if what == "a read-only file":
        with sqlite3.connect(database) as connection:
            connection.execute("CREATE TABLE other (id INT)")
        connection.close()
        database.chmod(0o444)
    open_directory.chmod(0o555)
    with unprivileged():
        error = error_of(target(f"sqlite:///{database}"))
    assert (error.entry.exit_code, error.entry.retry) == (ExitCode.NOT_WRITABLE, Retry.NEVER)
    assert str(database) in str(error)
    assert "must exist and be writable" in str(error)


def test_a_table_of_sqlite_without_a_column(tmp_path: Path) -> None:
    error = error_of(narrow(f"sqlite:///{tmp_path}/shop.db"))
    assert (error.entry.exit_code, error.entry.retry) == (ExitCode.SINK_REFUSED, Retry.NEVER)


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """Where every user gets in: tests may run as root, for whom nothing is read-only."""
    directory = Path(tempfile.mkdtemp(prefix="penstock-tests-"))
    directory.chmod(0o755)
    yield directory
    directory.chmod(0o755)
    shutil.rmtree(directory)


@contextmanager
def unprivileged() -> Iterator[None]:
    before = os.geteuid()
    if before:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(before)
