"""Topics come and go: created by request or by being asked for, grown, deleted, and created again under their name."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from uuid import uuid4

import pytest

from penstock.protocol.definitions.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.definitions.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.definitions.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from penstock.protocol.error_codes import ErrorCode
from penstock.testing import Broker
from tests.integration.broker.conftest import NewTopic
from tests.integration.broker.conversation import (
    EARLIEST,
    FETCH_VERSION,
    LATEST,
    PRODUCE_VERSION,
    Topic,
    batch_of,
    create_topic,
    delete_records,
    delete_request,
    delete_topic,
    fetch,
    fetch_request,
    list_offset,
    partitions_of,
    produce,
    produce_ok,
    produce_request,
    values_in,
)
from tests.wire_client import WireClient


def describe(client: WireClient, name: str | None = None, *, auto_create: bool = False) -> list[MetadataResponseTopic]:
    topics = None if name is None else [MetadataRequestTopic(name=name)]
    answer = client.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=auto_create), 12)
    return list(answer.topics)


def grow(client: WireClient, topic: Topic, count: int) -> int:
    wanted = CreatePartitionsTopic(name=topic.name, count=count)
    (result,) = client.ask(CreatePartitionsRequest(topics=[wanted], timeout_ms=30_000), 3).results
    return int(result.error_code)


# By being asked for


def test_a_topic_that_is_asked_for_is_created() -> None:
    with Broker(config={"num.partitions": "3"}) as broker, WireClient(broker.bootstrap_servers) as client:
        assert _becomes_true(lambda: describe(client, "wanted", auto_create=True)[0].error_code == ErrorCode.NONE)
        (topic,) = describe(client, "wanted", auto_create=True)
        assert len(topic.partitions) == 3
        assert produce_ok(client, Topic("wanted", topic.topic_id), b"x", partition=2) == 0


def test_a_client_may_ask_without_creating(client: WireClient) -> None:
    name = f"not-wanted-{uuid4().hex}"

    assert describe(client, name, auto_create=False)[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert describe(client, name, auto_create=False)[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_auto_creation_can_be_switched_off() -> None:
    config = {"auto.create.topics.enable": "false"}
    with Broker(config=config) as broker, WireClient(broker.bootstrap_servers) as client:
        for _ in range(2):
            (topic,) = describe(client, "wanted", auto_create=True)
            assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# Growing


def test_partitions_can_be_added_and_never_removed(own_broker: Broker) -> None:
    with WireClient(own_broker.bootstrap_servers) as client:
        topic = create_topic(client, "growing", partitions=2)
        produce_ok(client, topic, b"before", partition=1)

        assert grow(client, topic, 5) == ErrorCode.NONE
        assert produce_ok(client, topic, b"new", partition=4) == 0
        assert grow(client, topic, 4) == ErrorCode.INVALID_PARTITIONS
        assert grow(client, topic, 5) == ErrorCode.INVALID_PARTITIONS
    own_broker.kill()
    own_broker.start()

    with WireClient(own_broker.bootstrap_servers) as client:
        assert len(describe(client, "growing")[0].partitions) == 5
        assert values_in(fetch(client, topic, partition=1)) == [b"before"]
        assert values_in(fetch(client, topic, partition=4)) == [b"new"]
        assert produce_ok(client, topic, b"later", partition=3) == 0


# Deleting, and creating again


def test_a_deleted_topic_leaves_nothing_behind(own_broker: Broker) -> None:
    with WireClient(own_broker.bootstrap_servers) as client:
        topic = create_topic(client, "gone", partitions=3)
        produce_ok(client, topic, b"x" * 100_000, partition=2)
        delete_topic(client, "gone")

        assert produce(client, topic, batch_of(b"late")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert describe(client, "gone")[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert _becomes_true(lambda: not list(own_broker.data_dir.glob("gone-*")))


def test_a_topic_of_the_longest_name_can_be_deleted(own_broker: Broker) -> None:
    """Its directory's name leaves little room for the mark of a deletion."""
    name = "n" * 249
    with WireClient(own_broker.bootstrap_servers) as client:
        produce_ok(client, create_topic(client, name, partitions=11), b"x", partition=10)

        delete_topic(client, name)

        assert describe(client, name)[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        topic = create_topic(client, name)
        assert produce_ok(client, topic, b"again") == 0


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_topic_s_old_records_do_not_come_back_under_its_name(own_broker: Broker, end: str) -> None:
    with WireClient(own_broker.bootstrap_servers) as client:
        old = create_topic(client, "phoenix", partitions=2)
        for _ in range(20):
            produce_ok(client, old, b"old", partition=1)
        delete_topic(client, "phoenix")
        new = create_topic(client, "phoenix", partitions=2)
        produce_ok(client, new, b"new", partition=1)
        assert values_in(fetch(client, new, partition=1)) == [b"new"]
    getattr(own_broker, end)()
    own_broker.start()

    with WireClient(own_broker.bootstrap_servers) as client:
        assert describe(client, "phoenix")[0].topic_id == new.topic_id
        assert values_in(fetch(client, new, partition=1)) == [b"new"]
        assert list_offset(client, new, LATEST, partition=0) == 0


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_what_was_known_of_an_old_topic_is_not_believed_of_the_new_one(own_broker: Broker, end: str) -> None:
    """Checkpoints go by name: the old topic's log start and recovery point lie far beyond the new topic's end."""
    with WireClient(own_broker.bootstrap_servers) as client:
        old = create_topic(client, "phoenix", configs={"flush.messages": "1"})
        for _ in range(30):
            produce_ok(client, old, b"old")
        assert delete_records(client, old, 25).low_watermark == 25
        delete_topic(client, "phoenix")
        new = create_topic(client, "phoenix")
        for number in range(3):
            produce_ok(client, new, b"%d" % number)
    getattr(own_broker, end)()
    own_broker.start()

    with WireClient(own_broker.bootstrap_servers) as client:
        assert list_offset(client, new, EARLIEST) == 0
        assert list_offset(client, new, LATEST) == 3
        assert values_in(fetch(client, new)) == [b"0", b"1", b"2"]
        assert produce_ok(client, new, b"3") == 3
    assert own_broker.stderr_text().splitlines()[1:] == []


def test_kills_around_a_recreation_bring_back_nothing_old(own_broker: Broker) -> None:
    """Killed at many points of deleting and creating; afterwards the topic is the old one, gone, or new and empty."""
    for delay_ms in (0, 0.3, 0.6, 1, 2, 4, 8, 16):
        with WireClient(own_broker.bootstrap_servers) as client:
            old = create_topic(client, "phoenix", partitions=8)
            for partition in range(8):
                produce_ok(client, old, b"old", partition=partition)
            client.send(delete_request("phoenix"), 6)
            client.send(
                CreateTopicsRequest(topics=[CreatableTopic(name="phoenix", num_partitions=8, replication_factor=1)]), 7
            )
            time.sleep(delay_ms / 1000)
            os.kill(own_broker.pid, signal.SIGKILL)
        own_broker.kill()
        own_broker.start()
        with WireClient(own_broker.bootstrap_servers) as client:
            (found,) = describe(client, "phoenix")
            if found.error_code == ErrorCode.NONE:
                expected = [b"old"] if found.topic_id == old.topic_id else []
                now = Topic("phoenix", found.topic_id)
                assert [values_in(fetch(client, now, partition=index)) for index in range(8)] == [expected] * 8
                assert produce_ok(client, now, b"more", partition=3) == len(expected)
                delete_topic(client, "phoenix")
            else:
                assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("configs", [{}, {"flush.messages": "1"}], ids=["unflushed", "flushed"])
def test_a_topic_deleted_under_a_produce_harms_nobody(own_broker: Broker, configs: dict[str, str]) -> None:
    """Produce and deletion come in the same turn of the event loop, in either order, on two connections and on one."""
    with (
        WireClient(own_broker.bootstrap_servers) as producer,
        WireClient(own_broker.bootstrap_servers) as deleter,
    ):
        neighbour = create_topic(deleter, "neighbour", configs={"flush.messages": "1"})
        for number in range(12):
            topic = create_topic(deleter, f"short-lived-{number}", configs=configs)
            os.kill(own_broker.pid, signal.SIGSTOP)
            if number % 3 == 0:
                delete_id = deleter.send(delete_request(topic.name), 6)
                produce_id = producer.send(produce_request(topic, {0: batch_of(b"x")}), PRODUCE_VERSION)
            else:
                produce_id = producer.send(produce_request(topic, {0: batch_of(b"x")}), PRODUCE_VERSION)
                sender = producer if number % 3 == 1 else deleter
                delete_id = sender.send(delete_request(topic.name), 6)
            os.kill(own_broker.pid, signal.SIGCONT)

            produced = producer.receive(0, PRODUCE_VERSION, produce_id).responses[0].partition_responses[0]
            assert produced.error_code in {
                ErrorCode.NONE,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                ErrorCode.KAFKA_STORAGE_ERROR,
            }
            deleted = (producer if number % 3 == 1 else deleter).receive(20, 6, delete_id).responses[0]
            assert deleted.error_code == ErrorCode.NONE
            assert produce_ok(deleter, neighbour, b"still here") == number
    assert own_broker.is_running()


def test_deleting_a_topic_that_is_being_read_does_not_break_the_reader(
    client: WireClient, other_client: WireClient, new_topic: NewTopic
) -> None:
    """What was being sent from its file is sent to the end."""
    topic = new_topic(configs={"max.message.bytes": "9000000"})
    value = os.urandom(8_000_000)
    produce_ok(client, topic, value)
    correlation_id = client.send(fetch_request(topic, {0: 0}, partition_max_bytes=10 << 20), FETCH_VERSION)
    time.sleep(0.1)

    delete_topic(other_client, topic.name)

    assert values_in(partitions_of(client.receive(1, FETCH_VERSION, correlation_id))[0]) == [value]


# Many


def test_a_thousand_topics(own_broker: Broker) -> None:
    names = [f"topic-{number}" for number in range(1000)]
    wanted = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    with WireClient(own_broker.bootstrap_servers) as client:
        results = client.ask(CreateTopicsRequest(topics=wanted), 7).topics
        assert {result.error_code for result in results} == {ErrorCode.NONE}
        topics = {result.name: Topic(result.name, result.topic_id) for result in results}
        for number in range(0, 1000, 50):
            produce_ok(client, topics[f"topic-{number}"], b"%d" % number)
    own_broker.kill()
    own_broker.start()

    with WireClient(own_broker.bootstrap_servers) as client:
        found = describe(client)
        assert {topic.name: topic.topic_id for topic in found} == {
            topic.name: topic.topic_id for topic in topics.values()
        }
        for number in range(0, 1000, 50):
            assert values_in(fetch(client, topics[f"topic-{number}"])) == [b"%d" % number]
        assert len(client.ask(delete_request(*names), 6).responses) == 1000
        assert describe(client) == []
    own_broker.restart()
    assert _partition_directories(own_broker.data_dir) == []


def _partition_directories(data_dir: Path) -> list[str]:
    return [entry.name for entry in data_dir.iterdir() if entry.is_dir()]


def _becomes_true(condition: object, timeout_s: float = 60.0) -> bool:
    assert callable(condition)
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
