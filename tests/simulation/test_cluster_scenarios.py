"""Faults of a cluster that a seed found once, or that no seed may be trusted to find: each as a scenario of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.simulation.cluster import process
from tests.simulation.cluster.cluster import Cluster
from tests.simulation.cluster.etcd import HOST


@contextmanager
def cluster() -> Iterator[Cluster]:
    made = Cluster(1)
    try:
        yield made
    finally:
        made.close()


def run_until(made: Cluster, is_over: Callable[[], bool], within_s: float = 30.0) -> None:
    assert made.world.run_until(is_over, made.world.now_s + within_s, made.check)


def pass_time(made: Cluster, seconds: float) -> None:
    made.world.run_until(lambda: False, made.world.now_s + seconds, made.check)


def test_a_registration_whose_answer_was_lost_is_the_brokers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was committed after the broker had given up waiting. The next attempt must not meet a stranger."""
    monkeypatch.setattr(process, "REQUEST_TIMEOUT_MS", 1000)  # less than the session
    with cluster() as made:
        broker = made.brokers[0]
        broker.start()
        run_until(made, lambda: broker.directory.lease_id is not None)
        made.network.cut(HOST, broker.host)
        pass_time(made, 2)
        assert broker.broker_id in made.truth.image.known_brokers
        made.network.heal()
        run_until(made, lambda: broker.is_serving)
