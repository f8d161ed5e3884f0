"""InitProducerId: an id for an idempotent producer, which nobody had before and nobody will get again.

An idempotent producer that asks to go on with an old id (version 3, KIP-360) gets a new one too: without a
transactional id nothing ties the two together. An id without an epoch, or an epoch without an id, is INVALID_REQUEST. A
transactional id is INVALID_REQUEST, because this broker does not
coordinate transactions. Versions: 0 to 5.
"""

from __future__ import annotations

from penstock.broker.request_context import RequestContext
from penstock.protocol.definitions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.protocol.error_codes import BrokerError, ErrorCode


def handle(request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
    if request.transactional_id is not None or (request.producer_id < 0) != (request.producer_epoch < 0):
        return _refused(ErrorCode.INVALID_REQUEST)
    try:
        producer_id = context.node.store.allocate_producer_id()
    except BrokerError as error:
        return _refused(error.code)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
