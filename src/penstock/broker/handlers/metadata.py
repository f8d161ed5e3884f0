"""Metadata: brokers, and topics with their partitions' leaders. The first thing every client asks.

Brokers are named by the endpoint of the listener that the client itself came in by, as in Kafka. A leader without that
listener is LISTENER_NOT_FOUND from version 6, and LEADER_NOT_AVAILABLE before.

No list of topics asks for all of them; in version 0, where a list cannot be missing, an empty one does. Topics can be
named by id from version 12 (versions 10 and 11 have the field, and Kafka refuses it there).

A topic that does not exist is created if the client allows it (always before version 4) and `auto.create.topics.enable`
is on. Where Kafka answers LEADER_NOT_AVAILABLE until the creation is through, the topic here is ready with the answer.
The internal topics are left to the coordinators that own them. Versions: 0 to 13.

A broker whose session may have ended hangs up: what it knows may be old, and a client that has no other connection
would ask it again and again while other brokers lead its partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.broker.access import Access
from penstock.broker.authorized_operations import NOT_ASKED_FOR, cluster_operations, topic_operations
from penstock.broker.deferred import Barrier, Deferred
from penstock.broker.presence import offline_replicas
from penstock.broker.request_context import RequestContext
from penstock.broker.topic_creation import CreationResults, create_topics
from penstock.core.acls import AclOperation
from penstock.core.errors import ProtocolError
from penstock.core.ids import ZERO_TOPIC_ID, TopicId, TopicName
from penstock.metadata.changes import PartitionImage, TopicImage
from penstock.metadata.image import ClusterImage
from penstock.metadata.topics import NewTopic, is_internal, validate_topic_name
from penstock.protocol.definitions.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode

if TYPE_CHECKING:
    from penstock.broker.node import Node

MISSING_LIST_SINCE: Final = 1
LISTENER_ERROR_SINCE: Final = 6
TOPIC_IDS_SINCE: Final = 12


def handle(request: MetadataRequest, context: RequestContext) -> MetadataResponse | Deferred:
    if context.node.is_fenced:
        raise ProtocolError("the session of this broker may have ended; clients ask another one")
    missing = _to_create(request, context.node, context.access)
    if not missing:
        return _answer(request, context, {})
    answer = Barrier()

    def created(results: CreationResults) -> None:
        answer.complete(_answer(request, context, results))

    create_topics(context.node, [NewTopic(name) for name in missing], created)
    return answer


def _answer(request: MetadataRequest, context: RequestContext, creations: CreationResults) -> MetadataResponse:
    image = context.node.image
    brokers = [
        MetadataResponseBroker(node_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
        for broker, endpoint in image.endpoints(context.connection.listener_name)
    ]
    cluster = _Cluster(context.node, frozenset(broker.node_id for broker in brokers), context.api_version)
    response = MetadataResponse(
        brokers=brokers,
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
    )
    access = context.access
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(access)
    if request.topics is None or (not request.topics and context.api_version < MISSING_LIST_SINCE):
        response.topics = [
            _described(topic, cluster)
            for topic in image.topics.values()
            if access.may_with_topic(AclOperation.DESCRIBE, topic.name)
        ]
        _report_operations(request, response, access)
        return response
    for wanted in _without_repetitions(request.topics):
        try:
            if wanted.name is not None:
                access.check_topic(AclOperation.DESCRIBE, wanted.name)
            topic = _find(wanted, image, creations, context.api_version)
            access.check_topic(AclOperation.DESCRIBE, topic.name)
            response.topics.append(_described(topic, cluster))
        except BrokerError as error:
            response.topics.append(
                MetadataResponseTopic(
                    error_code=error.code,
                    name=_answered_name(wanted, context.api_version),
                    topic_id=wanted.topic_id,
                    is_internal=wanted.name is not None and is_internal(wanted.name),
                )
            )
    _report_operations(request, response, access)
    return response


def _report_operations(request: MetadataRequest, response: MetadataResponse, access: Access) -> None:
    for topic in response.topics:
        asked = request.include_topic_authorized_operations and not topic.error_code and topic.name is not None
        topic.topic_authorized_operations = topic_operations(access, topic.name or "") if asked else NOT_ASKED_FOR


def _may_create(access: Access, name: str) -> bool:
    """A client that may not create the topic is told so, but only if it may know of it."""
    return access.may_with_topic(AclOperation.DESCRIBE, name) and (
        access.may_with_cluster(AclOperation.CREATE) or access.may_with_topic(AclOperation.CREATE, name)
    )


def _to_create(request: MetadataRequest, node: Node, access: Access) -> list[str]:
    """The topics that do not exist and that this request may create."""
    if not (request.allow_auto_topic_creation and node.config.auto_create_topics_enable):
        return []
    return sorted(
        {
            topic.name
            for topic in request.topics or ()
            if topic.name is not None
            and topic.name not in node.image.topics
            and not is_internal(topic.name)
            and _may_create(access, topic.name)
        }
    )


def _without_repetitions(topics: list[MetadataRequestTopic]) -> list[MetadataRequestTopic]:
    """A topic that is asked for twice is answered once, so that a small request cannot cause a huge answer."""
    return list({(topic.name, topic.topic_id): topic for topic in topics}.values())


def _find(
    wanted: MetadataRequestTopic, image: ClusterImage, creations: CreationResults, api_version: int
) -> TopicImage:
    if api_version < TOPIC_IDS_SINCE and (wanted.name is None or wanted.topic_id != ZERO_TOPIC_ID):
        raise BrokerError(ErrorCode.INVALID_REQUEST)
    if wanted.topic_id != ZERO_TOPIC_ID:
        topic = image.topics_by_id.get(TopicId(wanted.topic_id))
        if topic is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_ID)
        return topic
    if wanted.name is None:
        raise BrokerError(ErrorCode.INVALID_REQUEST)
    topic = image.topics.get(TopicName(wanted.name))
    if topic is not None:
        return topic
    refusal = creations.get(wanted.name)
    if isinstance(refusal, BrokerError):
        raise BrokerError(refusal.code, refusal.message)
    validate_topic_name(wanted.name)
    raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _answered_name(wanted: MetadataRequestTopic, api_version: int) -> str | None:
    """Before version 12 a name cannot be null on the wire."""
    return wanted.name if api_version >= TOPIC_IDS_SINCE else wanted.name or ""


class _Cluster(NamedTuple):
    """The cluster as one client sees it: it reaches the brokers that have its listener."""

    node: Node
    reachable: frozenset[int]
    api_version: int

    def leader_error(self, leader: int) -> ErrorCode:
        if leader in self.reachable:
            return ErrorCode.NONE
        if leader in self.node.image.brokers and self.api_version >= LISTENER_ERROR_SINCE:
            return ErrorCode.LISTENER_NOT_FOUND
        return ErrorCode.LEADER_NOT_AVAILABLE


def _described(topic: TopicImage, cluster: _Cluster) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic.name),
        partitions=[_described_partition(topic.name, partition, cluster) for partition in topic.partitions],
    )


def _described_partition(topic: str, partition: PartitionImage, cluster: _Cluster) -> MetadataResponsePartition:
    error = cluster.leader_error(partition.leader)
    return MetadataResponsePartition(
        error_code=error,
        partition_index=partition.index,
        leader_id=-1 if error else partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=offline_replicas(cluster.node, topic, partition),
    )
