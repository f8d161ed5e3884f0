"""Writes encoded record batches to partitions: several requests in flight, and retries that keep the order.

Owns the batches between `send` and their acknowledgement, and the retry rules. It must never look into a batch beyond
its header.

Invariants:
- Batches of one partition are acknowledged in the order in which they were sent, whatever is retried.
- A retry sends the same bytes, and so the same sequence: the broker recognises a batch that it has already written.
  Brokers remember the last five batches of a producer, and at most five requests are in flight on a connection.
- Several batches of one partition are in flight only on one connection, and only if the broker knows the producer: an
  unknown producer may start with any sequence, so a second batch could be written before a first one that was refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from penstock.core.errors import ProtocolError
from penstock.core.ids import ProducerIdentity, TopicPartition
from penstock.protocol.definitions.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode, known_code
from penstock.protocol.record_batch import HEADER_BYTES, SEQUENCE_MASK, parse_header, with_producer
from penstock.wire.cluster import Cluster, Leader
from penstock.wire.connection import Connection, Pending
from penstock.wire.errors import ConnectionLost, Right, require_success

Batch = bytes | bytearray | memoryview
DEFAULT_REQUEST_BYTES: Final = 1024 * 1024
_REQUESTS_IN_FLIGHT_MAX: Final = 5
_TOPIC_IDS_SINCE: Final = 13
_BEFORE_IMPLICIT_PARTITIONS: Final = 11  # from 12 on, Produce adds a partition to the transaction by itself (KIP-890)


class Produced(NamedTuple):
    """Where a batch was written. `base_offset` is -1 if it is unknown: with acks=0, or for a duplicate."""

    base_offset: int
    log_append_time_ms: int = -1


class _OutgoingBatch:
    """A batch that is being sent, and its result."""

    __slots__ = ("batch", "partition", "produced")

    def __init__(self, partition: TopicPartition, batch: Batch) -> None:
        self.partition = partition
        self.batch = batch
        self.produced = Produced(-1)


class _InFlight(NamedTuple):
    pending: Pending
    leaders: Mapping[TopicPartition, Leader]
    batches: list[_OutgoingBatch]


class BatchSender:
    """`send` batches, then `flush`: it returns when all of them are acknowledged, or raises.

    With a `producer`, each batch gets its id and epoch and the partition's next sequence, which starts at 0, as a new
    epoch requires. For an epoch that has been used before, `first_sequences` are the `next_sequences` of its last
    sender. Without a producer, batches are sent unchanged. After an error the sender cannot be used again.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        acks: int = -1,
        producer: ProducerIdentity | None = None,
        first_sequences: Mapping[TopicPartition, int] | None = None,
        transactional_id: str | None = None,
        add_partitions: Callable[[Iterable[TopicPartition]], None] | None = None,
        request_bytes: int = DEFAULT_REQUEST_BYTES,
        timeout_s: float | None = None,
    ) -> None:
        """`add_partitions` adds partitions to the transaction where Produce does not do so."""
        self._cluster = cluster
        self._acks = acks
        self._producer = producer
        self._transactional_id = transactional_id
        self._add_partitions = add_partitions
        self._request_bytes = request_bytes
        self._timeout_s = timeout_s
        self._sequences = dict(first_sequences or {})
        self._added: set[TopicPartition] = set()
        self._collecting: dict[TopicPartition, _OutgoingBatch] = {}
        self._collected_bytes = 0
        self._in_flight: dict[int, deque[_InFlight]] = {}
        self._producer_known: set[TopicPartition] = set()  # partitions that have acknowledged a batch of this producer
        self._failed: list[_OutgoingBatch] = []
        self._cause: ConnectionLost | BrokerError | None = None
        self._since_flush: list[_OutgoingBatch] = []
        self._broken: Exception | None = None

    @property
    def next_sequences(self) -> dict[TopicPartition, int]:
        return dict(self._sequences)

    def send(self, partition: TopicPartition, batch: Batch) -> None:
        """Queues one encoded record batch. It must not change before `flush`; with a producer it is copied."""
        if len(batch) < HEADER_BYTES:
            raise ValueError(f"{partition}: {len(batch)} bytes are too short for a record batch")
        if self._broken is not None:
            raise self._broken
        if partition in self._collecting or self._collected_bytes + len(batch) > self._request_bytes:
            self._dispatch()
        outgoing = _OutgoingBatch(partition, self._with_sequence(partition, batch))
        self._collecting[partition] = outgoing
        self._collected_bytes += len(batch)
        self._since_flush.append(outgoing)

    def flush(self) -> dict[TopicPartition, list[Produced]]:
        """The results of all batches since the last flush, in the order of sending."""
        if self._broken is not None:
            raise self._broken
        self._dispatch()
        try:
            for node_id in list(self._in_flight):
                while self._in_flight[node_id]:
                    self._await_oldest(node_id)
            self._recover([])
        except Exception as error:
            self._broken = error
            raise
        produced: dict[TopicPartition, list[Produced]] = {}
        for outgoing in self._since_flush:
            produced.setdefault(outgoing.partition, []).append(outgoing.produced)
        self._since_flush = []
        return produced

    def _with_sequence(self, partition: TopicPartition, batch: Batch) -> Batch:
        if self._producer is None:
            return batch
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = (sequence + parse_header(batch).last_offset_delta + 1) & SEQUENCE_MASK
        return with_producer(batch, self._producer, sequence, transactional=self._transactional_id is not None)

    def _dispatch(self) -> None:
        batches = list(self._collecting.values())
        self._collecting = {}
        self._collected_bytes = 0
        if not batches:
            return
        try:
            self._add_to_transaction(batches)
            self._transmit(batches)
        except Exception as error:
            self._broken = error
            raise

    def _add_to_transaction(self, batches: Iterable[_OutgoingBatch]) -> None:
        new = {outgoing.partition for outgoing in batches} - self._added
        if new and self._add_partitions is not None:
            self._add_partitions(new)
        self._added |= new

    def _transmit(self, batches: list[_OutgoingBatch]) -> None:
        try:
            by_node = self._by_leader(batches)
            for node_id in by_node:
                while len(self._in_flight.setdefault(node_id, deque())) >= _REQUESTS_IN_FLIGHT_MAX:
                    self._await_oldest(node_id)
            self._await_batches_that_could_be_overtaken(by_node)
        except (ConnectionLost, BrokerError) as cause:
            if isinstance(cause, BrokerError) and not cause.code.retriable:
                raise
            self._cause = cause
            self._recover(batches)
            return
        if self._failed:
            self._recover(batches)
            return
        unsent: list[_OutgoingBatch] = []
        for node_id, (leaders, group) in by_node.items():
            try:
                self._send_request(node_id, leaders, group)
            except ConnectionLost as cause:
                self._cause = cause
                unsent += group
        if unsent:
            self._recover(unsent)

    def _await_batches_that_could_be_overtaken(
        self, by_node: Mapping[int, tuple[Mapping[TopicPartition, Leader], list[_OutgoingBatch]]]
    ) -> None:
        """Waits for batches whose broker may not know the producer yet, or no longer leads the partition."""
        going = {partition: node_id for node_id, (leaders, _) in by_node.items() for partition in leaders}
        for node_id, requests in self._in_flight.items():
            behind = {
                partition
                for partition, leader_id in going.items()
                if leader_id != node_id or partition not in self._producer_known
            }
            while any(outgoing.partition in behind for request in requests for outgoing in request.batches):
                self._await_oldest(node_id)

    def _by_leader(
        self, batches: Iterable[_OutgoingBatch]
    ) -> dict[int, tuple[dict[TopicPartition, Leader], list[_OutgoingBatch]]]:
        by_node: dict[int, tuple[dict[TopicPartition, Leader], list[_OutgoingBatch]]] = {}
        batches = list(batches)
        self._cluster.refresh_topics({outgoing.partition.topic for outgoing in batches})
        for outgoing in batches:
            leader = self._cluster.leader(outgoing.partition)
            leaders, group = by_node.setdefault(leader.node_id, ({}, []))
            leaders[outgoing.partition] = leader
            group.append(outgoing)
        return by_node

    def _send_request(
        self, node_id: int, leaders: Mapping[TopicPartition, Leader], group: list[_OutgoingBatch]
    ) -> None:
        connection = self._cluster.connection(node_id)
        request, version = self._request(connection, leaders, group)
        if self._acks == 0:
            connection.send_unanswered(request, version)
            return
        pending = connection.send(request, version)
        self._in_flight.setdefault(node_id, deque()).append(_InFlight(pending, leaders, group))

    def _request(
        self, connection: Connection, leaders: Mapping[TopicPartition, Leader], group: Iterable[_OutgoingBatch]
    ) -> tuple[ProduceRequest, int]:
        at_most = _BEFORE_IMPLICIT_PARTITIONS if self._add_partitions is not None else None
        version = connection.version_for(ProduceRequest, at_most=at_most)
        topics: dict[str, TopicProduceData] = {}
        for outgoing in group:
            name = outgoing.partition.topic
            if name not in topics:
                topic_id = leaders[outgoing.partition].topic_id
                topics[name] = (
                    TopicProduceData(topic_id=topic_id) if version >= _TOPIC_IDS_SINCE else TopicProduceData(name=name)
                )
            topics[name].partition_data.append(
                PartitionProduceData(index=outgoing.partition.partition, records=outgoing.batch)
            )
        request = ProduceRequest(
            transactional_id=self._transactional_id,
            acks=self._acks,
            timeout_ms=self._cluster.settings.times_ms["request.timeout.ms"],
            topic_data=list(topics.values()),
        )
        return request, version

    def _await_oldest(self, node_id: int) -> None:
        """Takes the oldest response of a broker. Batches to retry are added to `_failed`."""
        pending, leaders, group = self._in_flight[node_id].popleft()
        try:
            response: ProduceResponse = pending.response()
        except ConnectionLost as lost:
            self._cause = lost
            self._failed += group
            return
        # Brokers order their results as they like, and identify topics by name or id, depending on the version.
        answers = {
            (topic.name or topic.topic_id, answer.index): answer
            for topic in response.responses
            for answer in topic.partition_responses
        }
        for outgoing in group:
            name, index = outgoing.partition
            answer = answers.get((name, index)) or answers.get((leaders[outgoing.partition].topic_id, index))
            if answer is None:
                raise ProtocolError(f"{outgoing.partition} is missing in the response to a produce")
            self._apply_result(outgoing, answer)

    def _apply_result(self, outgoing: _OutgoingBatch, answer: PartitionProduceResponse) -> None:
        code = known_code(answer.error_code)
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            base_offset = answer.base_offset if code == ErrorCode.NONE else -1
            outgoing.produced = Produced(base_offset, answer.log_append_time_ms)
            if self._producer is not None:
                self._producer_known.add(outgoing.partition)
            return
        # A batch after one that failed is out of order, and is in order when both are retried.
        follows_failed = code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and any(
            failed.partition == outgoing.partition for failed in self._failed
        )
        # The same bytes stay corrupt.
        if follows_failed or (code.retriable and code != ErrorCode.CORRUPT_MESSAGE):
            if not follows_failed:
                self._cause = BrokerError(code, f"{outgoing.partition}: {answer.error_message or code.text}")
            self._failed.append(outgoing)
            return
        reasons = [answer.error_message, *(error.batch_index_error_message for error in answer.record_errors)]
        detail = "; ".join(reason for reason in reasons if reason)
        needed = Right("Write", "topic", outgoing.partition.topic)
        require_success(answer.error_code, str(outgoing.partition), detail, needs=(needed,))

    def _recover(self, unsent: list[_OutgoingBatch]) -> None:
        """Waits for the requests in flight, then retries the failed batches and sends `unsent` after them."""
        for node_id in list(self._in_flight):
            while self._in_flight[node_id]:
                self._await_oldest(node_id)
        waiting, self._failed = [*self._failed, *unsent], []
        retry = self._cluster.retry("producing", self._timeout_s)
        while waiting:
            if self._cause is not None:
                self._cluster.invalidate_topics({outgoing.partition.topic for outgoing in waiting})
                retry.pause(self._cause)
                self._cause = None
            first = {outgoing.partition: outgoing for outgoing in reversed(waiting)}
            again = self._resend(list(first.values()))
            if len(again) < len(first):
                retry.succeeded()
            waiting = [
                outgoing for outgoing in waiting if first[outgoing.partition] is not outgoing or outgoing in again
            ]

    def _resend(self, batches: list[_OutgoingBatch]) -> list[_OutgoingBatch]:
        """One round: sends one batch per partition and waits. Returns those that failed again."""
        failed: list[_OutgoingBatch] = []
        try:
            by_node = self._by_leader(batches)
        except (ConnectionLost, BrokerError) as cause:
            self._cause = cause
            return batches
        for node_id, (leaders, group) in by_node.items():
            try:
                self._send_request(node_id, leaders, group)
            except (ConnectionLost, BrokerError) as cause:
                self._cause = cause
                failed += group
        for node_id in by_node:
            while self._in_flight.get(node_id):
                self._await_oldest(node_id)
        failed += self._failed
        self._failed = []
        return failed
