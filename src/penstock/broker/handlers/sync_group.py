"""SyncGroup: the leader of a classic group hands in the assignment, everybody gets a part of it. Versions: 0 to 5.

The answer waits for the leader, and then until the generation is in the log.
"""

from __future__ import annotations

from penstock.broker.groups.reply import GroupReply
from penstock.broker.request_context import RequestContext
from penstock.coordinator.classic_messages import SyncRequest, SyncResult
from penstock.core.acls import AclOperation
from penstock.protocol.definitions.sync_group import SyncGroupRequest, SyncGroupResponse
from penstock.protocol.error_codes import BrokerError


def handle(request: SyncGroupRequest, context: RequestContext) -> SyncGroupResponse | GroupReply:
    reply = GroupReply(_synced, _refused)
    try:
        context.access.check_group(AclOperation.READ, request.group_id)
        context.node.groups.classic.sync(
            request.group_id,
            SyncRequest(
                version=context.api_version,
                member_id=request.member_id,
                instance_id=request.group_instance_id,
                generation_id=request.generation_id,
                protocol_type=request.protocol_type,
                protocol_name=request.protocol_name,
                assignments=tuple((each.member_id, each.assignment) for each in request.assignments),
            ),
            reply,
        )
    except BrokerError as error:
        return _refused(error)
    return reply


def _synced(result: SyncResult) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        assignment=result.assignment,
    )


def _refused(error: BrokerError) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error.code)
