"""JoinGroup: a member of a classic group comes in, or comes back for a rebalance. The answer waits for the others.

Versions: 0 to 9. Since 4 a dynamic member is first given its id and joins with it (KIP-394); since 5 there are static
members (KIP-345); since 9 a returning static leader is told that there is nothing to assign (KIP-814).
"""

from __future__ import annotations

from typing import Any, Final

from penstock.broker.groups.reply import GroupReply
from penstock.broker.request_context import RequestContext
from penstock.coordinator.classic_messages import JoinRequest, JoinResult, MemberProtocol
from penstock.core.acls import AclOperation
from penstock.protocol.definitions.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from penstock.protocol.error_codes import BrokerError

NULL_PROTOCOL_SINCE: Final = 7


def handle(request: JoinGroupRequest, context: RequestContext) -> Any:
    try:
        context.access.check_group(AclOperation.READ, request.group_id)
    except BrokerError as error:
        return _refused(request, error, context.api_version)
    return context.node.groups.log.with_topic(lambda: _handle(request, context))


def _handle(request: JoinGroupRequest, context: RequestContext) -> JoinGroupResponse | GroupReply:
    version = context.api_version
    reply = GroupReply(lambda result: _joined(result, version), lambda error: _refused(request, error, version))
    try:
        context.node.groups.classic.join(
            request.group_id,
            JoinRequest(
                version=version,
                member_id=request.member_id,
                instance_id=request.group_instance_id,
                client_id=context.client_id or "",
                client_host=context.client_host,
                session_timeout_ms=request.session_timeout_ms,
                rebalance_timeout_ms=request.rebalance_timeout_ms,
                protocol_type=request.protocol_type,
                protocols=tuple(MemberProtocol(protocol.name, protocol.metadata) for protocol in request.protocols),
            ),
            reply,
        )
    except BrokerError as error:
        return _refused(request, error, version)
    return reply


def _joined(result: JoinResult, version: int) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation_id,
        protocol_type=result.protocol_type,
        protocol_name=_protocol_name(result.protocol_name, version),
        leader=result.leader_id,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.instance_id, metadata=member.metadata
            )
            for member in result.members
        ],
    )


def _refused(request: JoinGroupRequest, error: BrokerError, version: int) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error.code, member_id=request.member_id, protocol_name=_protocol_name(None, version)
    )


def _protocol_name(name: str | None, version: int) -> str | None:
    return name if name is not None or version >= NULL_PROTOCOL_SINCE else ""
