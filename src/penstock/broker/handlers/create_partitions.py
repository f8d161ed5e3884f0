"""CreatePartitions: more partitions for topics that exist. A topic never shrinks.

A client over its `controller_mutation_rate` (KIP-599) is refused from version 3, and made to wait before.
Versions: 0 to 3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from penstock.broker.access import Access
from penstock.broker.deferred import Barrier, Deferred
from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclOperation
from penstock.metadata.changes import PartitionsAdded
from penstock.metadata.image import ClusterImage
from penstock.metadata.topics import PARTITIONS_PER_CHANGE_MAX, decide_more_partitions
from penstock.protocol.definitions.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode

QUOTA_ERROR_SINCE: Final = 3


def handle(request: CreatePartitionsRequest, context: RequestContext) -> Deferred:
    answer = Barrier()
    accepted: list[tuple[PartitionsAdded, CreatePartitionsTopicResult]] = []
    response = CreatePartitionsResponse()
    quota = context.mutation_quota()
    admit = None if quota is None else quota.admission(strict=context.api_version >= QUOTA_ERROR_SINCE)

    def decide(image: ClusterImage) -> list[PartitionsAdded]:
        nonlocal accepted, response
        accepted, response = _decide(request, image, context.access, None if request.validate_only else admit)
        return [] if request.validate_only else [change for change, _ in accepted]

    def decided(failure: BrokerError | None) -> None:
        if failure is not None:
            for _, result in accepted:
                _refuse(result, failure)
        if quota is not None:
            response.throttle_time_ms = quota.throttle_ms
        answer.complete(response)

    context.node.propose(decide, decided)
    return answer


def _decide(
    request: CreatePartitionsRequest,
    image: ClusterImage,
    access: Access,
    admit: Callable[[object, int], bool] | None,
) -> tuple[list[tuple[PartitionsAdded, CreatePartitionsTopicResult]], CreatePartitionsResponse]:
    """The accepted changes with their results, and the response that holds all results."""
    times_named = Counter(topic.name for topic in request.topics)
    accepted: list[tuple[PartitionsAdded, CreatePartitionsTopicResult]] = []
    added = 0
    response = CreatePartitionsResponse()
    for topic in request.topics:
        result = CreatePartitionsTopicResult(name=topic.name)
        response.results.append(result)
        try:
            if times_named[topic.name] > 1:
                raise BrokerError(ErrorCode.INVALID_REQUEST, "Each topic may be named once only.")
            access.check_topic(AclOperation.ALTER, topic.name)
            assignments = (
                None if topic.assignments is None else [assignment.broker_ids for assignment in topic.assignments]
            )
            change = decide_more_partitions(image, topic.name, topic.count, assignments)
            added += len(change.partitions)
            if added > PARTITIONS_PER_CHANGE_MAX:
                raise BrokerError(
                    ErrorCode.POLICY_VIOLATION,
                    f"{added} partitions are more than one request may create ({PARTITIONS_PER_CHANGE_MAX}).",
                )
            if admit is not None and not admit(topic.name, len(change.partitions)):
                raise BrokerError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            accepted.append((change, result))
        except BrokerError as error:
            _refuse(result, error)
    return accepted, response


def _refuse(result: CreatePartitionsTopicResult, error: BrokerError) -> None:
    result.error_code = error.code
    result.error_message = error.message
