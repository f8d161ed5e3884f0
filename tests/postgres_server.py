"""A PostgreSQL server of the test's own. A test without one is skipped, or fails where every part is required."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from penstock.testing import postgres
from penstock.testing.database_server import DatabaseMissingError
from penstock.testing.postgres import PostgresServer
from tests.conftest import optional_part_missing

__all__ = ["PostgresServer", "postgres_server", "running_postgres"]


@contextmanager
def running_postgres(directory: Path) -> Iterator[PostgresServer]:
    """`directory` is empty."""
    with ExitStack() as stack:
        try:
            server = stack.enter_context(postgres.running_postgres(directory))
        except DatabaseMissingError as missing:
            optional_part_missing(str(missing))
        yield server


@contextmanager
def postgres_server(directory: Path) -> Iterator[str]:
    """The connection string of a running server; `directory` is empty."""
    with running_postgres(directory) as server:
        yield server.address
