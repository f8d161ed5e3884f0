"""AddPartitionsToTxn: partitions join a transaction before anything is produced to them, or are asked about.

Up to version 3 a client adds the partitions of its one transaction: all of them or, if one does not exist, none, which
then is UNKNOWN_TOPIC_OR_PARTITION and the others OPERATION_NOT_ATTEMPTED. From version 4 on a broker asks for many
transactions at once; with `verify_only` it only wants to know which partitions are in already. A change of the
transaction that is being written is waited for.

Versions: 0 to 5; PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from penstock.broker.deferred import Deferred
from penstock.broker.request_context import RequestContext
from penstock.coordinator.transaction import ProtocolLevel
from penstock.core.acls import AclOperation, ResourceType
from penstock.core.ids import ProducerIdentity, TopicPartition
from penstock.metadata.topics import find_partition
from penstock.protocol.definitions.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode

PRODUCER_FENCED_SINCE: Final = 2
MANY_TRANSACTIONS_SINCE: Final = 4

_Codes = dict[TopicPartition, ErrorCode]


def handle(request: AddPartitionsToTxnRequest, context: RequestContext) -> AddPartitionsToTxnResponse | Deferred:
    if context.api_version >= MANY_TRANSACTIONS_SINCE:
        try:
            context.access.check_cluster(AclOperation.CLUSTER_ACTION)
        except BrokerError as error:
            return AddPartitionsToTxnResponse(error_code=error.code)
        transactions = request.transactions
        level = ProtocolLevel.EPOCH_PER_TRANSACTION
    else:
        transactions = [
            AddPartitionsToTxnTransaction(
                transactional_id=request.v3_and_below_transactional_id,
                producer_id=request.v3_and_below_producer_id,
                producer_epoch=request.v3_and_below_producer_epoch,
                topics=request.v3_and_below_topics,
            )
        ]
        level = ProtocolLevel.CLASSIC
    answer = _PendingAnswer(transactions, context)
    for number, transaction in enumerate(transactions):
        _add(transaction, level, context, _report_to(answer, number))
    answer.complete_if_done()
    return answer


def _report_to(answer: _PendingAnswer, number: int) -> Callable[[_Codes], None]:
    return lambda codes: answer.settle(number, codes)


class _PendingAnswer(Deferred):
    """Complete when every transaction of the request has its outcome."""

    __slots__ = ("_all_asked", "_context", "_outcomes", "_transactions")

    def __init__(self, transactions: list[AddPartitionsToTxnTransaction], context: RequestContext) -> None:
        super().__init__()
        self._transactions = transactions
        self._context = context
        self._outcomes: dict[int, _Codes] = {}
        self._all_asked = False

    def settle(self, number: int, codes: _Codes) -> None:
        self._outcomes[number] = codes
        if self._all_asked:
            self.complete_if_done()

    def complete_if_done(self) -> None:
        self._all_asked = True
        if len(self._outcomes) < len(self._transactions):
            return
        results = [
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id,
                topic_results=self._topic_results(transaction.topics, self._outcomes[number]),
            )
            for number, transaction in enumerate(self._transactions)
        ]
        if self._context.api_version >= MANY_TRANSACTIONS_SINCE:
            self.complete(AddPartitionsToTxnResponse(results_by_transaction=results))
        else:
            self.complete(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results))

    def _topic_results(
        self, topics: list[AddPartitionsToTxnTopic], codes: _Codes
    ) -> list[AddPartitionsToTxnTopicResult]:
        return [
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=index,
                        partition_error_code=self._code(codes[TopicPartition(topic.name, index)]),
                    )
                    for index in topic.partitions
                ],
            )
            for topic in topics
        ]

    def _code(self, code: ErrorCode) -> ErrorCode:
        if code == ErrorCode.PRODUCER_FENCED and self._context.api_version < PRODUCER_FENCED_SINCE:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        return code


def _add(
    transaction: AddPartitionsToTxnTransaction,
    level: ProtocolLevel,
    context: RequestContext,
    on_done: Callable[[_Codes], None],
) -> None:
    node = context.node
    places = frozenset(TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions)
    if context.api_version < MANY_TRANSACTIONS_SINCE:
        forbidden = _forbidden(transaction.transactional_id, places, context)
        if forbidden:
            on_done({place: forbidden.get(place, ErrorCode.OPERATION_NOT_ATTEMPTED) for place in places})
            return
    unknown = frozenset(_unknown(places, context))
    if unknown:
        on_done(
            {
                place: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if place in unknown else ErrorCode.OPERATION_NOT_ATTEMPTED
                for place in places
            }
        )
        return
    producer = ProducerIdentity(transaction.producer_id, transaction.producer_epoch)
    # Several brokers may let partitions join at the same time, where one client's requests come one after another.
    again = partial(_add, transaction, level, context, on_done)
    is_asked_by_broker = context.api_version >= MANY_TRANSACTIONS_SINCE
    try:
        if is_asked_by_broker and node.transactions.after_pending_change(transaction.transactional_id, again):
            return
        if transaction.verify_only:
            failures = node.transactions.verify_partitions(transaction.transactional_id, producer, places)
            on_done({place: failures[place].code if place in failures else ErrorCode.NONE for place in places})
            return
        node.transactions.add_partitions(
            transaction.transactional_id,
            producer,
            places,
            level,
            lambda error: on_done(dict.fromkeys(places, ErrorCode.NONE if error is None else error.code)),
        )
    except BrokerError as error:
        on_done(dict.fromkeys(places, error.code))


def _forbidden(transactional_id: str, places: Iterable[TopicPartition], context: RequestContext) -> _Codes:
    access = context.access
    if not access.may(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return dict.fromkeys(places, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return {
        place: ErrorCode.TOPIC_AUTHORIZATION_FAILED
        for place in places
        if not access.may_with_topic(AclOperation.WRITE, place.topic)
    }


def _unknown(places: Iterable[TopicPartition], context: RequestContext) -> Iterable[TopicPartition]:
    for place in places:
        try:
            find_partition(context.node.image, *place)
        except BrokerError:
            yield place
