"""ListPartitionReassignments: the partitions whose replicas are moving to other brokers (KIP-455). Version: 0.

Topics and partitions that do not exist are left out, as Kafka does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclOperation
from penstock.core.ids import TopicName
from penstock.metadata.changes import PartitionImage, TopicImage
from penstock.metadata.image import ClusterImage
from penstock.protocol.definitions.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from penstock.protocol.error_codes import ErrorCode


def handle(request: ListPartitionReassignmentsRequest, context: RequestContext) -> ListPartitionReassignmentsResponse:
    if not context.access.may_with_cluster(AclOperation.DESCRIBE):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return ListPartitionReassignmentsResponse(error_code=code, error_message=code.text)
    response = ListPartitionReassignmentsResponse()
    for topic, indexes in _asked(request, context.node.image):
        ongoing = [_ongoing(topic.partitions[index]) for index in indexes if _moves(topic.partitions[index])]
        if ongoing:
            response.topics.append(OngoingTopicReassignment(name=topic.name, partitions=ongoing))
    return response


def _asked(
    request: ListPartitionReassignmentsRequest, image: ClusterImage
) -> Iterator[tuple[TopicImage, Collection[int]]]:
    if request.topics is None:
        for topic in image.topics.values():
            yield topic, range(len(topic.partitions))
        return
    for wanted in request.topics:
        found = image.topics.get(TopicName(wanted.name))
        if found is not None:
            yield found, [index for index in wanted.partition_indexes if 0 <= index < len(found.partitions)]


def _moves(partition: PartitionImage) -> bool:
    return bool(partition.adding or partition.removing)


def _ongoing(partition: PartitionImage) -> OngoingPartitionReassignment:
    return OngoingPartitionReassignment(
        partition_index=partition.index,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.adding),
        removing_replicas=list(partition.removing),
    )
