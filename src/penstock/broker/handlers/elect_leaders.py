"""ElectLeaders: makes the preferred replica, or with an unclean election any live replica, the leader of a partition.

A partition that has the leader asked for is ELECTION_NOT_NEEDED. Asked for all partitions, the answer leaves those out,
as Kafka's does. Versions: 0 to 2; 0 knows the preferred election only and has no error code for the whole request.
"""

from __future__ import annotations

from collections import defaultdict
from enum import IntEnum
from typing import Final

from penstock.broker.deferred import Barrier, Deferred
from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclOperation
from penstock.metadata.changes import PartitionChanged
from penstock.metadata.elections import Elections, decide_elections
from penstock.metadata.image import ClusterImage
from penstock.metadata.partition_state import Election
from penstock.protocol.definitions.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode


class ElectionType(IntEnum):
    """The protocol's numbers."""

    PREFERRED = 0
    UNCLEAN = 1


_ELECTIONS: Final = {ElectionType.PREFERRED: Election.PREFERRED, ElectionType.UNCLEAN: Election.UNCLEAN}


def handle(request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse | Deferred:
    if not context.access.may_with_cluster(AclOperation.ALTER):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return _refused(request, code, code.text)
    if request.election_type not in ElectionType.__members__.values():
        message = f"There is no election with the number {request.election_type}."
        return _refused(request, ErrorCode.INVALID_REQUEST, message)
    election = _ELECTIONS[ElectionType(request.election_type)]
    wanted = None
    if request.topic_partitions is not None:
        wanted = [(topic.topic, index) for topic in request.topic_partitions for index in topic.partitions]
    answer = Barrier()
    outcomes: Elections = {}

    def decide(image: ClusterImage) -> list[PartitionChanged]:
        nonlocal outcomes
        outcomes = decide_elections(image, wanted, election, context.node.inherited_topic_config)
        return [outcome for outcome in outcomes.values() if isinstance(outcome, PartitionChanged)]

    def decided(failure: BrokerError | None) -> None:
        answer.complete(ElectLeadersResponse(replica_election_results=_results(outcomes, failure)))

    context.node.propose(decide, decided)
    return answer


def _results(outcomes: Elections, failure: BrokerError | None) -> list[ReplicaElectionResult]:
    """`failure`: nothing of the proposal was committed."""
    by_topic: dict[str, list[PartitionResult]] = defaultdict(list)
    for (topic, index), outcome in outcomes.items():
        error = outcome if isinstance(outcome, BrokerError) else failure
        if error is None:
            result = PartitionResult(partition_id=index)
        else:
            result = PartitionResult(partition_id=index, error_code=error.code, error_message=error.message)
        by_topic[topic].append(result)
    return [ReplicaElectionResult(topic=topic, partition_result=results) for topic, results in by_topic.items()]


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
