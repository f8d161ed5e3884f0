"""OffsetCommit: how far a group has read, partition by partition. Answered when it is in the log.

Versions: 2 to 10. Up to 4 a client may name a retention time of its own; since 6 it tells the leader epoch; since 9
the errors of the newer group protocol are known; since 10 topics are named by id (KIP-848).

A partition that does not exist is refused by itself; what the group refuses, it refuses for all partitions.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from penstock.broker.groups.offset_commits import AskedCommits, find_readable_partition
from penstock.broker.groups.offsets import Committer
from penstock.broker.groups.reply import GroupReply
from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclOperation
from penstock.core.ids import TopicId
from penstock.protocol.definitions.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode

TOPIC_IDS_SINCE: Final = 10


def handle(request: OffsetCommitRequest, context: RequestContext) -> Any:
    try:
        context.access.check_group(AclOperation.READ, request.group_id)
    except BrokerError as error:
        return _refused(request, error)
    return context.node.groups.log.with_topic(lambda: _handle(request, context))


def _refused(request: OffsetCommitRequest, error: BrokerError) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=error.code)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _handle(request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse | GroupReply:
    by_id = context.api_version >= TOPIC_IDS_SINCE
    response = OffsetCommitResponse()
    asked = AskedCommits(context.node, request.retention_time_ms)
    for topic in request.topics:
        answered = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        response.topics.append(answered)
        find = partial(find_readable_partition, context, TopicId(topic.topic_id) if by_id else topic.name)
        for partition in topic.partitions:
            result = OffsetCommitResponsePartition(partition_index=partition.partition_index)
            answered.partitions.append(result)
            asked.add(partition, result, find)
    if asked.is_empty:
        return response

    def refused(error: BrokerError) -> OffsetCommitResponse:
        asked.refuse_all(error.code)
        return response

    reply = GroupReply(lambda _: response, refused)
    committer = Committer(
        request.member_id, request.group_instance_id, request.generation_id_or_member_epoch, context.api_version
    )
    try:
        stale = context.node.groups.offsets.commit(request.group_id, committer, asked.commits, reply)
    except BrokerError as error:
        return refused(error)
    asked.refuse(stale, ErrorCode.STALE_MEMBER_EPOCH)
    return reply
