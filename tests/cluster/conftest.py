"""One cluster for the tests of a file that do it no harm, and a new one for those that do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.testing.cluster import Cluster
from penstock.testing.etcd import EtcdMissingError, find_etcd
from tests.conftest import optional_part_missing

# A group need not wait for more members, and five partitions of the internal topics are enough.
CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
}


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[Cluster]:
    """For tests that stop nothing; each uses its own topic names."""
    require_etcd()
    with Cluster(brokers=3, config=CONFIG) as cluster:
        yield cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    require_etcd()
    with Cluster(brokers=3, config=CONFIG) as cluster:
        yield cluster


def require_etcd() -> None:
    try:
        find_etcd()
    except EtcdMissingError as missing:
        optional_part_missing(str(missing))
