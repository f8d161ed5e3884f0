"""AlterPartitionReassignments: moves the replicas of partitions to other brokers, or cancels a move (KIP-455).

The answer leaves when the reassignments have begun; ListPartitionReassignments tells which are under way. The replicas
that a partition has already are accepted and change nothing. Versions: 0 and 1; since 1 a request may insist on the
replication factor (KIP-860).
"""

from __future__ import annotations

from penstock.broker.deferred import Barrier, Deferred
from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclOperation
from penstock.core.ids import TopicName
from penstock.metadata.changes import PartitionChanged
from penstock.metadata.image import ClusterImage
from penstock.metadata.reassignment import decide_reassignment
from penstock.protocol.definitions.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode

_Outcome = PartitionChanged | BrokerError | None


def handle(
    request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse | Deferred:
    if not context.access.may_with_cluster(AclOperation.ALTER):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return AlterPartitionReassignmentsResponse(error_code=code, error_message=code.text)
    answer = Barrier()
    outcomes: list[_Outcome] = []

    def decide(image: ClusterImage) -> list[PartitionChanged]:
        nonlocal outcomes
        outcomes = _decide(request, image, context)
        return [outcome for outcome in outcomes if isinstance(outcome, PartitionChanged)]

    def decided(failure: BrokerError | None) -> None:
        answer.complete(_response(request, outcomes, failure))

    context.node.propose(decide, decided)
    return answer


def _decide(
    request: AlterPartitionReassignmentsRequest, image: ClusterImage, context: RequestContext
) -> list[_Outcome]:
    """The outcomes of the request's partitions, in their order."""
    outcomes: list[_Outcome] = []
    named: set[tuple[str, int]] = set()
    for topic in request.topics:
        for wanted in topic.partitions:
            try:
                if (topic.name, wanted.partition_index) in named:
                    raise BrokerError(ErrorCode.INVALID_REQUEST, "Each partition may be named once only.")
                named.add((topic.name, wanted.partition_index))
                outcomes.append(_reassigned(request, image, context, topic.name, wanted))
            except BrokerError as error:
                outcomes.append(error.to_keep())
    return outcomes


def _reassigned(
    request: AlterPartitionReassignmentsRequest,
    image: ClusterImage,
    context: RequestContext,
    topic: str,
    wanted: ReassignablePartition,
) -> PartitionChanged | None:
    return decide_reassignment(
        image,
        TopicName(topic),
        wanted.partition_index,
        wanted.replicas,
        context.node.inherited_topic_config,
        may_resize=request.allow_replication_factor_change,
    )


def _response(
    request: AlterPartitionReassignmentsRequest, outcomes: list[_Outcome], failure: BrokerError | None
) -> AlterPartitionReassignmentsResponse:
    """`failure`: nothing of the proposal was committed, and there may be no outcomes."""
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change
    )
    remaining = iter(outcomes)
    for topic in request.topics:
        result = ReassignableTopicResponse(name=topic.name)
        response.responses.append(result)
        for wanted in topic.partitions:
            partition = ReassignablePartitionResponse(partition_index=wanted.partition_index)
            result.partitions.append(partition)
            outcome = next(remaining, None)
            error = outcome if isinstance(outcome, BrokerError) else failure
            if error is not None:
                partition.error_code, partition.error_message = error.code, error.message
    return response
