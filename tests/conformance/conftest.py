"""Databases that the suites of sinks and sources share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.databases import DATABASES


@pytest.fixture(scope="session")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """The URL of a database, by its name in DATABASES; started when it is first asked for."""
    found: dict[str, str] = {}
    with ExitStack() as stack:

        def url(name: str) -> str:
            if name not in found:
                found[name] = stack.enter_context(DATABASES[name](tmp_path_factory.mktemp(name)))
            return found[name]

        yield url
