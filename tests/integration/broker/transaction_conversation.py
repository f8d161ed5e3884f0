"""What a transactional producer says to a broker, request by request, in any version: also what none would say."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from penstock.core.ids import ProducerIdentity, TopicPartition
from penstock.protocol.definitions.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from penstock.protocol.definitions.describe_transactions import DescribeTransactionsRequest, TransactionState
from penstock.protocol.definitions.end_txn import EndTxnRequest, EndTxnResponse
from penstock.protocol.definitions.fetch import FetchRequest, PartitionData
from penstock.protocol.definitions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.protocol.definitions.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.record_batch import TRANSACTIONAL_FLAG
from tests.integration.broker.conversation import (
    FETCH_VERSION,
    LATEST,
    Topic,
    batches_in,
    fetch_request,
    partitions_of,
    produce_request,
    values_of,
)
from tests.record_batches import Record, encode_batch
from tests.wire_client import WireClient

READ_COMMITTED = 1
OLD_PRODUCE, NEW_PRODUCE = 11, 12
OLD_END, NEW_END = 4, 5


def init(
    client: WireClient,
    transactional_id: str,
    *,
    timeout_ms: int = 60_000,
    expected: ProducerIdentity | None = None,
    version: int = 5,
) -> InitProducerIdResponse:
    producer_id, epoch = expected or (-1, -1)
    response: InitProducerIdResponse = client.ask(
        InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
        ),
        version,
    )
    return response


def end(
    client: WireClient, transactional_id: str, producer: ProducerIdentity, commits: bool, version: int = NEW_END
) -> EndTxnResponse:
    response: EndTxnResponse = client.ask(
        EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=commits,
        ),
        version,
    )
    return response


def add_partitions(
    client: WireClient,
    transactional_id: str,
    producer: ProducerIdentity,
    partitions: Mapping[str, list[int]],
    *,
    version: int = 3,
    verify_only: bool = False,
) -> dict[TopicPartition, int]:
    topics = [AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in partitions.items()]
    if version < 4:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=topics,
        )
        results = client.ask(request, version).results_by_topic_v3_and_below
    else:
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            verify_only=verify_only,
            topics=topics,
        )
        (result,) = client.ask(AddPartitionsToTxnRequest(transactions=[transaction]), version).results_by_transaction
        assert result.transactional_id == transactional_id
        results = result.topic_results
    return {
        TopicPartition(topic.name, partition.partition_index): partition.partition_error_code
        for topic in results
        for partition in topic.results_by_partition
    }


def describe(client: WireClient, transactional_id: str) -> TransactionState:
    (state,) = client.ask(DescribeTransactionsRequest(transactional_ids=[transactional_id]), 0).transaction_states
    assert isinstance(state, TransactionState)
    return state


def transactional_batch(values: list[bytes], producer: ProducerIdentity, sequence: int) -> bytearray:
    """Of this time: markers are, and a segment holds no more than a week."""
    now_ms = time.time_ns() // 1_000_000
    return encode_batch(
        [Record(value, timestamp=now_ms) for value in values],
        producer=(producer.producer_id, producer.epoch, sequence),
        attributes=TRANSACTIONAL_FLAG,
    )


class Transactor:
    """A producer with a transactional id, which counts its sequences and takes over the epochs it is told."""

    def __init__(self, client: WireClient, transactional_id: str, *, new_protocol: bool = True) -> None:
        self._client = client
        self.transactional_id = transactional_id
        self._new = new_protocol
        self.producer = ProducerIdentity(-1, -1)
        self._sequences: dict[TopicPartition, int] = {}

    def begin_session(self, **options: Any) -> Transactor:
        while (answer := init(self._client, self.transactional_id, **options)).error_code:
            assert answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        self._become(ProducerIdentity(answer.producer_id, answer.producer_epoch))
        return self

    def _become(self, producer: ProducerIdentity) -> None:
        if producer != self.producer:
            self.producer = producer
            self._sequences.clear()

    def send(self, topic: Topic, *values: bytes, partition: int = 0, version: int | None = None) -> int:
        """The error code. A client of the old protocol adds the partition first."""
        place = TopicPartition(topic.name, partition)
        if not self._new and version is None:
            code = add_partitions(self._client, self.transactional_id, self.producer, {topic.name: [partition]})[place]
            if code:
                return code
        sequence = self._sequences.get(place, 0)
        request = produce_request(topic, {partition: transactional_batch(list(values), self.producer, sequence)})
        request.transactional_id = self.transactional_id
        response = self._client.ask(request, version or (NEW_PRODUCE if self._new else OLD_PRODUCE))
        code = response.responses[0].partition_responses[0].error_code
        if not code:
            self._sequences[place] = sequence + len(values)
        return int(code)

    def send_ok(self, topic: Topic, *values: bytes, partition: int = 0) -> None:
        assert self.send(topic, *values, partition=partition) == ErrorCode.NONE

    def end(self, *, commits: bool) -> int:
        answer = end(self._client, self.transactional_id, self.producer, commits, NEW_END if self._new else OLD_END)
        if not answer.error_code and self._new:
            self._become(ProducerIdentity(answer.producer_id, answer.producer_epoch))
        return answer.error_code

    def commit(self) -> None:
        assert self.end(commits=True) == ErrorCode.NONE

    def abort(self) -> None:
        assert self.end(commits=False) == ErrorCode.NONE


def committed_fetch(topic: Topic, offset: int = 0, *, partition: int = 0, **options: Any) -> FetchRequest:
    request = fetch_request(topic, {partition: offset}, **options)
    request.isolation_level = READ_COMMITTED
    return request


def fetch_committed(client: WireClient, topic: Topic, offset: int = 0, *, partition: int = 0) -> PartitionData:
    request = committed_fetch(topic, offset, partition=partition)
    return partitions_of(client.ask(request, FETCH_VERSION))[partition]


def committed_values(client: WireClient, topic: Topic, *, partition: int = 0) -> list[bytes | None]:
    """What a `read_committed` consumer sees of the whole partition."""
    values: list[bytes | None] = []
    offset = 0
    while True:
        data = fetch_committed(client, topic, offset, partition=partition)
        values += visible_values(data)
        for header, _ in batches_in(data):
            offset = header.end_offset
        if offset >= data.last_stable_offset:
            return values


def visible_values(data: PartitionData) -> list[bytes | None]:
    """What a `read_committed` consumer makes of one fetch: what was aborted is left out, and so are markers."""
    assert data.aborted_transactions is not None
    begins = sorted((aborted.first_offset, aborted.producer_id) for aborted in data.aborted_transactions)
    aborting: set[int] = set()
    values: list[bytes | None] = []
    for header, batch in batches_in(data):
        while begins and begins[0][0] < header.end_offset:
            aborting.add(begins.pop(0)[1])
        if header.is_control:
            aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            values += values_of(header, batch)
    return values


def last_stable_offset(client: WireClient, topic: Topic, *, partition: int = 0) -> int:
    """As ListOffsets tells a `read_committed` consumer."""
    wanted = ListOffsetsTopic(
        name=topic.name, partitions=[ListOffsetsPartition(partition_index=partition, timestamp=LATEST)]
    )
    request = ListOffsetsRequest(replica_id=-1, isolation_level=READ_COMMITTED, topics=[wanted])
    answer = client.ask(request, 7).topics[0].partitions[0]
    assert answer.error_code == ErrorCode.NONE
    return int(answer.offset)
