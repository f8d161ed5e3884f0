"""Faults of a cluster that a seed found once, or that no seed may be trusted to find: each as a scenario of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from penstock.log.checkpoints import PARTITION_METADATA, decode_partition_metadata
from penstock.protocol.definitions.create_topics import CreatableTopic, CreateTopicsRequest
from tests.simulation.cluster import process
from tests.simulation.cluster.client import Client
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


def serving(made: Cluster) -> None:
    for broker in made.brokers:
        broker.start()
    run_until(made, lambda: all(broker.is_serving for broker in made.brokers))


def do(made: Cluster, client: Client, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Begins it; `run_until` the task is done."""
    return client.loop.create_task(work)


def creation(name: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=3)])


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


def test_of_two_topics_of_one_name_created_at_once_the_committed_one_keeps_its_logs() -> None:
    """The proposal that lost had made logs for its own topic, and removed them from under the replicas of the other."""
    with cluster() as made:
        serving(made)
        clients = [made.client(name) for name in ("first", "second")]
        tasks = [
            do(made, client, client.ask(broker, creation("topic"), 7)) for broker, client in enumerate(clients, start=1)
        ]
        run_until(made, lambda: all(task.done() for task in tasks))
        assert sorted(task.result().topics[0].error_code for task in tasks) == [0, 36]
        pass_time(made, 1)
        (topic,) = made.truth.image.topics.values()
        for broker in made.brokers:
            content = broker.disk.read_file(f"{process.DIRECTORY}/topic-0/{PARTITION_METADATA}")
            assert decode_partition_metadata(content) == topic.topic_id
