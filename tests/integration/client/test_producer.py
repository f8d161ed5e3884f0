"""The producer against a real broker."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from penstock import Consumer, Producer, RecordMetadata, RoundRobin, TopicPartition
from penstock.core.errors import (
    BufferFull,
    ClientError,
    InvalidClientSetting,
    ProducerFenced,
    SerializationError,
    TransactionAborted,
    UnknownTopic,
)
from tests.integration.client.conftest import NewTopic


def records_of(bootstrap_servers: str, topic: str, partitions: int, **config: str) -> list[Any]:
    """Everything that is in the topic."""
    settings = {"bootstrap.servers": bootstrap_servers, "fetch.max.wait.ms": 10}
    settings |= {name.replace("_", "."): value for name, value in config.items()}
    records = []
    with Consumer(settings) as consumer:
        consumer.assign({TopicPartition(topic, partition): 0 for partition in range(partitions)})
        while any(consumer.position(each) < consumer.end_offset(each) for each in consumer.assignment()):
            batch = consumer.poll(0.2)
            records += batch
            if not batch and config:
                break  # The end of a transaction is an offset without a record.
    return records


def test_a_record_and_where_it_went(bootstrap_servers: str, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=3)
    with Producer({"bootstrap.servers": bootstrap_servers}) as producer:
        delivery = producer.send(
            topic, "värde", key=b"k", headers={"a": "1", "b": None}, timestamp=1_700_000_000_123, partition=2
        )
        assert delivery.result(60) == RecordMetadata(topic, 2, 0, 1_700_000_000_123)
        assert producer.send(topic, None, key="k", partition=2).result(60).offset == 1
    first, second = records_of(bootstrap_servers, topic, 3)
    assert (first.key, first.value, first.timestamp) == (b"k", "värde".encode(), 1_700_000_000_123)
    assert first.headers == (("a", b"1"), ("b", None))
    assert second.value is None


def test_the_callback_comes_before_the_future_completes(bootstrap_servers: str, new_topic: NewTopic) -> None:
    topic = new_topic(max_message_bytes="1000")
    seen: list[tuple[RecordMetadata | None, ClientError | None]] = []
    with Producer({"bootstrap.servers": bootstrap_servers}) as producer:
        good = producer.send(topic, b"x", on_delivery=lambda *outcome: seen.append(outcome))
        assert seen == [] or good.done()
        metadata = good.result(60)
        assert seen == [(metadata, None)]
        bad = producer.send(topic, b"x" * 5_000, on_delivery=lambda *outcome: seen.append(outcome))
        with pytest.raises(ClientError, match=f"topic '{topic}' partition 0: .* too large"):
            bad.result(30)
        assert seen[1] == (None, bad.exception())


def test_a_partition_that_is_not_there(bootstrap_servers: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    with (
        Producer({"bootstrap.servers": bootstrap_servers}) as producer,
        pytest.raises(UnknownTopic, match=f"topic '{topic}' partition 7 does not exist"),
    ):
        producer.send(topic, b"x", partition=7).result(30)


def test_a_callback_that_raises_does_not_affect_other_records(bootstrap_servers: str, new_topic: NewTopic) -> None:
    topic = new_topic()

    def fail(_metadata: RecordMetadata | None, _error: ClientError | None) -> None:
        raise RuntimeError("mine")

    with Producer({"bootstrap.servers": bootstrap_servers}) as producer:
        assert producer.send(topic, b"1", on_delivery=fail).result(60).offset == 0
        assert producer.send(topic, b"2").result(60).offset == 1


def test_in_a_coroutine_a_send_is_awaited(bootstrap_servers: str, new_topic: NewTopic) -> None:
    topic = new_topic()

    async def send_many() -> list[RecordMetadata]:
        with Producer({"bootstrap.servers": bootstrap_servers}) as producer:
            first = await producer.send(topic, b"first")
            return [first, *await asyncio.gather(*(producer.send(topic, b"%d" % number) for number in range(9)))]

    assert [metadata.offset for metadata in asyncio.run(send_many())] == list(range(10))


def test_threads_may_share_a_producer(bootstrap_servers: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    deliveries: list[Future[RecordMetadata]] = []
    with Producer({"bootstrap.servers": bootstrap_servers}) as producer:

        def send() -> None:
            deliveries.extend([producer.send(topic, b"x") for _ in range(200)])

        threads = [threading.Thread(target=send) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        producer.flush(30)
        assert all(delivery.done() for delivery in deliveries)
    assert sorted(delivery.result().offset for delivery in deliveries) == list(range(800))


def test_partitioners(bootstrap_servers: str, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=3)
    config = {"bootstrap.servers": bootstrap_servers}
    with Producer(config, partitioner=RoundRobin()) as producer:
        assert [producer.send(topic, b"x", key=b"k").result(60).partition for _ in range(5)] == [0, 1, 2, 0, 1]
    with Producer(config, partitioner=lambda key, _value, count: int(key or b"0") % count) as producer:
        assert [producer.send(topic, b"x", key=str(number)).result(60).partition for number in range(5)] == [
            0, 1, 2, 0, 1,
        ]  # fmt: skip
    with Producer(config) as producer:
        # murmur2 of "21" and "foobar", as Java has them, made positive, by three.
        assert producer.send(topic, b"x", key="21").result(60).partition == (-973932308 & 0x7FFFFFFF) % 3
        assert producer.send(topic, b"x", key="foobar").result(60).partition == (-790332482 & 0x7FFFFFFF) % 3


def test_serializers(bootstrap_servers: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    with Producer(
        {"bootstrap.servers": bootstrap_servers}, key_serializer="string", value_serializer="json"
    ) as producer:
        producer.send(topic, {"a": 1}, key="k").result(60)
        with pytest.raises(SerializationError, match=f"the value of a record for topic '{topic}'"):
            producer.send(topic, {1, 2})
        with pytest.raises(SerializationError, match="the key"):
            producer.send(topic, 1, key=b"bytes")
    (only,) = records_of(bootstrap_servers, topic, 1)
    assert (only.key, only.value) == (b"k", b'{"a":1}')


def test_what_does_not_fit_is_refused_at_once(bootstrap_servers: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    with Producer({"bootstrap.servers": bootstrap_servers, "max.request.size": 2_000}) as producer:
        with pytest.raises(ClientError, match="too large"):
            producer.send(topic, b"x" * 3_000)
        producer.send(topic, b"x" * 1_000).result(60)


def test_a_full_buffer_blocks_and_then_says_so() -> None:
    config = {
        "bootstrap.servers": "127.0.0.1:1",
        "buffer.memory": 2_048,
        "max.block.ms": 100,
        "delivery.timeout.ms": 1_000,
        "log_level": 0,
    }
    with Producer(config) as producer:
        first = producer.send("nowhere", b"x" * 1_500)
        with pytest.raises(BufferFull, match=r"max\.block\.ms=100"):
            [producer.send("nowhere", b"x" * 1_500) for _ in range(3)]
        with pytest.raises(ClientError, match="nowhere"):
            first.result(20)


def test_a_closed_producer_says_so(bootstrap_servers: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    delivery = producer.send(topic, b"x")
    producer.close()
    producer.close()
    assert delivery.done()
    with pytest.raises(ClientError, match="the producer is closed"):
        producer.send(topic, b"x")


def test_a_wrong_name_is_noticed_before_anything_is_connected() -> None:
    with pytest.raises(InvalidClientSetting, match=r"did you mean 'linger\.ms'"):
        Producer({"bootstrap.servers": "127.0.0.1:1", "linger": 1})


def transactional(bootstrap_servers: str, name: str) -> dict[str, str]:
    return {"bootstrap.servers": bootstrap_servers, "transactional.id": name}


def test_a_transaction_commits_or_aborts(bootstrap_servers: str, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    with Producer(transactional(bootstrap_servers, topic)) as producer:
        with producer.transaction():
            for partition in (0, 1):
                producer.send(topic, b"kept", partition=partition)
        with pytest.raises(ZeroDivisionError), producer.transaction():  # noqa: PT012 - the block is what is tested
            given_up = producer.send(topic, b"aborted", partition=0)
            producer.flush()
            assert given_up.exception() is None
            raise ZeroDivisionError
        with producer.transaction():
            producer.send(topic, b"kept too", partition=0)
    seen = records_of(bootstrap_servers, topic, 2, isolation_level="read_committed")
    assert sorted(record.value for record in seen) == [b"kept", b"kept", b"kept too"]
    everything = records_of(bootstrap_servers, topic, 2, isolation_level="read_uncommitted")
    assert b"aborted" in {record.value for record in everything}


def test_the_next_producer_of_a_transactional_id_fences_this_one(bootstrap_servers: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    with (
        Producer(transactional(bootstrap_servers, topic)) as old,
        Producer(transactional(bootstrap_servers, topic)) as new,
    ):
        old.begin_transaction()
        old.send(topic, b"zombie")
        old.flush()
        new.init_transactions()
        with pytest.raises(ProducerFenced, match="another producer has taken over"):
            old.commit_transaction()
        with new.transaction():
            new.send(topic, b"good")
    seen = records_of(bootstrap_servers, topic, 1, isolation_level="read_committed")
    assert [record.value for record in seen] == [b"good"]


def test_a_record_that_fails_fails_its_transaction(bootstrap_servers: str, new_topic: NewTopic) -> None:
    topic = new_topic(max_message_bytes="1000")
    with Producer(transactional(bootstrap_servers, topic)) as producer:
        with pytest.raises(TransactionAborted), producer.transaction():  # noqa: PT012 - the block is what is tested
            producer.send(topic, b"small")
            # The future of this one is not used.
            producer.send(topic, b"x" * 5_000)
        # librdkafka counts the sequence numbers of the record that failed, and may need an attempt to notice.
        for attempt in range(3):
            try:
                with producer.transaction():
                    producer.send(topic, b"after %d" % attempt)
            except TransactionAborted:
                continue
            break
    seen = records_of(bootstrap_servers, topic, 1, isolation_level="read_committed")
    assert [record.value for record in seen] == [b"after %d" % attempt]


def test_transactions_want_a_transactional_id(bootstrap_servers: str) -> None:
    with (
        Producer({"bootstrap.servers": bootstrap_servers}) as producer,
        pytest.raises(ClientError, match=r"no transactional\.id"),
    ):
        producer.begin_transaction()
