"""DeleteGroups: groups without members, with all of their offsets. Versions: 0 to 2."""

from __future__ import annotations

from functools import partial

from penstock.broker.groups.reply import GatheredReply
from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclOperation
from penstock.protocol.definitions.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from penstock.protocol.error_codes import BrokerError


def handle(request: DeleteGroupsRequest, context: RequestContext) -> GatheredReply:
    response = DeleteGroupsResponse()
    reply = GatheredReply(lambda: response)
    groups = context.node.groups
    for group_id in request.groups_names:
        result = DeletableGroupResult(group_id=group_id)
        response.results.append(result)
        try:
            context.access.check_group(AclOperation.DELETE, group_id)
            shard = groups.shard_to_read(group_id)
            groups.delete(shard, group_id)
            reply.await_writes(shard, partial(_refuse, result))
        except BrokerError as error:
            _refuse(result, error)
    return reply.all_named()


def _refuse(result: DeletableGroupResult, error: BrokerError) -> None:
    result.error_code = error.code
