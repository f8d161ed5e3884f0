from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.unit.broker.handlers.requests import AdminNode, Client

ClientMaker = Callable[[dict[str, str]], Client]


@pytest.fixture
def client_with(tmp_path: Path) -> Iterator[ClientMaker]:
    """A client of a new node with the given settings."""
    with ExitStack() as nodes:

        def make(settings: dict[str, str]) -> Client:
            node = AdminNode(tmp_path, settings)
            nodes.callback(node.store.close)
            return Client(node)

        yield make


@pytest.fixture
def client(client_with: ClientMaker) -> Client:
    return client_with({})
