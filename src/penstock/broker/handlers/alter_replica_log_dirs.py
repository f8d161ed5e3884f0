"""AlterReplicaLogDirs: moves replicas to another log directory of this broker (KIP-113).

There is one log directory: the replicas are there already, and naming it is no error. Any other path is
LOG_DIR_NOT_FOUND, as in Kafka. Versions: 1 and 2.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclOperation
from penstock.core.ids import TopicName
from penstock.protocol.definitions.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from penstock.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from penstock.broker.node import Node


def handle(request: AlterReplicaLogDirsRequest, context: RequestContext) -> AlterReplicaLogDirsResponse:
    node = context.node
    own_path = os.path.abspath(node.log_directory.path)
    may_alter = context.access.may_with_cluster(AclOperation.ALTER)
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            # The answer has no directories; a topic whose partitions were spread over several is one topic in it.
            result = results.setdefault(topic.name, AlterReplicaLogDirTopicResult(topic_name=topic.name))
            for index in topic.partitions:
                if not may_alter:
                    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                elif directory.path != own_path:
                    code = ErrorCode.LOG_DIR_NOT_FOUND
                else:
                    code = _outcome(node, topic.name, index)
                result.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _outcome(node: Node, name: str, index: int) -> ErrorCode:
    topic = node.image.topics.get(TopicName(name))
    if topic is None or not 0 <= index < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partition = node.topics.topic(name).partitions[index]
    if partition is None:
        return ErrorCode.REPLICA_NOT_AVAILABLE
    return ErrorCode.KAFKA_STORAGE_ERROR if partition.offline_reason is not None else ErrorCode.NONE
