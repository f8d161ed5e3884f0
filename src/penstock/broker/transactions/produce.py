"""A produce request inside a transaction: no batch is appended before its partition is known to be in it (KIP-890).

A batch that was delayed, or that comes from a fenced producer, must not end up in the next transaction. A transaction
must not be open in a partition that its coordinator does not know of, because nothing would end it there. A producer
that already has records of an open transaction in the partition, under the same epoch, was verified before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.broker.transactions.admission import Joining, admit
from penstock.broker.transactions.markers import Failures
from penstock.core.acls import AclOperation
from penstock.core.ids import NO_PRODUCER_ID, ProducerIdentity, TopicPartition
from penstock.protocol.definitions.produce import ProduceRequest
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.protocol.record_batch import HEADER_BYTES, MAGIC_V2, parse_header

if TYPE_CHECKING:
    from penstock.broker.handlers.produce import PendingProduce
    from penstock.broker.partition import Partition
    from penstock.broker.request_context import RequestContext

_ABORTABLE_ERRORS_SINCE: Final = 11
_JOINS_WITH_THE_WRITE_SINCE: Final = 12
_TOPIC_IDS_SINCE: Final = 13

# Trouble of the coordinator that will pass. Older clients retry a produce only for an error that they expect of one.
_PASSING_TROUBLE: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def stage_in_transaction(pending: PendingProduce, request: ProduceRequest, context: RequestContext) -> None:
    """Stages the request's batches as soon as their partitions are in the transaction; at once, if they are already."""
    assert request.transactional_id is not None
    unproven: dict[TopicPartition, Partition] = {}
    producers: set[ProducerIdentity] = set()
    for partition, producer in _transactional_batches(request, context):
        producers.add(producer)
        state = partition.log.producer_state
        entry = state.entries.get(producer.producer_id)
        if entry is not None and producer.epoch < entry.epoch:
            continue  # The log itself refuses it.
        if not state.has_open_transaction(*producer):
            unproven[TopicPartition(partition.topic_name, partition.index)] = partition
    if len({producer.producer_id for producer in producers}) > 1:
        code, text = ErrorCode.INVALID_PRODUCER_ID_MAPPING, "A transaction has one producer; the request has several."
        pending.refusals = dict.fromkeys(unproven.values(), BrokerError(code, text))
        unproven = {}
    if not unproven:
        pending.stage_all(request.topic_data)
        return
    joining = _joining(context.api_version)
    waits = True

    def admitted(failures: Failures) -> None:
        nonlocal waits
        pending.refusals = {unproven[place]: _for_producer(error, joining) for place, error in failures.items()}
        pending.stage_all(request.topic_data)
        if not waits:
            context.node.appends.write_soon()
        waits = False

    admit(context.node, request.transactional_id, next(iter(producers)), frozenset(unproven), joining, admitted)
    if waits:
        waits = False
        _keep_records(request)


def _transactional_batches(
    request: ProduceRequest, context: RequestContext
) -> list[tuple[Partition, ProducerIdentity]]:
    """What can be known by the headers; bytes that are no batch are refused when they are staged."""
    topics = context.node.topics
    found = []
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if records is None or len(records) < HEADER_BYTES:
                continue
            header = parse_header(records)
            if header.magic != MAGIC_V2 or not header.is_transactional or header.producer_id == NO_PRODUCER_ID:
                continue
            try:
                if context.api_version >= _TOPIC_IDS_SINCE:
                    partition = topics.partition_by_id(topic.topic_id, data.index)
                else:
                    partition = topics.partition(topic.name, data.index)
            except BrokerError:
                continue
            if not context.access.may_with_topic(AclOperation.WRITE, partition.topic_name):
                continue  # Refused when it is staged; it must not join the transaction before.
            found.append((partition, ProducerIdentity(header.producer_id, header.producer_epoch)))
    return found


def _keep_records(request: ProduceRequest) -> None:
    """The frame's memory is the connection's, and will be used again before these batches are staged."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            if data.records is not None:
                data.records = memoryview(bytearray(data.records))


def _joining(api_version: int) -> Joining:
    if api_version >= _JOINS_WITH_THE_WRITE_SINCE:
        return Joining.WITH_THE_WRITE
    return Joining.BEFORE if api_version >= _ABORTABLE_ERRORS_SINCE else Joining.BEFORE_WITH_OLD_ERRORS


def _for_producer(error: BrokerError, joining: Joining) -> BrokerError:
    ends_soon = error.code == ErrorCode.CONCURRENT_TRANSACTIONS and joining is not Joining.WITH_THE_WRITE
    if ends_soon or error.code in _PASSING_TROUBLE:
        return BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS, f"The transaction cannot be verified now: {error.message}")
    return error
