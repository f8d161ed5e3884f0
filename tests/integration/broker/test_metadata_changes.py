"""Changes of the metadata: the disk holds up the client that asked, and what it asked later, and no other client."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from penstock.protocol.definitions.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.definitions.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.error_codes import ErrorCode
from penstock.testing import Broker
from tests.integration.broker.conversation import (
    PRODUCE_VERSION,
    Topic,
    await_earlier_requests,
    batch_of,
    create_topic,
    delete_request,
    fetch,
    is_silent,
    produce_ok,
    produce_request,
    values_in,
)
from tests.integration.broker.faulty_disk_broker import FaultyDiskBroker
from tests.wire_client import WireClient


@pytest.fixture
def slow_disk(tmp_path: Path) -> Iterator[FaultyDiskBroker]:
    broker = FaultyDiskBroker(tmp_path)
    try:
        yield broker
    finally:
        broker.close()


def creation(name: str, partitions: int = 1) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)])


def test_a_request_finds_what_was_created_before_it_on_its_connection(client: WireClient) -> None:
    """Sent in one go, without waiting for any answer."""
    name = f"topic-{uuid4().hex}"
    question = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    sent = [
        client.send(creation(name), 7),
        client.send(question, 12),
        client.send(produce_request(Topic(name, bytes(16)), {0: batch_of(b"first")}), PRODUCE_VERSION),
        client.send(delete_request(name), 6),
        client.send(question, 12),
        client.send(creation(name, 3), 7),
        client.send(question, 12),
    ]
    created = client.receive(19, 7, sent[0])
    assert created.topics[0].error_code == ErrorCode.NONE
    assert client.receive(3, 12, sent[1]).topics[0].topic_id == created.topics[0].topic_id
    produced = client.receive(0, PRODUCE_VERSION, sent[2]).responses[0].partition_responses[0]
    assert (produced.error_code, produced.base_offset) == (ErrorCode.NONE, 0)
    assert client.receive(20, 6, sent[3]).responses[0].error_code == ErrorCode.NONE
    assert client.receive(3, 12, sent[4]).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    again = client.receive(19, 7, sent[5]).topics[0]
    assert again.error_code == ErrorCode.NONE
    (found,) = client.receive(3, 12, sent[6]).topics
    assert (found.topic_id, len(found.partitions)) == (again.topic_id, 3)
    assert again.topic_id != created.topics[0].topic_id


def test_many_clients_that_create_one_topic_agree_on_it(shared_broker: Broker) -> None:
    name = f"topic-{uuid4().hex}"
    outcomes: list[tuple[int, bytes]] = []

    def create(by_asking: bool) -> None:
        with WireClient(shared_broker.bootstrap_servers) as client:
            if by_asking:
                topic = client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12).topics[0]
            else:
                topic = client.ask(creation(name), 7).topics[0]
            outcomes.append((topic.error_code, topic.topic_id))

    threads = [threading.Thread(target=create, args=(number % 2 == 0,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ids = {topic_id for code, topic_id in outcomes if code == ErrorCode.NONE}
    assert len(outcomes) == 16
    assert len(ids) == 1
    assert {code for code, _ in outcomes} <= {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}
    assert sum(code == ErrorCode.NONE for code, _ in outcomes) >= 8  # every client that asked with Metadata


def test_a_slow_disk_holds_up_no_other_client(slow_disk: FaultyDiskBroker) -> None:
    with WireClient(slow_disk.bootstrap_servers) as client, WireClient(slow_disk.bootstrap_servers) as creator:
        topic = create_topic(client, "topic")
        fsyncs = slow_disk.fsyncs
        slow_disk.hold()
        waiting = creator.send(creation("late"), 7)
        slow_disk.await_fsyncs(fsyncs + 1)
        for number in range(50):
            produce_ok(client, topic, b"%d" % number)
        assert len(values_in(fetch(client, topic))) == 50
        assert is_silent(creator)
        slow_disk.release()
        answer = creator.receive(19, 7, waiting)
        assert answer.topics[0].error_code == ErrorCode.NONE


def test_changes_that_wait_for_a_slow_disk_share_its_fsync(slow_disk: FaultyDiskBroker) -> None:
    clients = [WireClient(slow_disk.bootstrap_servers) for _ in range(12)]
    try:
        create_topic(clients[0], "before")
        fsyncs = slow_disk.fsyncs
        slow_disk.hold()
        sent = [(client, client.send(creation(f"topic-{number}"), 7)) for number, client in enumerate(clients)]
        slow_disk.await_fsyncs(fsyncs + 1)
        with WireClient(slow_disk.bootstrap_servers) as other:
            await_earlier_requests(other)
        slow_disk.release()
        for client, correlation_id in sent:
            assert client.receive(19, 7, correlation_id).topics[0].error_code == ErrorCode.NONE
        assert slow_disk.fsyncs - fsyncs <= 3
    finally:
        for client in clients:
            client.close()


def test_a_topic_that_could_not_be_kept_is_not_served(slow_disk: FaultyDiskBroker) -> None:
    with WireClient(slow_disk.bootstrap_servers) as client:
        topic = create_topic(client, "kept")
        slow_disk.break_down()
        (refused,) = client.ask(creation("lost"), 7).topics
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        names = {found.name for found in client.ask(MetadataRequest(topics=None), 12).topics}
        assert names == {"kept"}
        assert produce_ok(client, topic, b"value") == 0
