"""Heartbeat: a member of a classic group is alive, and learns whether it has to join again. Versions: 0 to 4."""

from __future__ import annotations

from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclOperation
from penstock.protocol.definitions.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.error_codes import BrokerError


def handle(request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
    try:
        context.access.check_group(AclOperation.READ, request.group_id)
        context.node.groups.classic.heartbeat(
            request.group_id, request.member_id, request.group_instance_id, request.generation_id
        )
    except BrokerError as error:
        return HeartbeatResponse(error_code=error.code)
    return HeartbeatResponse()
