"""AddOffsetsToTxn: the partition that holds a group's offsets joins a transaction before TxnOffsetCommit writes there.

Clients of KIP-890's second part do not ask: their TxnOffsetCommit (version 5) joins by itself.

Versions: 0 to 4; PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before 2.
"""

from __future__ import annotations

from typing import Final

from penstock.broker.deferred import Deferred
from penstock.broker.request_context import RequestContext
from penstock.coordinator.transaction import ProtocolLevel
from penstock.core.acls import AclOperation
from penstock.core.ids import ProducerIdentity, TopicPartition
from penstock.protocol.definitions.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from penstock.protocol.error_codes import BrokerError, ErrorCode

PRODUCER_FENCED_SINCE: Final = 2


def handle(request: AddOffsetsToTxnRequest, context: RequestContext) -> AddOffsetsToTxnResponse | Deferred:
    try:
        context.access.check_transactional_id(AclOperation.WRITE, request.transactional_id)
        context.access.check_group(AclOperation.READ, request.group_id)
    except BrokerError as error:
        return _refused(error.code, context)
    answer = Deferred()

    def done(error: BrokerError | None) -> None:
        answer.complete(AddOffsetsToTxnResponse() if error is None else _refused(error.code, context))

    node = context.node
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    offsets = node.groups.log

    def topic_ensured(error: BrokerError | None) -> None:
        if error is not None:
            done(error)
            return
        place = TopicPartition(offsets.topic_name, offsets.partition_for(request.group_id))
        try:
            node.transactions.add_partitions(
                request.transactional_id, producer, frozenset({place}), ProtocolLevel.CLASSIC, done
            )
        except BrokerError as refusal:
            done(refusal)

    offsets.ensure_topic(topic_ensured)
    return answer


def _refused(code: ErrorCode, context: RequestContext) -> AddOffsetsToTxnResponse:
    if code == ErrorCode.PRODUCER_FENCED and context.api_version < PRODUCER_FENCED_SINCE:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return AddOffsetsToTxnResponse(error_code=code)
