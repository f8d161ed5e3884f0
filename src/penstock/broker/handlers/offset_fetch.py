"""OffsetFetch: how far groups have read. A group or partition without a commit answers -1, and no error.

Versions: 1 to 10. Without topics, all that the group has committed (since 2); since 7 a client may refuse what an open
transaction might still change (KIP-447); since 8 many groups at a time; since 9 a member of the newer protocol names
itself and its epoch, and since 10 topics are named by id (KIP-848).
"""

from __future__ import annotations

from functools import partial
from typing import Final

from penstock.broker.groups.offsets import FetchableOffsets
from penstock.broker.groups.reply import GatheredReply
from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclOperation
from penstock.core.ids import TopicId, TopicName, TopicPartition
from penstock.protocol.definitions.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode

GROUP_ERROR_SINCE: Final = 2
MANY_GROUPS_SINCE: Final = 8
TOPIC_IDS_SINCE: Final = 10
NO_OFFSET: Final = -1


def handle(request: OffsetFetchRequest, context: RequestContext) -> GatheredReply:
    many = context.api_version >= MANY_GROUPS_SINCE
    wanted = request.groups if many else [_only_group(request)]
    groups: list[OffsetFetchResponseGroup] = []
    reply = GatheredReply(
        lambda: OffsetFetchResponse(groups=groups) if many else _said_of_one_group(groups[0], wanted[0], context)
    )
    for asked in wanted:
        group = OffsetFetchResponseGroup(group_id=asked.group_id)
        groups.append(group)
        try:
            context.access.check_group(AclOperation.DESCRIBE, asked.group_id)
            offsets = context.node.groups.offsets.fetch(asked.group_id, asked.member_id, asked.member_epoch)
            group.topics = _Reading(offsets, request.require_stable, context).topics(asked.topics)
            reply.await_writes(offsets.shard, partial(_refuse, group))
        except BrokerError as error:
            _refuse(group, error)
    return reply.all_named()


def _refuse(group: OffsetFetchResponseGroup, error: BrokerError) -> None:
    group.error_code = error.code
    group.topics = []


class _Reading:
    """One group's offsets, as the request wants them told."""

    def __init__(self, offsets: FetchableOffsets, require_stable: bool, context: RequestContext) -> None:
        self._offsets = offsets
        self._require_stable = require_stable
        self._image = context.node.image
        self._access = context.access
        self._by_id = context.api_version >= TOPIC_IDS_SINCE

    def topics(self, wanted: list[OffsetFetchRequestTopics] | None) -> list[OffsetFetchResponseTopics]:
        if wanted is None:
            wanted = self._all_topics()
        return [
            OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=self._partitions(topic))
            for topic in wanted
        ]

    def _all_topics(self) -> list[OffsetFetchRequestTopics]:
        topics: dict[str, OffsetFetchRequestTopics] = {}
        for name, index in self._offsets.partitions():
            image = self._image.topics.get(TopicName(name))
            if image is not None and self._access.may_with_topic(AclOperation.DESCRIBE, name):
                topic = topics.setdefault(name, OffsetFetchRequestTopics(name=name, topic_id=image.topic_id))
                topic.partition_indexes.append(index)
        return list(topics.values())

    def _partitions(self, topic: OffsetFetchRequestTopics) -> list[OffsetFetchResponsePartitions]:
        name = topic.name
        if self._by_id:
            image = self._image.topics_by_id.get(TopicId(topic.topic_id))
            if image is None:
                return [_without_offset(index, ErrorCode.UNKNOWN_TOPIC_ID) for index in topic.partition_indexes]
            name = image.name
        if not self._access.may_with_topic(AclOperation.DESCRIBE, name):
            refusal = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return [_without_offset(index, refusal) for index in topic.partition_indexes]
        return [self._partition(TopicPartition(name, index)) for index in topic.partition_indexes]

    def _partition(self, partition: TopicPartition) -> OffsetFetchResponsePartitions:
        try:
            committed = self._offsets.at(partition, require_stable=self._require_stable)
        except BrokerError as error:
            return _without_offset(partition.partition, error.code)
        if committed is None:
            return _without_offset(partition.partition, ErrorCode.NONE)
        return OffsetFetchResponsePartitions(
            partition_index=partition.partition,
            committed_offset=committed.offset,
            committed_leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
        )


def _without_offset(index: int, code: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=code
    )


# Before a request could name many groups


def _only_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics: list[OffsetFetchRequestTopics] | None = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


def _said_of_one_group(
    group: OffsetFetchResponseGroup, wanted: OffsetFetchRequestGroup, context: RequestContext
) -> OffsetFetchResponse:
    topics = group.topics
    if group.error_code and context.api_version < GROUP_ERROR_SINCE:
        # The first version says what is wrong with the group of each partition.
        code = ErrorCode(group.error_code)
        topics = [
            OffsetFetchResponseTopics(
                name=topic.name, partitions=[_without_offset(index, code) for index in topic.partition_indexes]
            )
            for topic in wanted.topics or []
        ]
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=each.partition_index,
                        committed_offset=each.committed_offset,
                        committed_leader_epoch=each.committed_leader_epoch,
                        metadata=each.metadata,
                        error_code=each.error_code,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in topics
        ],
    )
