"""pytest fixtures: `penstock_broker`, `penstock_broker_factory`.

Found by pytest by itself once Penstock is installed. pytest imports this module in every run, whether or not a test
asks for a broker, so nothing of the broker's is imported before a fixture is used.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from penstock.testing.broker import Broker


class BrokerFactory(Protocol):
    def __call__(self, *, config: Mapping[str, str] | None = None, data_dir: Path | str | None = None) -> Broker: ...


@pytest.fixture(scope="session")
def penstock_broker() -> Iterator[Broker]:
    """A running broker that all tests of the session share: each test takes topic names of its own.

    A test that wants its own broker, other settings, or to stop and kill it, asks for `penstock_broker_factory`.
    """
    from penstock.testing.broker import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture
def penstock_broker_factory() -> Iterator[BrokerFactory]:
    """Call it for a running broker with settings of your own; it is stopped after the test.

    def test_mine(penstock_broker_factory):
        broker = penstock_broker_factory(config={"num.partitions": "3"})
    """
    from penstock.testing.broker import Broker

    with contextlib.ExitStack() as brokers:

        def start(*, config: Mapping[str, str] | None = None, data_dir: Path | str | None = None) -> Broker:
            return brokers.enter_context(Broker(config=config, data_dir=data_dir))

        yield start
