"""Tables for queries: a PostgreSQL server per turn, its tables, and their row counts afterwards.

Owns the server's settings, which are PostgreSQL's defaults: a commit is synced to disk. It must not know which engine
writes.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.bench.measurement import MeasurementError

if TYPE_CHECKING:
    import psycopg

_EXTRAS: Final = ("adbc_driver_postgresql", "psycopg")


def absence() -> str | None:
    """Why tables cannot be measured, or None. Fetches the JDBC driver of stock Spark, before any measurement."""
    missing_packages = [name for name in _EXTRAS if find_spec(name) is None]
    if missing_packages:
        return f"{', '.join(missing_packages)} missing: pip install 'penstock[spark]'"
    from penstock.testing.database_server import DatabaseMissingError
    from penstock.testing.java import JavaMissingError
    from penstock.testing.postgres import find_postgres
    from penstock.testing.spark_connector import database_driver_jars

    try:
        find_postgres()
        database_driver_jars()
    except (DatabaseMissingError, JavaMissingError, OSError, subprocess.SubprocessError) as missing:
        return str(missing).strip()
    return None


@contextmanager
def running_database(parent: Path) -> Iterator[str]:
    """Yields the URL of a new server, which is removed with its data at the end."""
    from penstock.testing.postgres import running_postgres

    parent.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="postgres-", dir=parent))
    try:
        with running_postgres(directory) as server:
            yield server.url
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def create_table(database: str, name: str) -> None:
    """The same table for both engines, so that neither chooses its types; without an index."""
    _execute(database, f'CREATE TABLE "{name}" (key bytea, value bytea)')


def rows_of(database: str, name: str) -> int:
    found: int = _execute(database, f'SELECT count(*) FROM "{name}"').fetchall()[0][0]  # noqa: S608 (a name of our own)
    return found


def _execute(database: str, statement: str) -> psycopg.Cursor[Any]:
    import psycopg

    try:
        with psycopg.connect(database, autocommit=True) as connection:
            return connection.execute(statement.encode())
    except psycopg.Error as failure:
        raise MeasurementError(f"PostgreSQL: {failure}") from failure
