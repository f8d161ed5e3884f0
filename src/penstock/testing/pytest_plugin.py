"""pytest fixtures: `penstock_broker`, `penstock_broker_factory`, `penstock_cluster`, `penstock_cluster_factory`.

pytest discovers this plugin when Penstock is installed, and imports it in every run; broker code is therefore imported
only when a test uses a fixture.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from penstock.testing.broker import Broker
    from penstock.testing.cluster import Cluster


class BrokerFactory(Protocol):
    def __call__(self, *, config: Mapping[str, str] | None = None, data_dir: Path | str | None = None) -> Broker: ...


class ClusterFactory(Protocol):
    def __call__(
        self,
        *,
        brokers: int = 3,
        config: Mapping[str, str] | None = None,
        broker_configs: Mapping[int, Mapping[str, str]] | None = None,
        etcd_members: int = 1,
    ) -> Cluster: ...


@pytest.fixture(scope="session")
def penstock_broker() -> Iterator[Broker]:
    """A running broker that all tests of the session share; each test uses its own topic names.

    A test that needs its own broker, other settings, or stops and kills, uses `penstock_broker_factory`.
    """
    from penstock.testing.broker import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture
def penstock_broker_factory() -> Iterator[BrokerFactory]:
    """Call it to start a broker with your own settings; it stops after the test.

    def test_mine(penstock_broker_factory):
        broker = penstock_broker_factory(config={"num.partitions": "3"})
    """
    from penstock.testing.broker import Broker

    with contextlib.ExitStack() as brokers:

        def start(*, config: Mapping[str, str] | None = None, data_dir: Path | str | None = None) -> Broker:
            return brokers.enter_context(Broker(config=config, data_dir=data_dir))

        yield start


@pytest.fixture
def penstock_cluster(penstock_cluster_factory: ClusterFactory) -> Cluster:
    """Three brokers and an etcd of the test's own, with faults on call; all of it is gone after the test.

    def test_mine(penstock_cluster):
        penstock_cluster.kill(penstock_cluster.leader("orders", 0))
    """
    return penstock_cluster_factory()


@pytest.fixture
def penstock_cluster_factory() -> Iterator[ClusterFactory]:
    """Call it to start a cluster of another size, or with your own settings."""
    from penstock.testing.cluster import Cluster

    with contextlib.ExitStack() as clusters:

        def start(
            *,
            brokers: int = 3,
            config: Mapping[str, str] | None = None,
            broker_configs: Mapping[int, Mapping[str, str]] | None = None,
            etcd_members: int = 1,
        ) -> Cluster:
            return clusters.enter_context(
                Cluster(brokers=brokers, config=config, broker_configs=broker_configs, etcd_members=etcd_members)
            )

        yield start
