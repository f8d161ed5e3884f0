"""FindCoordinator: the broker that coordinates a group or a transactional id. With one node that is this one.

Share groups have no coordinator here: asking for one is INVALID_REQUEST with a message that says so, which clients
report at once instead of searching for ever. Versions: 0 to 6 (many keys at a time from 4).
"""

from __future__ import annotations

from typing import Final

from penstock.broker.request_context import RequestContext
from penstock.core.ids import BrokerId
from penstock.metadata.image import Endpoint
from penstock.protocol.definitions.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode

MANY_KEYS_SINCE: Final = 4
GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
NO_NODE: Final = -1

_NOT_HERE: Final = {
    SHARE: "This broker does not coordinate share groups.",
}


def handle(request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
    try:
        node_id, endpoint = _coordinator(request.key_type, context)
    except BrokerError as error:
        return _refused(request, context.api_version, error)
    if context.api_version < MANY_KEYS_SINCE:
        return FindCoordinatorResponse(node_id=node_id, host=endpoint.host, port=endpoint.port)
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, node_id=node_id, host=endpoint.host, port=endpoint.port)
            for key in request.coordinator_keys
        ]
    )


def _coordinator(key_type: int, context: RequestContext) -> tuple[BrokerId, Endpoint]:
    if key_type not in (GROUP, TRANSACTION):
        reason = _NOT_HERE.get(key_type, f"There is no kind of coordinator with the number {key_type}.")
        raise BrokerError(ErrorCode.INVALID_REQUEST, reason)
    broker = context.node.image.brokers[context.node.broker_id]
    endpoint = context.endpoint_of(broker)
    if endpoint is None:
        raise BrokerError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            f"Broker {broker.broker_id} has no listener {context.connection.listener_name}.",
        )
    return broker.broker_id, endpoint


def _refused(request: FindCoordinatorRequest, api_version: int, error: BrokerError) -> FindCoordinatorResponse:
    if api_version < MANY_KEYS_SINCE:
        return FindCoordinatorResponse(
            error_code=error.code, error_message=error.message, node_id=NO_NODE, port=NO_NODE
        )
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, node_id=NO_NODE, port=NO_NODE, error_code=error.code, error_message=error.message)
            for key in request.coordinator_keys
        ]
    )
