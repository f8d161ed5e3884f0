"""Records travel through the broker unharmed, whoever writes and whoever reads them."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from tests.clients.adapters import CLIENTS
from tests.clients.conftest import ClientFor, NewTopic
from tests.clients.interface import KafkaClient
from tests.clients.records import (
    BASE_TIMESTAMP_MS,
    COMPRESSIBLE,
    COMPRESSIONS,
    RECORD_SHAPES,
    Record,
    assert_same,
    now_ms,
    numbered,
)
from tests.clients.segments import stored_batches
from tests.conftest import RunningBroker

pytestmark = pytest.mark.clients


def _produce(client: KafkaClient, topic: str, records: list[Record], compression: str = "none") -> tuple[int, int]:
    """Sends the records and returns the time in which that happened."""
    start_ms = now_ms()
    client.produce(topic, 0, records, compression=compression)
    return start_ms, now_ms()


@pytest.mark.feature("produce {compression}", compression=COMPRESSIONS)
def test_produced_with_compression(
    client: KafkaClient,
    reference: KafkaClient,
    compression: str,
    new_topic: NewTopic,
    broker_under_test: RunningBroker,
) -> None:
    topic = new_topic()
    sent_between_ms = _produce(client, topic, COMPRESSIBLE, compression)
    stored = reference.consume(topic, 0, len(COMPRESSIBLE))
    assert_same(stored, COMPRESSIBLE, sent_between_ms=sent_between_ms)
    batches = stored_batches(broker_under_test.data_dir, topic, 0)
    assert {batch.compression for batch in batches} == {compression}


@pytest.mark.feature("consume {compression}", compression=COMPRESSIONS)
def test_consumed_with_compression(
    client: KafkaClient, reference: KafkaClient, compression: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    sent_between_ms = _produce(reference, topic, COMPRESSIBLE, compression)
    assert_same(client.consume(topic, 0, len(COMPRESSIBLE)), COMPRESSIBLE, sent_between_ms=sent_between_ms)


@pytest.mark.feature("produce {shape}", shape=list(RECORD_SHAPES))
def test_produced_shape(client: KafkaClient, reference: KafkaClient, shape: str, new_topic: NewTopic) -> None:
    topic, records = new_topic(), RECORD_SHAPES[shape]
    sent_between_ms = _produce(client, topic, records)
    assert_same(reference.consume(topic, 0, len(records)), records, sent_between_ms=sent_between_ms)


@pytest.mark.feature("consume {shape}", shape=list(RECORD_SHAPES))
def test_consumed_shape(client: KafkaClient, reference: KafkaClient, shape: str, new_topic: NewTopic) -> None:
    topic, records = new_topic(), RECORD_SHAPES[shape]
    sent_between_ms = _produce(reference, topic, records)
    assert_same(client.consume(topic, 0, len(records)), records, sent_between_ms=sent_between_ms)


@pytest.mark.feature("produce acks={acks}", acks=["0", "1", "all"])
def test_produced_with_acks(client: KafkaClient, reference: KafkaClient, acks: str, new_topic: NewTopic) -> None:
    topic, records = new_topic(), numbered(20)
    start_ms = now_ms()
    client.produce(topic, 0, records, acks=acks)
    # With acks=0 nobody says when the broker is done; the reader waits for the records.
    assert_same(reference.consume(topic, 0, len(records)), records, sent_between_ms=(start_ms, now_ms()))


@pytest.mark.feature("produce idempotent")
def test_produced_idempotently(
    client: KafkaClient, reference: KafkaClient, new_topic: NewTopic, broker_under_test: RunningBroker
) -> None:
    topic, records = new_topic(), numbered(1000)
    start_ms = now_ms()
    client.produce(topic, 0, records, idempotent=True)
    assert_same(reference.consume(topic, 0, len(records)), records, sent_between_ms=(start_ms, now_ms()))
    next_sequence = 0
    batches = list(stored_batches(broker_under_test.data_dir, topic, 0))
    for batch in batches:
        assert batch.base_sequence == next_sequence
        next_sequence += batch.record_count
    (producer_id,) = {batch.producer_id for batch in batches}
    assert producer_id >= 0


@pytest.mark.feature("produce to a topic that is created by it")
def test_produced_to_an_unknown_topic(client: KafkaClient, reference: KafkaClient) -> None:
    topic, records = f"matrix-auto-{uuid4().hex[:12]}", numbered(3)
    sent_between_ms = _produce(client, topic, records)
    assert_same(reference.consume(topic, 0, len(records)), records, sent_between_ms=sent_between_ms)


@pytest.mark.feature("consume from the middle of a batch")
def test_consumed_from_the_middle_of_a_batch(client: KafkaClient, reference: KafkaClient, new_topic: NewTopic) -> None:
    topic, records = new_topic(), COMPRESSIBLE
    sent_between_ms = _produce(reference, topic, records, "gzip")
    stored = client.consume(topic, 0, len(records) - 37, offset=37)
    assert_same(stored, records[37:], sent_between_ms=sent_between_ms, first_offset=37)


@pytest.mark.feature("consume records as they arrive")
def test_consumed_as_they_arrive(client: KafkaClient, reference: KafkaClient, new_topic: NewTopic) -> None:
    topic, records = new_topic(), numbered(3)
    with ThreadPoolExecutor(1) as thread:
        reading = thread.submit(client.consume, topic, 0, len(records))
        for record in records:
            time.sleep(0.2)
            reference.produce(topic, 0, [record])
        stored = reading.result()
    assert [record.value for record in stored] == [record.value for record in records]


@pytest.mark.feature("consume LogAppendTime")
def test_consumed_with_log_append_time(client: KafkaClient, reference: KafkaClient, new_topic: NewTopic) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime")
    records = numbered(5, first_timestamp_ms=BASE_TIMESTAMP_MS)
    appended_after_ms, appended_before_ms = _produce(reference, topic, records)
    stored = client.consume(topic, 0, len(records))
    assert [record.value for record in stored] == [record.value for record in records]
    assert all(appended_after_ms <= record.timestamp_ms <= appended_before_ms for record in stored)


@pytest.mark.feature("read the records of {writer}", writer=[client.name for client in CLIENTS])
def test_every_client_reads_the_same(
    client: KafkaClient, client_for: ClientFor, writer: str, new_topic: NewTopic
) -> None:
    topic, writing = new_topic(), client_for(writer)
    sent: list[Record] = []
    start_ms = now_ms()
    for shape, records in RECORD_SHAPES.items():
        if f"produce {shape}" not in writing.has_none:
            writing.produce(topic, 0, records, compression="gzip")
            sent += records
    stored = client.consume(topic, 0, len(sent))
    assert_same(stored, sent, sent_between_ms=(start_ms, now_ms()))
