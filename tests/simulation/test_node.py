"""A whole node in virtual time: nothing waits, and the same seed gives the same run."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.protocol.definitions.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from penstock.protocol.definitions.list_groups import ListGroupsRequest
from penstock.protocol.definitions.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from penstock.protocol.error_codes import ErrorCode
from tests.integration.broker.conversation import Topic, batch_of, fetch_request, produce_request, values_in
from tests.integration.broker.group_conversation import JOIN_VERSION, join_request
from tests.simulation.node import SimulatedClient, Simulation, simulated

SETTINGS = {"offsets_topic_num_partitions": "1", "group_initial_rebalance_delay_ms": "3000"}


def create_topic(client: SimulatedClient, name: str) -> Topic:
    """Acknowledged after an fsync, so that the executor has a part in it."""
    wanted = CreatableTopic(
        name=name,
        num_partitions=1,
        replication_factor=1,
        configs=[CreatableTopicConfig(name="flush.messages", value="1")],
    )
    (created,) = client.ask(CreateTopicsRequest(topics=[wanted]), 7).topics
    assert created.error_code == ErrorCode.NONE
    return Topic(name, created.topic_id)


def join_alone(client: SimulatedClient, group: str) -> str:
    """Joins and syncs as the only member; its session lasts for ten seconds."""
    member_id = client.ask(join_request(group), JOIN_VERSION).member_id
    joined = client.ask(join_request(group, member_id), JOIN_VERSION, within_s=4)
    assert joined.error_code == ErrorCode.NONE
    sync = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=b"all of it")],
    )
    assert client.ask(sync, 5).assignment == b"all of it"
    return str(member_id)


def group_states(client: SimulatedClient) -> dict[str, str]:
    return {group.group_id: group.group_state for group in client.ask(ListGroupsRequest(), 5).groups}


def a_produce_parked_fetches_and_a_member_that_expires(simulation: Simulation) -> None:
    producer, consumer = simulation.client("producer"), simulation.client("consumer")
    topic = create_topic(producer, "topic")

    timed_out = consumer.send(fetch_request(topic, {0: 0}, max_wait_ms=500), 16)
    simulation.run_for(0.49)
    assert timed_out not in consumer.answers
    simulation.run_for(0.03)
    assert values_in(consumer.answers[timed_out].responses[0].partitions[0]) == []

    woken = consumer.send(fetch_request(topic, {0: 0}, max_wait_ms=60_000), 16)
    simulation.run_for(1)
    assert woken not in consumer.answers
    produced = producer.ask(produce_request(topic, {0: batch_of(b"x")}), 12)
    assert produced.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    assert values_in(consumer.answers[woken].responses[0].partitions[0]) == [b"x"]

    join_alone(consumer, "group")
    assert group_states(producer) == {"group": "Stable"}
    simulation.run_for(10)
    assert group_states(producer) == {"group": "Empty"}


@pytest.mark.parametrize("seed", range(3))
def test_a_node_lives_in_virtual_time(tmp_path: Path, seed: int) -> None:
    with simulated(tmp_path, seed, **SETTINGS) as simulation:
        a_produce_parked_fetches_and_a_member_that_expires(simulation)


def test_the_same_seed_gives_the_same_run(tmp_path: Path) -> None:
    traces = []
    for number, seed in enumerate((1, 1, 2)):
        with simulated(tmp_path / str(number), seed, **SETTINGS) as simulation:
            a_produce_parked_fetches_and_a_member_that_expires(simulation)
            traces.append(simulation.trace)
    assert len(traces[0]) > 15
    assert traces[0] == traces[1]
    assert traces[0] != traces[2]
