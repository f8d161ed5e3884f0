"""ConsumerGroupHeartbeat: all that a member of the newer group protocol says and hears (KIP-848).

Versions: 0 and 1. Since 1 a member brings its own id (KIP-1082) and may subscribe by a pattern that the broker matches.
"""

from __future__ import annotations

from typing import Any

from penstock.broker.groups.reply import GroupReply
from penstock.broker.request_context import RequestContext
from penstock.coordinator.consumer_group_changes import JOIN_EPOCH
from penstock.coordinator.consumer_group_messages import Heartbeat, HeartbeatResult
from penstock.core.acls import WILDCARD, AclOperation
from penstock.core.ids import TopicIdPartition
from penstock.protocol.definitions.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
    ResponseTopicPartitions,
)
from penstock.protocol.error_codes import BrokerError


def handle(request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> Any:
    try:
        _check_access(request, context)
    except BrokerError as error:
        return _refused(error)
    if request.member_epoch == JOIN_EPOCH:
        return context.node.groups.log.with_topic(lambda: _handle(request, context))
    return _handle(request, context)


def _check_access(request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> None:
    access = context.access
    if access.is_restricted:
        access.check_group(AclOperation.READ, request.group_id)
        for name in request.subscribed_topic_names or ():
            access.check_topic(AclOperation.DESCRIBE, name)
        if request.subscribed_topic_regex:
            # The pattern is matched against all topics, those of later days too: only an ACL for * covers them.
            access.check_topic(AclOperation.DESCRIBE, WILDCARD)


def _handle(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> ConsumerGroupHeartbeatResponse | GroupReply:
    names = request.subscribed_topic_names
    heartbeat = Heartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        subscribed_topic_names=None if names is None else tuple(names),
        subscribed_topic_regex=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        owned_partitions=_partitions(request.topic_partitions),
        client_id=context.client_id or "",
        client_host=context.client_host,
    )
    reply = GroupReply(_heard, _refused)
    try:
        context.node.groups.consumers.heartbeat(heartbeat, context.api_version, reply)
    except BrokerError as error:
        return _refused(error)
    # Where nothing had to be written the answer is there already, and need not wait in the connection's line.
    return reply.response if reply.done else reply


def _partitions(topics: list[RequestTopicPartitions] | None) -> frozenset[TopicIdPartition] | None:
    if topics is None:
        return None
    return frozenset(TopicIdPartition(topic.topic_id, index) for topic in topics for index in topic.partitions)


def _heard(result: HeartbeatResult) -> ConsumerGroupHeartbeatResponse:
    assignment = None
    if result.assignment is not None:
        assignment = Assignment(
            topic_partitions=[
                ResponseTopicPartitions(topic_id=topic_id, partitions=list(partitions))
                for topic_id, partitions in result.assignment
            ]
        )
    return ConsumerGroupHeartbeatResponse(
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        assignment=assignment,
    )


def _refused(error: BrokerError) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
