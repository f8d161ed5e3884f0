"""InitProducerId: an id and an epoch for an idempotent or a transactional producer.

Without a transactional id, every producer gets a new id that is never used again. An idempotent producer that asks to
continue with an old id (version 3, KIP-360) gets a new one too, because the broker does not relate the two.

With a transactional id, the producer gets the id that belongs to it, with the next epoch: earlier producers are fenced.
An open transaction is aborted first, and the client is told CONCURRENT_TRANSACTIONS. An id without an epoch, or an
epoch without an id, is INVALID_REQUEST.

Versions: 0 to 5; PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before 4. Version 6, two-phase commit, is unstable in Kafka
and left out.
"""

from __future__ import annotations

from typing import Final

from penstock.broker.deferred import Deferred
from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclOperation
from penstock.core.ids import ProducerIdentity
from penstock.protocol.definitions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.protocol.error_codes import BrokerError, ErrorCode

PRODUCER_FENCED_SINCE: Final = 4


def handle(request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse | Deferred:
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        return _refused(ErrorCode.INVALID_REQUEST, context)
    try:
        _check_access(request, context)
        if request.transactional_id is None:
            return _idempotent(context)
        return _for_transactions(request, request.transactional_id, context)
    except BrokerError as error:
        return _refused(error.code, context)


def _check_access(request: InitProducerIdRequest, context: RequestContext) -> None:
    access = context.access
    if request.transactional_id is not None:
        access.check_transactional_id(AclOperation.WRITE, request.transactional_id)
    elif not access.may_with_any_topic(AclOperation.WRITE):
        access.check_cluster(AclOperation.IDEMPOTENT_WRITE)


def _idempotent(context: RequestContext) -> Deferred:
    answer = Deferred()
    producer_ids = context.node.producer_ids

    def available(error: BrokerError | None) -> None:
        if error is not None:
            answer.complete(_refused(error.code, context))
        else:
            answer.complete(InitProducerIdResponse(producer_id=producer_ids.allocate(), producer_epoch=0))

    producer_ids.when_available(available)
    return answer


def _for_transactions(request: InitProducerIdRequest, transactional_id: str, context: RequestContext) -> Deferred:
    answer = Deferred()

    def done(outcome: ProducerIdentity | BrokerError) -> None:
        if isinstance(outcome, BrokerError):
            answer.complete(_refused(outcome.code, context))
        else:
            answer.complete(InitProducerIdResponse(producer_id=outcome.producer_id, producer_epoch=outcome.epoch))

    expected = None if request.producer_id < 0 else ProducerIdentity(request.producer_id, request.producer_epoch)
    context.node.transactions.init_producer_id(transactional_id, request.transaction_timeout_ms, expected, done)
    return answer


def _refused(code: ErrorCode, context: RequestContext) -> InitProducerIdResponse:
    if code == ErrorCode.PRODUCER_FENCED and context.api_version < PRODUCER_FENCED_SINCE:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
