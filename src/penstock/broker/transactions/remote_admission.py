"""Asks the coordinator on another broker whether partitions of this one may get a batch of a transaction (KIP-890).

The request is AddPartitionsToTxn: it lets the partitions join, or only verifies that they are in. Requests for one
transactional id are made one after another, because batches must be appended in the order in which they arrived. Those
that wait together are asked together.

Invariant: where a batch is refused, the batches of the same partition that arrived behind it while it was asked about
are refused too: to append a later one would leave a gap.
Invariant: a partition that got the end of the transaction while the coordinator was asked takes no batch of it. The
answer may be older than the marker, and nothing would end what is appended behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.broker.transactions.markers import Failures
from penstock.coordinator.placement import partition_of
from penstock.core.ids import NO_LEADER, BrokerId, ProducerIdentity, TopicPartition
from penstock.metadata.topics import TRANSACTION_STATE_TOPIC
from penstock.protocol.error_codes import BrokerError, ErrorCode, known_code

if TYPE_CHECKING:
    from penstock.broker.node import Node
    from penstock.log.producer_state import ProducerEntry
    from penstock.protocol.definitions.add_partitions_to_txn import AddPartitionsToTxnResponse

TRANSACTIONS_LANE: Final = "transactions"
"""A partition that joins waits for the replicas of the transaction log, so that this has a connection of its own."""

_TIMEOUT_S: Final = 5.0
_MANY_TRANSACTIONS_SINCE: Final = 4
# The coordinator moves, or cannot be reached: the client asks its own partition again, not the coordinator.
_TRY_AGAIN: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)

OnAnswered = Callable[[Failures], None]


def coordinator_elsewhere(node: Node, transactional_id: str) -> BrokerId | None:
    """The other broker that coordinates the id. None: this one does, or its own coordinator says why none does."""
    topic = node.image.topics.get(TRANSACTION_STATE_TOPIC)
    if topic is None:
        return None
    leader = topic.partitions[partition_of(transactional_id, len(topic.partitions))].leader
    return None if leader in (node.broker_id, NO_LEADER) else leader


@dataclass(slots=True, eq=False)
class _Question:
    producer: ProducerIdentity
    entries: dict[TopicPartition, ProducerEntry | None]  # what each partition knew of the producer at the beginning
    joins: bool
    on_answered: OnAnswered


class RemoteAdmission:
    """Belongs to the event loop."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._queues: dict[str, deque[_Question]] = {}  # by transactional id; the first ones are being asked

    def ask(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: frozenset[TopicPartition],
        *,
        joins: bool,
        on_answered: OnAnswered,
    ) -> None:
        """Tells later which partitions must not get their batch, and why."""
        entries = {place: self._entry(place, producer) for place in partitions}
        queue = self._queues.get(transactional_id)
        question = _Question(producer, entries, joins, on_answered)
        if queue is not None:
            queue.append(question)
            return
        self._queues[transactional_id] = deque([question])
        self._node.tasks.start(f"admission of {transactional_id}", self._work(transactional_id))

    async def _work(self, transactional_id: str) -> None:
        queue = self._queues[transactional_id]
        try:
            while queue:
                first = queue[0]
                together = [first]
                for question in list(queue)[1:]:
                    if (question.producer, question.joins) != (first.producer, first.joins):
                        break
                    together.append(question)
                partitions = sorted({place for question in together for place in question.entries})
                failures = await self._ask(transactional_id, first.producer, partitions, first.joins)
                for _ in together:
                    queue.popleft()
                behind = _take_refused(queue, first.producer, failures)
                for question in together:
                    question.on_answered(self._failures_of(question, failures))
                for question, error in behind:
                    question.on_answered(dict.fromkeys(question.entries, error))
        finally:
            del self._queues[transactional_id]

    async def _ask(
        self, transactional_id: str, producer: ProducerIdentity, partitions: list[TopicPartition], joins: bool
    ) -> Failures:
        from penstock.protocol.definitions.add_partitions_to_txn import (
            AddPartitionsToTxnRequest,
            AddPartitionsToTxnTopic,
            AddPartitionsToTxnTransaction,
        )

        topics: dict[str, AddPartitionsToTxnTopic] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, AddPartitionsToTxnTopic(name=topic)).partitions.append(partition)
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            verify_only=not joins,
            topics=list(topics.values()),
        )
        # Looked up for each request: the coordinator may have moved since the last one.
        coordinator = coordinator_elsewhere(self._node, transactional_id)
        if coordinator is None:
            return dict.fromkeys(partitions, _try_again("The coordinator moves."))
        try:
            channel = self._node.peers.channel(coordinator, TRANSACTIONS_LANE)
            request = AddPartitionsToTxnRequest(transactions=[transaction])
            response = await channel.request(request, timeout_s=_TIMEOUT_S, at_least=_MANY_TRANSACTIONS_SINCE)
        except BrokerError as error:
            return dict.fromkeys(partitions, _try_again(error.message))
        return _failures_in(response, coordinator, partitions)

    def _failures_of(self, question: _Question, failures: Failures) -> Failures:
        found = {place: failures[place] for place in question.entries if place in failures}
        for place, entry in question.entries.items():
            if place not in found and self._was_ended(place, question.producer, entry, question.joins):
                found[place] = BrokerError(
                    ErrorCode.INVALID_TXN_STATE, f"The transaction has ended in {place.topic}-{place.partition}."
                )
        return found

    def _entry(self, place: TopicPartition, producer: ProducerIdentity) -> ProducerEntry | None:
        partition = self._node.replica(place)
        return None if partition is None else partition.log.producer_state.entries.get(producer.producer_id)

    def _was_ended(
        self, place: TopicPartition, producer: ProducerIdentity, before: ProducerEntry | None, joins: bool
    ) -> bool:
        """A marker makes a new entry, and leaves no transaction open. Another batch of this one leaves it open.

        A producer whose batches join has an epoch for each transaction: the marker of this one would have a newer
        epoch. One of the same epoch ended the transaction before, which the coordinator has waited for.
        """
        partition = self._node.replica(place)
        after = self._entry(place, producer)
        if partition is None or after is before:
            return False
        if joins and after is not None and after.epoch <= producer.epoch:
            return False
        return not partition.log.producer_state.has_open_transaction(*producer)


def _take_refused(
    queue: deque[_Question], producer: ProducerIdentity, failures: Failures
) -> list[tuple[_Question, BrokerError]]:
    """The questions that arrived meanwhile about partitions that are refused, whole. They leave the queue."""
    refused_in = dict(failures)
    refused = []
    for question in tuple(queue):
        error = next((refused_in[place] for place in question.entries if place in refused_in), None)
        if error is not None and question.producer == producer:
            queue.remove(question)
            refused_in |= dict.fromkeys(question.entries, error)
            refused.append((question, error))
    return refused


def _failures_in(
    response: AddPartitionsToTxnResponse, coordinator: BrokerId, partitions: list[TopicPartition]
) -> Failures:
    codes = {
        TopicPartition(topic.name, result.partition_index): result.partition_error_code
        for transaction in response.results_by_transaction
        for topic in transaction.topic_results
        for result in topic.results_by_partition
    }
    failures: Failures = {}
    for place in partitions:
        code = known_code(response.error_code or codes.get(place, ErrorCode.UNKNOWN_SERVER_ERROR))
        text = f"Broker {coordinator} answered: {code.text}"
        if code in _TRY_AGAIN:
            failures[place] = _try_again(text)
        elif code:
            failures[place] = BrokerError(code, text)
    return failures


def _try_again(message: str) -> BrokerError:
    """As Kafka answers when it cannot ask: an error that every client retries."""
    return BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, message)
