"""DeleteTopics: topics by name, from version 6 also by id; each deleted or refused by itself.

The records are unreachable when the answer leaves; their files are removed in the background. A client over its
`controller_mutation_rate` (KIP-599) is refused from version 5, and made to wait before. Versions: 1 to 6.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from penstock.broker.deferred import Barrier, Deferred
from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclOperation
from penstock.core.ids import ZERO_TOPIC_ID, TopicId
from penstock.metadata.changes import TopicDeleted
from penstock.metadata.image import ClusterImage
from penstock.metadata.topics import decide_deletion
from penstock.protocol.definitions.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode

TOPIC_IDS_SINCE: Final = 6
DELETION_DISABLED_SINCE: Final = 3
QUOTA_ERROR_SINCE: Final = 5


def handle(request: DeleteTopicsRequest, context: RequestContext) -> Deferred:
    answer = Barrier()
    accepted: list[tuple[TopicDeleted, DeletableTopicResult]] = []
    response = DeleteTopicsResponse()
    quota = context.mutation_quota()
    admit = None if quota is None else quota.admission(strict=context.api_version >= QUOTA_ERROR_SINCE)

    def decide(image: ClusterImage) -> list[TopicDeleted]:
        nonlocal accepted, response
        accepted, response = _decide_all(request, context, image, admit)
        return [change for change, _ in accepted]

    def decided(failure: BrokerError | None) -> None:
        if failure is not None:
            for _, result in accepted:
                _refuse(result, failure, context.api_version)
        if quota is not None:
            response.throttle_time_ms = quota.throttle_ms
        answer.complete(response)

    context.node.propose(decide, decided)
    return answer


def _decide_all(
    request: DeleteTopicsRequest,
    context: RequestContext,
    image: ClusterImage,
    admit: Callable[[object, int], bool] | None,
) -> tuple[list[tuple[TopicDeleted, DeletableTopicResult]], DeleteTopicsResponse]:
    """The accepted changes with their results, and the response that holds all results."""
    if context.api_version >= TOPIC_IDS_SINCE:
        wanted = request.topics
    else:
        wanted = [DeleteTopicState(name=name) for name in request.topic_names]
    delete_enabled = context.node.config.delete_topic_enable
    times_named = Counter(_key(topic, image) for topic in wanted)
    accepted: list[tuple[TopicDeleted, DeletableTopicResult]] = []
    response = DeleteTopicsResponse()
    for topic in wanted:
        result = DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)
        response.responses.append(result)
        try:
            if times_named[_key(topic, image)] > 1:
                raise BrokerError(ErrorCode.INVALID_REQUEST, "Each topic may be named once only.")
            _check_access(topic, context, image)
            change = _decide(topic, image, delete_enabled)
            deleted = image.topics_by_id[change.topic_id]
            if admit is not None and not admit(change.topic_id, len(deleted.partitions)):
                raise BrokerError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            accepted.append((change, result))
            result.name, result.topic_id = deleted.name, change.topic_id
        except BrokerError as error:
            _refuse(result, error, context.api_version)
    return accepted, response


def _key(topic: DeleteTopicState, image: ClusterImage) -> object:
    """Equal for two entries of the same topic, whether they name it by name or by id."""
    known = image.topics_by_id.get(TopicId(topic.topic_id))
    return known.name if known is not None else (topic.name or topic.topic_id)


def _check_access(topic: DeleteTopicState, context: RequestContext, image: ClusterImage) -> None:
    """A topic that was named by its id keeps its name to itself."""
    known = image.topics_by_id.get(TopicId(topic.topic_id))
    for name in {topic.name, known.name if known is not None else None} - {None}:
        context.access.check_topic(AclOperation.DELETE, name or "")


def _decide(topic: DeleteTopicState, image: ClusterImage, delete_enabled: bool) -> TopicDeleted:
    by_id = topic.topic_id != ZERO_TOPIC_ID
    if by_id == (topic.name is not None):
        raise BrokerError(
            ErrorCode.INVALID_REQUEST, "A topic is named by its name or by its id, not by both or neither."
        )
    return decide_deletion(
        image,
        name=topic.name,
        topic_id=TopicId(topic.topic_id) if by_id else None,
        delete_enabled=delete_enabled,
    )


def _refuse(result: DeletableTopicResult, error: BrokerError, api_version: int) -> None:
    code = error.code
    if code is ErrorCode.TOPIC_DELETION_DISABLED and api_version < DELETION_DISABLED_SINCE:
        code = ErrorCode.INVALID_REQUEST
    result.error_code = code
    result.error_message = error.message
