"""ListGroups: all groups of this coordinator. Versions: 0 to 5 (states and a filter from 4, types from 5)."""

from __future__ import annotations

from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclOperation, ResourceType
from penstock.protocol.definitions.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from penstock.protocol.error_codes import BrokerError


def handle(request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    access = context.access
    may_list_all = access.may_with_cluster(AclOperation.DESCRIBE)
    try:
        listed = context.node.groups.list_groups()
    except BrokerError as error:
        return ListGroupsResponse(error_code=error.code)
    return ListGroupsResponse(
        groups=[
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.group_type,
            )
            for group in listed
            if (may_list_all or access.may(AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id))
            and (not states or group.state.lower() in states)
            and (not types or group.group_type in types)
        ]
    )
