"""flush.messages: an ack, and a reader's first sight of a record, wait for an fsync, which all who wait share.

The broker is the real one on a disk whose fsyncs end when the test says so, or fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.protocol.error_codes import ErrorCode
from tests.integration.broker.conversation import (
    LATEST,
    PRODUCE_VERSION,
    Topic,
    await_earlier_requests,
    batch_of,
    create_topic,
    fetch,
    is_silent,
    list_offset,
    produce_ok,
    produce_request,
    values_in,
)
from tests.integration.broker.faulty_disk_broker import FaultyDiskBroker
from tests.wire_client import ConnectionClosed, WireClient

PRODUCERS = 12


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[FaultyDiskBroker]:
    broker = FaultyDiskBroker(tmp_path)
    try:
        yield broker
    finally:
        broker.close()


@pytest.fixture
def client(broker: FaultyDiskBroker) -> Iterator[WireClient]:
    with WireClient(broker.bootstrap_servers) as client:
        yield client


@pytest.fixture
def flushed(client: WireClient) -> Topic:
    topic = create_topic(client, "flushed", partitions=3, configs={"flush.messages": "1"})
    for partition in range(3):
        produce_ok(client, topic, b"first", partition=partition)
    return topic


def send(client: WireClient, topic: Topic, partition: int = 0) -> int:
    return client.send(produce_request(topic, {partition: batch_of(b"x")}), PRODUCE_VERSION)


def receive_ok(client: WireClient, correlation_id: int) -> None:
    answer = client.receive(0, PRODUCE_VERSION, correlation_id).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.NONE


def test_an_ack_waits_for_its_fsync_and_only_where_the_topic_asks(
    broker: FaultyDiskBroker, client: WireClient, flushed: Topic
) -> None:
    unflushed = create_topic(client, "unflushed")
    broker.hold()
    before = broker.fsyncs

    produce_ok(client, unflushed, b"x")
    assert broker.fsyncs == before

    correlation_id = send(client, flushed)
    broker.await_fsyncs(before + 1)
    assert is_silent(client)
    broker.release()
    receive_ok(client, correlation_id)


def test_a_reader_sees_a_record_only_after_its_fsync(
    broker: FaultyDiskBroker, client: WireClient, flushed: Topic
) -> None:
    broker.hold()
    before = broker.fsyncs
    correlation_id = send(client, flushed)
    broker.await_fsyncs(before + 1)
    with WireClient(broker.bootstrap_servers) as reader:
        assert list_offset(reader, flushed, LATEST) == 1
        assert fetch(reader, flushed, 1).high_watermark == 1

        broker.release()
        receive_ok(client, correlation_id)

        assert list_offset(reader, flushed, LATEST) == 2
        assert values_in(fetch(reader, flushed, 1)) == [b"x"]


def test_producers_share_their_fsyncs(broker: FaultyDiskBroker, client: WireClient, flushed: Topic) -> None:
    """One after the other they would need an fsync each."""
    producers = [WireClient(broker.bootstrap_servers) for _ in range(PRODUCERS)]
    try:
        broker.hold()
        before = broker.fsyncs
        ids = [send(producer, flushed) for producer in producers]
        broker.await_fsyncs(before + 1)
        await_earlier_requests(client)
        broker.release()
        for producer, correlation_id in zip(producers, ids, strict=True):
            receive_ok(producer, correlation_id)
    finally:
        for producer in producers:
            producer.close()

    # Those who came while the first fsync ran share the second.
    assert broker.fsyncs - before <= 3
    assert list_offset(client, flushed, LATEST) == 1 + PRODUCERS


def test_a_slow_fsync_holds_up_nobody_else(broker: FaultyDiskBroker, client: WireClient, flushed: Topic) -> None:
    unflushed = create_topic(client, "unflushed")
    broker.hold()
    before = broker.fsyncs
    correlation_id = send(client, flushed)
    broker.await_fsyncs(before + 1)
    with WireClient(broker.bootstrap_servers) as other:
        for _ in range(20):
            produce_ok(other, unflushed, b"x")
    broker.release()
    receive_ok(client, correlation_id)


def test_after_the_first_failed_fsync_nothing_is_acknowledged_any_more(
    broker: FaultyDiskBroker, client: WireClient, flushed: Topic
) -> None:
    broker.break_down()
    correlation_id = send(client, flushed)

    try:
        answer = client.receive(0, PRODUCE_VERSION, correlation_id).responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    except ConnectionClosed:
        pass  # Also no ack.

    _, stderr = broker.process.communicate(timeout=60)
    assert broker.process.returncode == 1
    (line,) = [line for line in stderr.decode().splitlines() if "fsync" in line]
    assert "Input/output error" in line
    assert not (Path(line.split(": ")[1]) / ".kafka_cleanshutdown").exists()


def test_flush_ms_syncs_what_flush_messages_would_leave(broker: FaultyDiskBroker, client: WireClient) -> None:
    topic = create_topic(client, "timed", configs={"flush.ms": "100"})
    produce_ok(client, topic, b"x")
    before = broker.fsyncs

    broker.await_fsyncs(before + 1)
