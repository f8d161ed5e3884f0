"""Databases of tests, by name: SQLite is a file, the others are servers that start when a test asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from uuid import uuid4

import pytest

from tests.databases import DATABASES
from tests.unit.connect.connectors.jdbc.jdbc import execute


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    found: dict[str, str] = {}
    with ExitStack() as stack:

        def url(name: str) -> str:
            if name not in found:
                found[name] = stack.enter_context(DATABASES[name](tmp_path_factory.mktemp(name)))
            return found[name]

        yield url


@pytest.fixture
def new_database(servers: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The URL of an empty database."""

    def create(name: str) -> str:
        if name == "sqlite":
            return f"sqlite:///{tmp_path_factory.mktemp('sqlite')}/tests.db"
        url = servers(name)
        database = f"t{uuid4().hex[:12]}"
        execute(url, f"CREATE DATABASE {database}")
        return f"{url.rpartition('/')[0]}/{database}"

    return create
