"""LeaveGroup: members of a classic group go, so that the others need not wait for their sessions to end.

Versions: 0 to 5. Since 3 several members can be named at once, static ones by their instance id alone (KIP-345), and
each has an error of its own; before, the one member's error is the response's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.broker.groups.reply import GroupReply
from penstock.broker.request_context import RequestContext
from penstock.coordinator.classic_messages import LeaveResult, LeavingMember
from penstock.core.acls import AclOperation
from penstock.protocol.definitions.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from penstock.protocol.error_codes import BrokerError, ErrorCode

MANY_MEMBERS_SINCE: Final = 3


def handle(request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse | GroupReply:
    many = context.api_version >= MANY_MEMBERS_SINCE
    if many:
        leaving = [LeavingMember(member.member_id, member.group_instance_id) for member in request.members]
    else:
        leaving = [LeavingMember(request.member_id)]
    reply = GroupReply(lambda results: _left(results, many), lambda error: LeaveGroupResponse(error_code=error.code))
    try:
        context.access.check_group(AclOperation.READ, request.group_id)
        context.node.groups.classic.leave(request.group_id, leaving, reply)
    except BrokerError as error:
        if error.code is ErrorCode.UNKNOWN_MEMBER_ID:
            # There is no such group, which says the same of each of the members.
            return _left([LeaveResult(error.code, each.member_id, each.instance_id) for each in leaving], many)
        return LeaveGroupResponse(error_code=error.code)
    return reply


def _left(results: Sequence[LeaveResult], many: bool) -> LeaveGroupResponse:
    if not many:
        return LeaveGroupResponse(error_code=results[0].error)
    return LeaveGroupResponse(
        members=[
            MemberResponse(member_id=each.member_id, group_instance_id=each.instance_id, error_code=each.error)
            for each in results
        ]
    )
