"""The sender against a model of brokers that loses responses and moves leaders; the log must be correct afterwards."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, cast

import pytest

from penstock.core.errors import ProducerFenced, UnknownTopic
from penstock.core.ids import ProducerIdentity, TopicPartition
from penstock.protocol.definitions.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.protocol.record_batch import crc_holds, parse_header, with_producer
from penstock.protocol.record_encoding import NewRecord, encode_batch
from penstock.protocol.schema import Message
from penstock.wire.cluster import Cluster, Leader
from penstock.wire.errors import ConnectionLost
from penstock.wire.produce import BatchSender
from penstock.wire.retry import Retry
from penstock.wire.settings import WireSettings

PRODUCER = ProducerIdentity(7, 3)
TOPIC_ID = b"0123456789abcdef"
PARTITIONS = [TopicPartition("t", index) for index in range(3)]
IMPATIENT = WireSettings.parse(
    {
        "bootstrap.servers": "nobody:1",
        "retry.backoff.ms": "0",
        "reconnect.backoff.ms": "0",
        "default.api.timeout.ms": "5000",
    }
)


def batch_of(number: int) -> bytes:
    """One to three records, so that sequences are not just a count of batches."""
    batch, _ = encode_batch([NewRecord(None, str(number).encode(), number)] * (1 + number % 3))
    return bytes(batch)


class ModelCluster:
    """Two brokers over the same logs, which check sequences like Kafka; `chance` decides about faults."""

    settings = IMPATIENT

    def __init__(self, chance: random.Random | None = None, fault_rate: float = 0.0) -> None:
        self.chance = chance or random.Random(0)
        self.fault_rate = fault_rate
        self.logs: dict[int, list[int]] = defaultdict(list)
        self.sequences: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self.leaders = dict.fromkeys(range(len(PARTITIONS)), 0)
        self.connections: dict[int, ModelConnection] = {}
        self.answers: list[ErrorCode] = []
        self.requests: list[ProduceRequest] = []
        self.in_flight_most = 0

    def has_fault(self) -> bool:
        return self.chance.random() < self.fault_rate

    def retry(self, subject: str, timeout_s: float | None = None) -> Retry:
        return Retry(IMPATIENT, subject, timeout_s)

    def refresh_topics(self, names: Iterable[str]) -> None: ...

    def invalidate_topics(self, names: Iterable[str]) -> None: ...

    def leader(self, partition: TopicPartition) -> Leader:
        return Leader(self.leaders[partition.partition], 0, TOPIC_ID)

    def connection(self, node_id: int) -> ModelConnection:
        connection = self.connections.get(node_id)
        if connection is None or connection.is_lost:
            if self.has_fault():
                raise ConnectionLost("refused")
            connection = self.connections[node_id] = ModelConnection(self, node_id)
        return connection

    def append(self, node_id: int, index: int, batch: Any) -> tuple[ErrorCode, int]:
        if self.answers:
            return self.answers.pop(0), -1
        if self.has_fault():
            self.leaders[index] = 1 - node_id
        if self.leaders[index] != node_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
        if self.has_fault():
            return ErrorCode.NOT_ENOUGH_REPLICAS, -1
        header = parse_header(batch)
        known = self.sequences[index]
        for first, base_offset in known[-5:]:
            if first == header.base_sequence:
                return ErrorCode.NONE, base_offset
        # A producer that is not known may begin with any sequence.
        if known and header.base_sequence != len(self.logs[index]):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        base_offset = len(self.logs[index])
        known.append((header.base_sequence, base_offset))
        self.logs[index] += [header.base_timestamp] * header.records_count
        return ErrorCode.NONE, base_offset


class ModelConnection:
    def __init__(self, cluster: ModelCluster, node_id: int) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.is_lost = False
        self.unread = 0

    def version_for(self, request: type[Message], *, at_least: int = 0, at_most: int | None = None) -> int:
        return 13 if at_most is None else at_most

    def send(self, request: ProduceRequest, version: int) -> ModelPending:
        if self.is_lost or self.cluster.has_fault():
            self.is_lost = True
            raise ConnectionLost("while sending")
        self.unread += 1
        self.cluster.in_flight_most = max(self.cluster.in_flight_most, self.unread)
        self.cluster.requests.append(request)
        response = ProduceResponse()
        for topic in request.topic_data:
            answer = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
            response.responses.append(answer)
            for part in reversed(topic.partition_data):
                code, base_offset = self.cluster.append(self.node_id, part.index, part.records)
                answer.partition_responses.append(
                    PartitionProduceResponse(index=part.index, error_code=code, base_offset=base_offset)
                )
        if self.cluster.has_fault():
            self.is_lost = True
        return ModelPending(self, response)


class ModelPending:
    def __init__(self, connection: ModelConnection, response: ProduceResponse) -> None:
        self.connection = connection
        self._response = response

    def response(self) -> Any:
        self.connection.unread -= 1
        if self.connection.is_lost:
            raise ConnectionLost("before the answer")
        return self._response


def sender_for(cluster: ModelCluster, **options: Any) -> BatchSender:
    return BatchSender(cast(Cluster, cluster), producer=PRODUCER, **options)


@pytest.mark.parametrize("seed", range(80))
def test_whatever_gets_lost_every_batch_is_written_once_and_in_order(seed: int) -> None:
    chance = random.Random(seed)
    cluster = ModelCluster(chance, fault_rate=chance.choice([0.0, 0.02, 0.1, 0.3]))
    sender = sender_for(cluster, request_bytes=chance.choice([1, 200, 1000]))
    expected: dict[int, list[int]] = defaultdict(list)
    for number in range(120):
        partition = chance.choice(PARTITIONS)
        sender.send(partition, batch_of(number))
        expected[partition.partition] += [number] * (1 + number % 3)
        if chance.random() < 0.05:
            sender.flush()
    sender.flush()
    assert cluster.logs == expected
    assert cluster.in_flight_most <= 5


def test_several_requests_are_in_flight_once_the_broker_knows_the_producer() -> None:
    cluster = ModelCluster()
    sender = sender_for(cluster, request_bytes=1)
    for number in range(20):
        sender.send(PARTITIONS[0], batch_of(number))
    sender.flush()
    assert cluster.in_flight_most == 5


def test_results_are_in_the_order_of_sending() -> None:
    sender = sender_for(ModelCluster())
    for number in range(4):
        sender.send(PARTITIONS[number % 2], batch_of(number))
    produced = sender.flush()
    assert [each.base_offset for each in produced[PARTITIONS[0]]] == [0, 1]
    assert [each.base_offset for each in produced[PARTITIONS[1]]] == [0, 2]
    assert sender.flush() == {}


def test_a_duplicate_is_a_success() -> None:
    cluster = ModelCluster()
    cluster.answers = [ErrorCode.DUPLICATE_SEQUENCE_NUMBER]
    sender = sender_for(cluster)
    sender.send(PARTITIONS[0], batch_of(0))
    assert sender.flush()[PARTITIONS[0]][0].base_offset == -1


@pytest.mark.parametrize(
    "code", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_TXN_STATE]
)
def test_what_will_not_get_better_is_raised_by_name_and_stays(code: ErrorCode) -> None:
    cluster = ModelCluster()
    cluster.answers = [code]
    sender = sender_for(cluster)
    sender.send(PARTITIONS[1], batch_of(0))
    with pytest.raises(BrokerError, match="topic 't' partition 1") as refused:
        sender.flush()
    assert refused.value.code == code
    with pytest.raises(BrokerError):
        sender.send(PARTITIONS[1], batch_of(1))
    with pytest.raises(BrokerError):
        sender.flush()


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED])
def test_a_fenced_producer_raises(code: ErrorCode) -> None:
    cluster = ModelCluster()
    cluster.answers = [code]
    sender = sender_for(cluster)
    sender.send(PARTITIONS[0], batch_of(0))
    with pytest.raises(ProducerFenced, match="another producer"):
        sender.flush()


def test_what_stays_retriable_is_given_up_in_time() -> None:
    cluster = ModelCluster()
    cluster.answers = [ErrorCode.NOT_ENOUGH_REPLICAS] * 1_000_000
    sender = sender_for(cluster, timeout_s=0.2)
    sender.send(PARTITIONS[0], batch_of(0))
    with pytest.raises(BrokerError, match="in sync than"):
        sender.flush()
    cluster.answers = [ErrorCode.UNKNOWN_TOPIC_ID] * 1_000_000
    sender = sender_for(cluster, timeout_s=0.2)
    sender.send(PARTITIONS[0], batch_of(0))
    with pytest.raises(UnknownTopic, match="topic 't' partition 0"):
        sender.flush()


def test_partitions_are_added_to_the_transaction_once_and_before_they_are_written() -> None:
    cluster = ModelCluster()
    added: list[set[TopicPartition]] = []

    def add(partitions: Iterable[TopicPartition]) -> None:
        assert not any(cluster.logs[partition.partition] for partition in partitions)
        added.append(set(partitions))

    sender = sender_for(cluster, transactional_id="tx", add_partitions=add)
    for number in range(6):
        sender.send(PARTITIONS[number % 2], batch_of(number))
    sender.flush()
    assert added == [{PARTITIONS[0], PARTITIONS[1]}]
    assert {request.transactional_id for request in cluster.requests} == {"tx"}
    assert {topic.name for request in cluster.requests for topic in request.topic_data} == {"t"}  # version 11


@pytest.mark.parametrize("transactional", [True, False])
def test_a_batch_in_a_producers_name(transactional: bool) -> None:
    original = batch_of(5)
    stamped = with_producer(original, PRODUCER, 41, transactional=transactional)
    header = parse_header(stamped)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 41)
    assert header.is_transactional is transactional
    assert crc_holds(memoryview(stamped), header)
    assert stamped[61:] == original[61:]


def test_sequences_wrap_around_and_can_be_handed_on() -> None:
    sender = sender_for(ModelCluster(), first_sequences={PARTITIONS[0]: 2**31 - 1})
    sender.send(PARTITIONS[0], batch_of(1))
    assert sender.next_sequences == {PARTITIONS[0]: 1}


def test_bytes_that_are_no_batch_are_refused() -> None:
    with pytest.raises(ValueError, match="topic 't' partition 0"):
        sender_for(ModelCluster()).send(PARTITIONS[0], b"too short")
