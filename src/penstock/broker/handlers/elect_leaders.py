"""ElectLeaders: makes the preferred replica, or with an unclean election any replica, the leader of a partition.

A partition that has the leader asked for is ELECTION_NOT_NEEDED. Asked for all partitions, the answer leaves those out,
as Kafka's does. Left out: an actual election, which needs replication. Versions: 0 to 2; 0 knows the preferred election
only and has no error code for the whole request.
"""

from __future__ import annotations

from enum import IntEnum

from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclOperation
from penstock.core.ids import NO_LEADER, TopicName
from penstock.metadata.changes import PartitionImage
from penstock.metadata.image import ClusterImage
from penstock.protocol.definitions.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from penstock.protocol.error_codes import ErrorCode


class ElectionType(IntEnum):
    """The protocol's numbers."""

    PREFERRED = 0
    UNCLEAN = 1


def handle(request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
    if not context.access.may_with_cluster(AclOperation.ALTER):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return _refused(request, code, code.text)
    if request.election_type not in ElectionType.__members__.values():
        message = f"There is no election with the number {request.election_type}."
        return _refused(request, ErrorCode.INVALID_REQUEST, message)
    image = context.node.image
    election = ElectionType(request.election_type)
    if request.topic_partitions is None:
        return ElectLeadersResponse(replica_election_results=_not_possible(image, election))
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(
                topic=wanted.topic,
                partition_result=[
                    _result(index, _outcome(image, wanted.topic, index, election)) for index in wanted.partitions
                ],
            )
            for wanted in request.topic_partitions
        ]
    )


def _not_possible(image: ClusterImage, election: ElectionType) -> list[ReplicaElectionResult]:
    """Of all partitions, those that lack the leader asked for."""
    results: list[ReplicaElectionResult] = []
    for topic in image.topics.values():
        codes = [(partition.index, _election(partition, election)) for partition in topic.partitions]
        failed = [_result(index, code) for index, code in codes if code is not ErrorCode.ELECTION_NOT_NEEDED]
        if failed:
            results.append(ReplicaElectionResult(topic=topic.name, partition_result=failed))
    return results


def _outcome(image: ClusterImage, name: str, index: int, election: ElectionType) -> ErrorCode:
    topic = image.topics.get(TopicName(name))
    if topic is None or not 0 <= index < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return _election(topic.partitions[index], election)


def _election(partition: PartitionImage, election: ElectionType) -> ErrorCode:
    if election is ElectionType.PREFERRED:
        has_leader = partition.leader == partition.replicas[0]
        return ErrorCode.ELECTION_NOT_NEEDED if has_leader else ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    has_leader = partition.leader != NO_LEADER
    return ErrorCode.ELECTION_NOT_NEEDED if has_leader else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def _result(index: int, code: ErrorCode) -> PartitionResult:
    return PartitionResult(partition_id=index, error_code=code, error_message=code.text)


def _refused(request: ElectLeadersRequest, code: ErrorCode, message: str) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=wanted.topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=code, error_message=message)
                    for index in wanted.partitions
                ],
            )
            for wanted in request.topic_partitions or ()
        ],
    )
