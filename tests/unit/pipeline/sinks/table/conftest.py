"""A PostgreSQL for each module that wants one, and tables with row receivers in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.postgres_server import PostgresServer, running_postgres
from tests.unit.pipeline.sinks.table.landing_table import LandingTable, NewLanding


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with running_postgres(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@pytest.fixture
def new_landing(postgres: PostgresServer) -> Iterator[NewLanding]:
    made = []

    def create(**settings: Any) -> LandingTable:
        made.append(LandingTable(postgres, **settings))
        return made[-1]

    yield create
    for table in made:
        table.close()
