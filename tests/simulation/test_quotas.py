"""Clients that exceed a quota are told for how long, and are not read from for that long. In virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.core.quotas import DEFAULT, QuotaEntity
from penstock.metadata.changes import ClientQuotaChanged
from penstock.protocol.definitions.api_versions import ApiVersionsRequest
from penstock.protocol.definitions.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.definitions.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.definitions.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.error_codes import ErrorCode
from tests.integration.broker.conversation import Topic, batch_of, fetch_request, produce_request
from tests.simulation.node import SimulatedClient, Simulation, simulated

ANONYMOUS = QuotaEntity("ANONYMOUS")
PRODUCE_VERSION = 10
FETCH_VERSION = 12
KILOBYTE = b"x" * 1000


def set_quota(simulation: Simulation, entity: QuotaEntity, **quotas: float) -> None:
    outcomes: list[object] = []
    simulation.node.propose(lambda image: [ClientQuotaChanged(entity, quotas)], outcomes.append)
    simulation.loop.run_until_idle()
    assert outcomes == [None]


def topic_of(client: SimulatedClient, name: str = "orders", partitions: int = 1) -> Topic:
    wanted = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    (created,) = client.ask(CreateTopicsRequest(topics=[wanted]), 7).topics
    assert created.error_code == ErrorCode.NONE, created.error_message
    return Topic(name, created.topic_id)


def produce(client: SimulatedClient, topic: Topic, records: int) -> Any:
    request = produce_request(topic, {0: batch_of(*[KILOBYTE] * records)})
    answer = client.receive(0, PRODUCE_VERSION, client.send(request, PRODUCE_VERSION))
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    return answer


def seconds_until_heard(simulation: Simulation, client: SimulatedClient) -> float:
    """How long the next request of the connection waits."""
    started_s = simulation.loop.time()
    client.receive(18, 0, client.send(ApiVersionsRequest(), 0))
    return simulation.loop.time() - started_s


def test_a_producer_over_its_quota_is_told_and_muted(tmp_path: Path) -> None:
    with simulated(tmp_path, 1) as simulation:
        client, other = simulation.client("10.0.0.1"), simulation.client("10.0.0.2")
        topic = topic_of(client)
        assert produce(client, topic, 20).throttle_time_ms == 0
        assert simulation.node.quotas is None
        set_quota(simulation, ANONYMOUS, producer_byte_rate=1000)
        assert produce(client, topic, 5).throttle_time_ms == 0  # 5 of the 10 seconds that are measured
        told_ms = produce(client, topic, 15).throttle_time_ms
        assert 10_000 <= told_ms <= 11_000  # 20 KB are twice what 10 seconds allow
        assert seconds_until_heard(simulation, other) < 1
        assert seconds_until_heard(simulation, client) == pytest.approx(told_ms / 1000, abs=0.1)
        set_quota(simulation, ANONYMOUS)
        assert simulation.node.quotas is None
        assert produce(client, topic, 50).throttle_time_ms == 0


def test_clients_of_one_user_share_its_quota_and_those_of_a_client_id_have_their_own(tmp_path: Path) -> None:
    with simulated(tmp_path, 2) as simulation:
        first, second = simulation.client("10.0.0.1"), simulation.client("10.0.0.2")
        topic = topic_of(first)
        set_quota(simulation, QuotaEntity(DEFAULT), producer_byte_rate=1000)
        assert produce(first, topic, 9).throttle_time_ms == 0
        assert produce(second, topic, 9).throttle_time_ms > 0


def test_requests_that_arrived_together_wait_too(tmp_path: Path) -> None:
    """Muting stops what is in the buffer already, and acks=0 has no answer to tell it."""
    with simulated(tmp_path, 3) as simulation:
        client = simulation.client("10.0.0.1")
        topic = topic_of(client)
        set_quota(simulation, ANONYMOUS, producer_byte_rate=1000)
        client.send(produce_request(topic, {0: batch_of(*[KILOBYTE] * 20)}, acks=0), PRODUCE_VERSION)
        assert seconds_until_heard(simulation, client) > 9


def test_a_consumer_over_its_quota_is_told_and_muted(tmp_path: Path) -> None:
    with simulated(tmp_path, 4) as simulation:
        client = simulation.client("10.0.0.1")
        topic = topic_of(client)
        for _ in range(20):
            produce(client, topic, 2)
        set_quota(simulation, ANONYMOUS, consumer_byte_rate=1000)

        def fetch(offset: int) -> Any:
            request = fetch_request(topic, {0: offset}, max_bytes=1 << 20)
            return client.receive(1, FETCH_VERSION, client.send(request, FETCH_VERSION))

        answer = fetch(0)
        # A fetch returns what the windows allow, although it asked for more and more is there.
        assert 2000 < len(answer.responses[0].partitions[0].records) <= 10_000
        assert answer.throttle_time_ms == 0
        told_ms = fetch(0).throttle_time_ms
        assert told_ms > 5000
        assert seconds_until_heard(simulation, client) == pytest.approx(told_ms / 1000, abs=0.1)


def test_a_fetch_that_waits_is_counted_when_it_is_answered(tmp_path: Path) -> None:
    with simulated(tmp_path, 5) as simulation:
        producer, consumer = simulation.client("10.0.0.1"), simulation.client("10.0.0.2")
        topic = topic_of(producer)
        set_quota(simulation, ANONYMOUS, consumer_byte_rate=100)
        parked = consumer.send(fetch_request(topic, {0: 0}, max_wait_ms=500), FETCH_VERSION)
        produce(producer, topic, 2)
        assert consumer.receive(1, FETCH_VERSION, parked).throttle_time_ms > 1000
        assert seconds_until_heard(simulation, consumer) > 1


def test_changes_of_the_cluster_have_a_quota(tmp_path: Path) -> None:
    with simulated(tmp_path, 6) as simulation:
        client = simulation.client("10.0.0.1")
        topic = topic_of(client)
        set_quota(simulation, ANONYMOUS, controller_mutation_rate=1)

        def create(name: str, partitions: int, version: int = 7) -> tuple[ErrorCode, int]:
            wanted = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
            sent = client.send(CreateTopicsRequest(topics=[wanted]), version)
            answer = client.receive(19, version, sent)
            return ErrorCode(answer.topics[0].error_code), answer.throttle_time_ms

        # The bucket of eleven seconds may be overdrawn by one topic.
        assert create("one", 10) == (ErrorCode.NONE, 0)
        code, throttle_ms = create("two", 11)
        assert code == ErrorCode.NONE
        assert throttle_ms == pytest.approx(10_000, abs=100)
        # The client is muted; one that asks after half of that time on another connection is refused.
        client = simulation.client("10.0.0.2")
        simulation.run_for(5)
        code, throttle_ms = create("three", 1)
        assert code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert throttle_ms == pytest.approx(5_000, abs=100)
        client = simulation.client("10.0.0.3")
        wanted = CreatePartitionsTopic(name="orders", count=3)
        answer = client.ask(CreatePartitionsRequest(topics=[wanted], timeout_ms=1000), 3)
        assert answer.results[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert answer.throttle_time_ms > 0
        client = simulation.client("10.0.0.4")
        deleted = client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic.name)], timeout_ms=1000), 6)
        assert deleted.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        # A client that does not know the error is served, and waits.
        client = simulation.client("10.0.0.5")
        code, throttle_ms = create("four", 1, version=5)
        assert code == ErrorCode.NONE
        assert throttle_ms > 0


def test_quotas_survive_a_restart(tmp_path: Path) -> None:
    with simulated(tmp_path, 7) as simulation:
        set_quota(simulation, ANONYMOUS, producer_byte_rate=1000)
    with simulated(tmp_path, 7) as simulation:
        client = simulation.client("10.0.0.1")
        assert produce(client, topic_of(client), 20).throttle_time_ms > 9000
