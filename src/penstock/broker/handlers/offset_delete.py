"""OffsetDelete: offsets of a group, partition by partition; not those of topics that it is reading. Version: 0."""

from __future__ import annotations

from penstock.broker.groups.reply import GatheredReply
from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclOperation
from penstock.core.ids import TopicPartition
from penstock.metadata.topics import find_partition
from penstock.protocol.definitions.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode


def handle(request: OffsetDeleteRequest, context: RequestContext) -> OffsetDeleteResponse | GatheredReply:
    try:
        context.access.check_group(AclOperation.DELETE, request.group_id)
    except BrokerError as error:
        return OffsetDeleteResponse(error_code=error.code)
    response = OffsetDeleteResponse()
    wanted: dict[TopicPartition, OffsetDeleteResponsePartition] = {}
    for topic in request.topics:
        answered = OffsetDeleteResponseTopic(name=topic.name)
        response.topics.append(answered)
        for asked in topic.partitions:
            result = OffsetDeleteResponsePartition(partition_index=asked.partition_index)
            answered.partitions.append(result)
            try:
                context.access.check_topic(AclOperation.READ, topic.name)
                find_partition(context.node.image, topic.name, asked.partition_index)
            except BrokerError as error:
                result.error_code = error.code
            else:
                wanted[TopicPartition(topic.name, asked.partition_index)] = result

    def refuse(error: BrokerError) -> None:
        response.error_code = error.code
        response.topics.clear()

    reply = GatheredReply(lambda: response)
    try:
        shard, subscribed = context.node.groups.offsets.delete(request.group_id, list(wanted))
    except BrokerError as error:
        refuse(error)
        return response
    for partition in subscribed:
        wanted[partition].error_code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    reply.await_writes(shard, refuse)
    return reply.all_named()
