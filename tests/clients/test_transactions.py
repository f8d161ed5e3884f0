"""Transactions: all of one or none of it, for whoever asks for committed records only."""

from __future__ import annotations

import pytest

from tests.clients.conftest import Join, NewTopic, OpenProducer
from tests.clients.group_interface import FENCED
from tests.clients.interface import LATEST, READ_COMMITTED, READ_UNCOMMITTED, KafkaClient, RefusedError
from tests.clients.records import IN_TRANSACTION, Record, StoredRecord, numbered
from tests.clients.waiting import eventually

pytestmark = pytest.mark.clients

LAST = Record(None, b"the last one")
# Long enough for a client to show what it must not show: it has read the record before by then.
NOTHING_MORE_S = 2.5


def _values(records: list[StoredRecord] | list[Record]) -> list[bytes | None]:
    return [record.value for record in records]


@pytest.mark.feature("transaction, committed")
def test_committed(
    client: KafkaClient, reference: KafkaClient, transactional_producer: OpenProducer, new_topic: NewTopic
) -> None:
    topic = new_topic()
    producer = transactional_producer(topic)
    for _ in range(2):
        producer.begin()
        producer.send(topic, 0, IN_TRANSACTION)
        producer.commit()
    for reader in (client, reference):
        read = reader.consume(topic, 0, 2 * len(IN_TRANSACTION), isolation=READ_COMMITTED)
        assert _values(read) == _values(IN_TRANSACTION) * 2


@pytest.mark.feature("transaction, aborted")
def test_aborted(
    client: KafkaClient, reference: KafkaClient, transactional_producer: OpenProducer, new_topic: NewTopic
) -> None:
    topic = new_topic()
    producer = transactional_producer(topic)
    producer.begin()
    producer.send(topic, 0, IN_TRANSACTION)
    assert eventually(lambda: reference.list_offset(topic, 0, LATEST) == len(IN_TRANSACTION))
    producer.abort()
    reference.produce(topic, 0, [LAST])
    for reader in (client, reference):
        assert _values(reader.consume(topic, 0, 1, isolation=READ_COMMITTED)) == [LAST.value]
    everything = client.consume(topic, 0, len(IN_TRANSACTION) + 1, isolation=READ_UNCOMMITTED)
    assert _values(everything) == _values([*IN_TRANSACTION, LAST])


@pytest.mark.feature("transaction, open")
def test_open(
    client: KafkaClient, reference: KafkaClient, transactional_producer: OpenProducer, new_topic: NewTopic
) -> None:
    topic = new_topic()
    reference.produce(topic, 0, [LAST])
    producer = transactional_producer(topic)
    producer.begin()
    producer.send(topic, 0, IN_TRANSACTION)
    count = len(IN_TRANSACTION) + 1
    assert eventually(lambda: reference.list_offset(topic, 0, LATEST) == count)
    assert _values(client.consume(topic, 0, count, isolation=READ_UNCOMMITTED)) == _values([LAST, *IN_TRANSACTION])
    read = client.consume(topic, 0, count, isolation=READ_COMMITTED, timeout_s=NOTHING_MORE_S)
    assert _values(read) == [LAST.value]
    producer.commit()
    assert _values(client.consume(topic, 0, count, isolation=READ_COMMITTED)) == _values([LAST, *IN_TRANSACTION])


@pytest.mark.feature("transaction over partitions and topics")
def test_over_partitions_and_topics(
    reference: KafkaClient, transactional_producer: OpenProducer, new_topic: NewTopic
) -> None:
    topics = [new_topic(partitions=2), new_topic(partitions=2)]
    partitions = [(topic, partition) for topic in topics for partition in range(2)]
    producer = transactional_producer(topics[0])
    producer.begin()
    for topic, partition in partitions:
        producer.send(topic, partition, numbered(3))
    producer.abort()
    producer.begin()
    for topic, partition in partitions:
        producer.send(topic, partition, IN_TRANSACTION)
    producer.commit()
    for topic, partition in partitions:
        read = reference.consume(topic, partition, len(IN_TRANSACTION), isolation=READ_COMMITTED)
        assert _values(read) == _values(IN_TRANSACTION)


@pytest.mark.feature("transaction with consumed offsets")
def test_with_consumed_offsets(
    reference: KafkaClient, transactional_producer: OpenProducer, join: Join, new_topic: NewTopic, group: str
) -> None:
    source, target = new_topic(), new_topic()
    reference.produce(source, 0, numbered(5))
    member = join(group, source)
    assert eventually(lambda: len(member.state().received) == 5)
    producer = transactional_producer(target)
    for finish in (producer.abort, producer.commit):
        assert reference.committed(group, source) == {}
        producer.begin()
        producer.send(target, 0, [Record(None, each.value) for each in member.state().received])
        producer.send_offsets(member)
        finish()
    assert eventually(lambda: reference.committed(group, source) == {0: 5})
    assert _values(reference.consume(target, 0, 5, isolation=READ_COMMITTED)) == _values(numbered(5))


@pytest.mark.feature("transaction, fenced by a successor")
def test_fenced_by_a_successor(
    reference: KafkaClient, transactional_producer: OpenProducer, new_topic: NewTopic
) -> None:
    topic = new_topic()
    zombie = transactional_producer(topic)
    zombie.begin()
    zombie.send(topic, 0, IN_TRANSACTION)
    assert eventually(lambda: reference.list_offset(topic, 0, LATEST) == len(IN_TRANSACTION))
    successor = transactional_producer(topic)
    successor.begin()
    successor.send(topic, 0, IN_TRANSACTION)
    successor.commit()
    with pytest.raises(RefusedError) as refusal:
        zombie.commit()
    assert refusal.value.code in FENCED
    reference.produce(topic, 0, [LAST])
    read = reference.consume(topic, 0, len(IN_TRANSACTION) + 1, isolation=READ_COMMITTED)
    assert _values(read) == _values([*IN_TRANSACTION, LAST])


@pytest.mark.feature("list transactions")
def test_list_transactions(client: KafkaClient, transactional_producer: OpenProducer, new_topic: NewTopic) -> None:
    topic = new_topic()
    producer = transactional_producer(topic)
    producer.begin()
    producer.send(topic, 0, IN_TRANSACTION)
    assert client.list_transactions()[topic] == "Ongoing"
    producer.commit()
    assert eventually(lambda: client.list_transactions()[topic] == "CompleteCommit")


@pytest.mark.feature("describe transaction")
def test_describe_transaction(client: KafkaClient, transactional_producer: OpenProducer, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=3)
    producer = transactional_producer(topic)
    producer.begin()
    for partition in (0, 2):
        producer.send(topic, partition, IN_TRANSACTION)
    described = client.describe_transaction(topic)
    assert (described.state, described.partitions) == ("Ongoing", {(topic, 0), (topic, 2)})
    producer.abort()
    assert eventually(lambda: client.describe_transaction(topic).state == "CompleteAbort")
