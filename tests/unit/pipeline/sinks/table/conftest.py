"""Databases for each module that wants one, and tables of PostgreSQL with row receivers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.databases import DATABASES
from tests.postgres_server import PostgresServer, running_postgres
from tests.unit.pipeline.sinks.table.landing_table import LandingTable, NewLanding


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with running_postgres(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """The URL of a database, by its name in DATABASES; started when it is first asked for."""
    found: dict[str, str] = {}
    with ExitStack() as stack:

        def url(name: str) -> str:
            if name not in found:
                found[name] = stack.enter_context(DATABASES[name](tmp_path_factory.mktemp(name)))
            return found[name]

        yield url


@pytest.fixture
def new_landing(postgres: PostgresServer) -> Iterator[NewLanding]:
    made = []

    def create(**settings: Any) -> LandingTable:
        made.append(LandingTable(postgres, **settings))
        return made[-1]

    yield create
    for table in made:
        table.close()
