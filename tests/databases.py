"""The databases of the tests, one for each dialect that a table may be in: how each is had, by the scheme of its URL.

A new dialect is one line here, and then in every test that is run over all databases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from penstock.pipeline.sinks.table.databases import DIALECTS
from penstock.testing import mariadb
from penstock.testing.database_server import DatabaseMissingError
from penstock.testing.mariadb import MariaDbServer
from tests.conftest import optional_part_missing
from tests.postgres_server import running_postgres


@contextmanager
def running_mariadb(directory: Path) -> Iterator[MariaDbServer]:
    """`directory` is empty. A test without MariaDB is skipped, or fails where every part is required."""
    with ExitStack() as stack:
        try:
            server = stack.enter_context(mariadb.running_mariadb(directory))
        except DatabaseMissingError as missing:
            optional_part_missing(str(missing))
        yield server


@contextmanager
def _sqlite(directory: Path) -> Iterator[str]:
    yield f"sqlite:///{directory}/tests.db"


@contextmanager
def _postgres(directory: Path) -> Iterator[str]:
    with running_postgres(directory) as server:
        yield server.url


@contextmanager
def _mariadb(directory: Path) -> Iterator[str]:
    with running_mariadb(directory) as server:
        yield server.url


# A URL for the length of a block, given an empty directory.
DATABASES: Final[dict[str, Callable[[Path], AbstractContextManager[str]]]] = {
    "sqlite": _sqlite,
    "postgresql": _postgres,
    "mysql": _mariadb,
}
assert set(DATABASES) == {dialect.schemes[0] for dialect in DIALECTS}, "a dialect has no database in the tests"

# For tests over all databases: MariaDB takes as long as the others together, so `make test-slow` runs it there.
DATABASE_PARAMS: Final = [pytest.param(name, marks=[pytest.mark.slow] if name == "mysql" else []) for name in DATABASES]
