"""DescribeTopicPartitions: topics with their partitions, a page at a time (KIP-966).

Topics come in the order of their names. A page holds at most `response_partition_limit` partitions, never more than
`max.request.partition.size.limit`, and never less than one; `next_cursor` names the first partition that did not fit. A
request without topics asks for all of them. The one last known eligible leader replica is the last leader, as in Kafka.
Versions: 0.
"""

from __future__ import annotations

from penstock.broker.authorized_operations import topic_operations
from penstock.broker.node import Node
from penstock.broker.presence import offline_replicas
from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclOperation
from penstock.core.ids import NO_LEADER, TopicName
from penstock.metadata.changes import PartitionImage
from penstock.metadata.topics import is_internal, validate_topic_name
from penstock.protocol.definitions.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    ResponseCursor,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode


def handle(request: DescribeTopicPartitionsRequest, context: RequestContext) -> DescribeTopicPartitionsResponse:
    image = context.node.image
    access = context.access
    names = sorted(
        {topic.name for topic in request.topics}
        or {name for name in image.topics if access.may_with_topic(AclOperation.DESCRIBE, name)}
    )
    cursor = request.cursor
    if cursor is not None and cursor.partition_index < 0:
        return _refused(names, ErrorCode.INVALID_REQUEST)
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
    room = max(1, min(request.response_partition_limit, context.node.config.max_request_partition_size_limit))
    response = DescribeTopicPartitionsResponse()
    for name in names:
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        if not room:
            response.next_cursor = ResponseCursor(topic_name=name, partition_index=first)
            break
        topic = _described(name, context, first, room)
        response.topics.append(topic)
        room -= len(topic.partitions)
        end = first + len(topic.partitions)
        if not topic.error_code and end < len(image.topics[TopicName(name)].partitions):
            response.next_cursor = ResponseCursor(topic_name=name, partition_index=end)
            break
    return response


def _described(name: str, context: RequestContext, first: int, room: int) -> DescribeTopicPartitionsResponseTopic:
    node = context.node
    if not context.access.may_with_topic(AclOperation.DESCRIBE, name):
        return DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
    topic = node.image.topics.get(TopicName(name))
    answer = DescribeTopicPartitionsResponseTopic(name=name, is_internal=is_internal(name))
    if topic is None:
        answer.error_code = _why_missing(name)
        return answer
    answer.topic_id = topic.topic_id
    answer.topic_authorized_operations = topic_operations(context.access, name)
    answer.partitions = [
        _described_partition(name, partition, node) for partition in topic.partitions[first : first + room]
    ]
    return answer


def _why_missing(name: str) -> ErrorCode:
    try:
        validate_topic_name(name)
    except BrokerError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _described_partition(topic: str, partition: PartitionImage, node: Node) -> DescribeTopicPartitionsResponsePartition:
    has_leader = partition.leader in node.image.brokers
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=partition.index,
        leader_id=partition.leader if has_leader else -1,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.elr),
        last_known_elr=[] if partition.last_known_leader == NO_LEADER else [partition.last_known_leader],
        offline_replicas=offline_replicas(node, topic, partition),
    )


def _refused(names: list[str], code: ErrorCode) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[DescribeTopicPartitionsResponseTopic(error_code=code, name=name) for name in names]
    )
