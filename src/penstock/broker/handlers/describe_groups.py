"""DescribeGroups: classic groups and their members. Versions: 0 to 6.

A group that is not there, or that is of the newer protocol, is "Dead" without an error, and since version 6
GROUP_ID_NOT_FOUND besides (KIP-1043). What members subscribe to is shown while the group is stable.
"""

from __future__ import annotations

from typing import Final

from penstock.broker.authorized_operations import NOT_ASKED_FOR, group_operations
from penstock.broker.request_context import RequestContext
from penstock.coordinator.classic_messages import GroupDescription
from penstock.core.acls import AclOperation
from penstock.protocol.definitions.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode

NOT_FOUND_SINCE: Final = 6


def handle(request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
    response = DescribeGroupsResponse()
    for group_id in request.groups:
        try:
            context.access.check_group(AclOperation.DESCRIBE, group_id)
            described = _described(context.node.groups.classic.describe(group_id))
        except BrokerError as error:
            described = _absent(group_id, error, context.api_version)
        described.authorized_operations = (
            group_operations(context.access, group_id)
            if request.include_authorized_operations and not described.error_code
            else NOT_ASKED_FOR
        )
        response.groups.append(described)
    return response


def _described(group: GroupDescription) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.subscription,
                member_assignment=member.assignment,
            )
            for member in group.members
        ],
    )


def _absent(group_id: str, error: BrokerError, api_version: int) -> DescribedGroup:
    if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
    if api_version < NOT_FOUND_SINCE:
        return DescribedGroup(group_id=group_id, group_state="Dead")
    return DescribedGroup(group_id=group_id, group_state="Dead", error_code=error.code, error_message=error.message)
