from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.testing import Broker
from tests.integration.connect.workers import BROKER_CONFIG, ConnectCluster


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """Groups rebalance without a delay, and sessions may be short."""
    with Broker(config=BROKER_CONFIG) as broker:
        yield broker


@pytest.fixture
def cluster(broker: Broker, tmp_path: Path) -> Iterator[ConnectCluster]:
    with ConnectCluster(broker.bootstrap_servers, tmp_path) as cluster:
        yield cluster
        assert "TWICE" not in {what for _time, what, _name, _worker in cluster.runs()}
