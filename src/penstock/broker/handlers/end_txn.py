"""EndTxn: commits or aborts the producer's open transaction.

Answered when the outcome is durable and its markers are written, so that a client which then reads finds what it
committed. From version 5 on (KIP-890) every end bumps the epoch, and the answer tells the new id and epoch; the same
request again is then recognised by its epoch.

Versions: 0 to 5; PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before 2.
"""

from __future__ import annotations

from typing import Final

from penstock.broker.deferred import Deferred
from penstock.broker.request_context import RequestContext
from penstock.coordinator.transaction import ProtocolLevel
from penstock.core.acls import AclOperation
from penstock.core.ids import ProducerIdentity
from penstock.protocol.definitions.end_txn import EndTxnRequest, EndTxnResponse
from penstock.protocol.error_codes import BrokerError, ErrorCode

PRODUCER_FENCED_SINCE: Final = 2
EPOCH_BUMP_SINCE: Final = 5


def handle(request: EndTxnRequest, context: RequestContext) -> EndTxnResponse | Deferred:
    answer = Deferred()

    def done(outcome: ProducerIdentity | BrokerError) -> None:
        if isinstance(outcome, BrokerError):
            answer.complete(_refused(outcome.code, context))
        else:
            answer.complete(EndTxnResponse(producer_id=outcome.producer_id, producer_epoch=outcome.epoch))

    level = ProtocolLevel.EPOCH_PER_TRANSACTION if context.api_version >= EPOCH_BUMP_SINCE else ProtocolLevel.CLASSIC
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    try:
        context.access.check_transactional_id(AclOperation.WRITE, request.transactional_id)
        context.node.transactions.end(request.transactional_id, producer, request.committed, level, done)
    except BrokerError as error:
        return _refused(error.code, context)
    return answer


def _refused(code: ErrorCode, context: RequestContext) -> EndTxnResponse:
    if code == ErrorCode.PRODUCER_FENCED and context.api_version < PRODUCER_FENCED_SINCE:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return EndTxnResponse(error_code=code)
