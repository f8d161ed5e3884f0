"""CreatePartitions: more partitions for topics that exist. A topic never shrinks. Versions: 0 to 3."""

from __future__ import annotations

from collections import Counter

from penstock.broker.request_context import RequestContext
from penstock.metadata.image import PartitionsAdded
from penstock.metadata.topics import PARTITIONS_PER_CHANGE_MAX, decide_more_partitions
from penstock.protocol.definitions.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode


def handle(request: CreatePartitionsRequest, context: RequestContext) -> CreatePartitionsResponse:
    node = context.node
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
            assignments = (
                None if topic.assignments is None else [assignment.broker_ids for assignment in topic.assignments]
            )
            change = decide_more_partitions(node.image, topic.name, topic.count, assignments)
            added += len(change.partitions)
            if added > PARTITIONS_PER_CHANGE_MAX:
                raise BrokerError(
                    ErrorCode.POLICY_VIOLATION,
                    f"{added} partitions are more than one request may create ({PARTITIONS_PER_CHANGE_MAX}).",
                )
            accepted.append((change, result))
        except BrokerError as error:
            _refuse(result, error)
    if accepted and not request.validate_only:
        try:
            node.commit(change for change, _ in accepted)
        except BrokerError as error:
            for _, result in accepted:
                _refuse(result, error)
    return response


def _refuse(result: CreatePartitionsTopicResult, error: BrokerError) -> None:
    result.error_code = error.code
    result.error_message = error.message
