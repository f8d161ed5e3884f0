"""DeleteTopics: topics by name, from version 6 also by id; each deleted or refused by itself.

The records are unreachable when the answer leaves; their files are removed behind it. Versions: 1 to 6.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from penstock.broker.request_context import RequestContext
from penstock.core.ids import ZERO_TOPIC_ID, TopicId
from penstock.metadata.image import TopicDeleted
from penstock.metadata.topics import decide_deletion
from penstock.protocol.definitions.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode

if TYPE_CHECKING:
    from penstock.broker.node import Node

TOPIC_IDS_SINCE: Final = 6
DELETION_DISABLED_SINCE: Final = 3


def handle(request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    node = context.node
    if context.api_version >= TOPIC_IDS_SINCE:
        wanted = request.topics
    else:
        wanted = [DeleteTopicState(name=name) for name in request.topic_names]
    times_named = Counter(_key(topic, node) for topic in wanted)
    accepted: list[tuple[TopicDeleted, DeletableTopicResult]] = []
    response = DeleteTopicsResponse()
    for topic in wanted:
        result = DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)
        response.responses.append(result)
        try:
            if times_named[_key(topic, node)] > 1:
                raise BrokerError(ErrorCode.INVALID_REQUEST, "Each topic may be named once only.")
            change = _decide(topic, node)
            accepted.append((change, result))
            image = node.image.topics_by_id[change.topic_id]
            result.name, result.topic_id = image.name, image.topic_id
        except BrokerError as error:
            _refuse(result, error, context.api_version)
    if accepted:
        try:
            node.commit(change for change, _ in accepted)
        except BrokerError as error:
            for _, result in accepted:
                _refuse(result, error, context.api_version)
    return response


def _key(topic: DeleteTopicState, node: Node) -> object:
    """What makes two entries the same topic, whichever way they name it."""
    image = node.image.topics_by_id.get(TopicId(topic.topic_id))
    return image.name if image is not None else (topic.name or topic.topic_id)


def _decide(topic: DeleteTopicState, node: Node) -> TopicDeleted:
    by_id = topic.topic_id != ZERO_TOPIC_ID
    if by_id == (topic.name is not None):
        raise BrokerError(
            ErrorCode.INVALID_REQUEST, "A topic is named by its name or by its id, not by both or neither."
        )
    return decide_deletion(
        node.image,
        name=topic.name,
        topic_id=TopicId(topic.topic_id) if by_id else None,
        delete_enabled=node.config.delete_topic_enable,
    )


def _refuse(result: DeletableTopicResult, error: BrokerError, api_version: int) -> None:
    code = error.code
    if code is ErrorCode.TOPIC_DELETION_DISABLED and api_version < DELETION_DISABLED_SINCE:
        code = ErrorCode.INVALID_REQUEST
    result.error_code = code
    result.error_message = error.message
