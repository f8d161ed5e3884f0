"""AlterPartitionReassignments: moves the replicas of partitions to other brokers, or cancels a move (KIP-455).

The replicas that a partition has already are accepted and change nothing. A partition never has a move to cancel, and
brokers that are not registered are INVALID_REPLICA_ASSIGNMENT, as in Kafka. Left out: an actual move, which needs
replication. Versions: 0 and 1; since 1 a request may insist on the replication factor (KIP-860).
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclOperation
from penstock.core.ids import BrokerId, TopicName
from penstock.metadata.changes import PartitionImage
from penstock.metadata.image import ClusterImage
from penstock.protocol.definitions.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode


def handle(request: AlterPartitionReassignmentsRequest, context: RequestContext) -> AlterPartitionReassignmentsResponse:
    if not context.access.may_with_cluster(AclOperation.ALTER):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return AlterPartitionReassignmentsResponse(error_code=code, error_message=code.text)
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change
    )
    image = context.node.image
    for topic in request.topics:
        result = ReassignableTopicResponse(name=topic.name)
        response.responses.append(result)
        for wanted in topic.partitions:
            outcome = ReassignablePartitionResponse(partition_index=wanted.partition_index)
            result.partitions.append(outcome)
            try:
                partition = _partition(image, topic.name, wanted.partition_index)
                _check(partition, wanted.replicas, image, may_resize=request.allow_replication_factor_change)
            except BrokerError as error:
                outcome.error_code, outcome.error_message = error.code, error.message
    return response


def _partition(image: ClusterImage, name: str, index: int) -> PartitionImage:
    topic = image.topics.get(TopicName(name))
    if topic is None:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {name[:300]!r}.")
    if not 0 <= index < len(topic.partitions):
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic {name!r} has no partition {index}.")
    return topic.partitions[index]


def _check(partition: PartitionImage, replicas: Sequence[int] | None, image: ClusterImage, *, may_resize: bool) -> None:
    if replicas is None:
        raise BrokerError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    if not replicas:
        raise BrokerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "A partition needs at least one replica.")
    if len(set(replicas)) != len(replicas):
        raise BrokerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "A broker is named more than once.")
    unknown = sorted(set(replicas) - image.brokers.keys())
    if unknown:
        raise BrokerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The broker {unknown[0]} is not registered.")
    if not may_resize and len(replicas) != len(partition.replicas):
        raise BrokerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The partition has {len(partition.replicas)} replicas, and the request allows no other number.",
        )
    if tuple(BrokerId(replica) for replica in replicas) != partition.replicas:
        raise BrokerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "This version moves no replicas between brokers.")
