"""CreateTopics: new topics, each accepted or refused by itself, all of a request made durable together.

The answer carries what the topic was given (partitions, replicas, effective settings) from version 5, its id from 7.
`timeout_ms` has no effect: the answer leaves when the topics are committed and ready. A client over its
`controller_mutation_rate` (KIP-599) is refused from version 6, and made to wait before. Versions: 2 to 7.
"""

from __future__ import annotations

from typing import Final

from penstock.broker.deferred import Barrier, Deferred
from penstock.broker.request_context import RequestContext
from penstock.broker.topic_creation import CreationResults, create_topics
from penstock.core.acls import AclOperation
from penstock.core.ids import ZERO_TOPIC_ID
from penstock.metadata.changes import TopicImage
from penstock.metadata.config_description import describe_topic
from penstock.metadata.topics import NewTopic
from penstock.protocol.definitions.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode

QUOTA_ERROR_SINCE: Final = 6


def handle(request: CreateTopicsRequest, context: RequestContext) -> Deferred:
    answer = Barrier()
    quota = context.mutation_quota()
    validate_only = request.validate_only

    def created(results: CreationResults) -> None:
        response = CreateTopicsResponse()
        for name, outcome in results.items():
            result = CreatableTopicResult(name=name)
            response.topics.append(result)
            if isinstance(outcome, BrokerError):
                result.error_code = outcome.code
                result.error_message = outcome.message
            elif context.access.may_with_topic(AclOperation.DESCRIBE_CONFIGS, name):
                _describe(outcome, validate_only, context, result)
            else:
                result.topic_id = ZERO_TOPIC_ID if validate_only else outcome.topic_id
                result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        for name in refused:
            failure = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            response.topics.append(CreatableTopicResult(name=name, error_code=failure, error_message=failure.text))
        if quota is not None:
            response.throttle_time_ms = quota.throttle_ms
        answer.complete(response)

    may_create_all = context.access.may_with_cluster(AclOperation.CREATE)
    refused = {
        topic.name
        for topic in request.topics
        if not may_create_all and not context.access.may_with_topic(AclOperation.CREATE, topic.name)
    }
    wanted = [_new_topic(topic) for topic in request.topics if topic.name not in refused]
    admit = None if quota is None else quota.admission(strict=context.api_version >= QUOTA_ERROR_SINCE)
    create_topics(context.node, wanted, created, validate_only=validate_only, admit=admit)
    return answer


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        assignment=[(assigned.partition_index, assigned.broker_ids) for assigned in topic.assignments],
        configs=[(config.name, config.value) for config in topic.configs],
    )


def _describe(topic: TopicImage, validate_only: bool, context: RequestContext, result: CreatableTopicResult) -> None:
    if not validate_only:
        result.topic_id = topic.topic_id
    result.num_partitions = len(topic.partitions)
    result.replication_factor = len(topic.partitions[0].replicas)
    result.configs = [
        CreatableTopicConfigs(
            name=row.name,
            value=row.value,
            read_only=row.read_only,
            config_source=row.source,
            is_sensitive=row.definition.sensitive,
        )
        for row in describe_topic(topic.configs, context.node.config.layers)
    ]
