"""DescribeQuorum: the nodes that keep the cluster's metadata, and how far each of them is.

Kafka asks about partition 0 of `__cluster_metadata`; any other is UNKNOWN_TOPIC_OR_PARTITION. The controller is the one
voter, which leads and is never behind: where several brokers keep the metadata in etcd, etcd's own voters are not the
cluster's. The other live brokers are observers. The offset is the number of changes that this broker's image has seen.
Versions: 0 to 2; times since 1, the voter's directory and addresses since 2.
"""

from __future__ import annotations

from typing import Final

from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclOperation
from penstock.protocol.definitions.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    RequestTopicData,
    ResponsePartitionData,
    ResponseTopicData,
)
from penstock.protocol.error_codes import ErrorCode

METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_PARTITION: Final = 0
# A broker on its own is never elected.
FIRST_EPOCH: Final = 1
# What Kafka shows for a voter of a static quorum.
NO_DIRECTORY_ID: Final = bytes(16)
UNKNOWN_OFFSET: Final = -1


def handle(request: DescribeQuorumRequest, context: RequestContext) -> DescribeQuorumResponse:
    if not context.access.may_with_cluster(AclOperation.DESCRIBE):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeQuorumResponse(error_code=code, error_message=code.text)
    if not _asks_for_metadata(request.topics):
        return _unknown(request)
    node = context.node
    image = node.image
    now_ms = node.now_ms()
    controller_id = image.controller_id
    voter = ReplicaState(
        replica_id=controller_id,
        replica_directory_id=NO_DIRECTORY_ID,
        log_end_offset=image.version,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    quorum = ResponsePartitionData(
        partition_index=METADATA_PARTITION,
        leader_id=controller_id,
        leader_epoch=max(image.controller_epoch, FIRST_EPOCH),
        high_watermark=image.version,
        current_voters=[voter],
        observers=[
            # How far they are is not known here.
            ReplicaState(replica_id=broker_id, replica_directory_id=NO_DIRECTORY_ID, log_end_offset=UNKNOWN_OFFSET)
            for broker_id in image.brokers
            if broker_id != controller_id
        ],
    )
    controller = image.brokers.get(controller_id)
    endpoints = {} if controller is None else controller.endpoints
    listeners = [Listener(name=name, host=each.host, port=each.port) for name, each in endpoints.items()]
    return DescribeQuorumResponse(
        topics=[ResponseTopicData(topic_name=METADATA_TOPIC, partitions=[quorum])],
        nodes=[Node(node_id=controller_id, listeners=listeners)],
    )


def _asks_for_metadata(topics: list[RequestTopicData]) -> bool:
    asked = [(topic.topic_name, partition.partition_index) for topic in topics for partition in topic.partitions]
    return asked == [(METADATA_TOPIC, METADATA_PARTITION)]


def _unknown(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeQuorumResponse(
        topics=[
            ResponseTopicData(
                topic_name=topic.topic_name,
                partitions=[
                    ResponsePartitionData(
                        partition_index=partition.partition_index, error_code=code, error_message=code.text
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
