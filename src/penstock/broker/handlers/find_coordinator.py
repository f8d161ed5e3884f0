"""FindCoordinator: the broker that coordinates a group or a transactional id: the leader of its partition.

In a cluster the first request creates the coordinators' topic (`__consumer_offsets`, `__transaction_state`), as in
Kafka, and the answer waits until the topic has leaders. A broker on its own will lead every partition of it: it names
itself, and leaves the topic and the coordinator's code to the first request that needs them. Many clients only look:
every consumer with a `group.id` asks, whether or not it ever joins or commits.

Share groups have no coordinator here: INVALID_REQUEST with a message that says so, which clients report at once instead
of searching on. Versions: 0 to 6 (many keys at a time from 4).
"""

from __future__ import annotations

from typing import Final

from penstock.broker.deferred import Barrier, Deferred
from penstock.broker.request_context import RequestContext
from penstock.coordinator.placement import partition_of
from penstock.core.acls import AclOperation, ResourceType
from penstock.core.ids import TopicName
from penstock.metadata.topics import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from penstock.protocol.definitions.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode

MANY_KEYS_SINCE: Final = 4
GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
NO_NODE: Final = -1

_TOPICS: Final = {GROUP: TopicName(GROUP_OFFSETS_TOPIC), TRANSACTION: TopicName(TRANSACTION_STATE_TOPIC)}
_RESOURCES: Final = {GROUP: ResourceType.GROUP, TRANSACTION: ResourceType.TRANSACTIONAL_ID}


def handle(request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse | Deferred:
    many = context.api_version >= MANY_KEYS_SINCE
    keys = request.coordinator_keys if many else [request.key]
    node = context.node
    topic_name = _TOPICS.get(request.key_type)
    if topic_name is None:
        refusal = _no_coordinator(request.key_type)
        return _response([_refused(key, refusal) for key in keys], many)
    may_find = {key: context.access.may(AclOperation.DESCRIBE, _RESOURCES[request.key_type], key) for key in keys}
    if not any(may_find.values()):
        return _response([_forbidden(key, request.key_type) for key in keys], many)
    is_alone = len(node.image.brokers) == 1 and not node.is_clustered
    if topic_name in node.image.topics or is_alone:
        return _response(
            [_found(key, topic_name, context) if may_find[key] else _forbidden(key, request.key_type) for key in keys],
            many,
        )
    answer = Barrier()

    def ensured(error: BrokerError | None) -> None:
        found = [_found(key, topic_name, context) if error is None else _refused(key, error) for key in keys]
        found = [each if may_find[each.key] else _forbidden(each.key, request.key_type) for each in found]
        answer.complete(_response(found, many))

    coordinator = node.groups if request.key_type == GROUP else node.transactions
    coordinator.log.ensure_topic(ensured)
    return answer


def _forbidden(key: str, key_type: int) -> Coordinator:
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    if key_type != GROUP:
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return _refused(key, BrokerError(code))


def _no_coordinator(key_type: int) -> BrokerError:
    if key_type == SHARE:
        return BrokerError(ErrorCode.INVALID_REQUEST, "This broker does not coordinate share groups.")
    return BrokerError(ErrorCode.INVALID_REQUEST, f"There is no kind of coordinator with the number {key_type}.")


def _found(key: str, topic_name: TopicName, context: RequestContext) -> Coordinator:
    node = context.node
    topic = node.image.topics.get(topic_name)
    leader_id = node.broker_id if topic is None else topic.partitions[partition_of(key, len(topic.partitions))].leader
    leader = node.image.brokers.get(leader_id)
    endpoint = None if leader is None else context.endpoint_of(leader)
    if leader is None or endpoint is None:
        text = f"The partition of {topic_name} that is responsible has no leader at present."
        return _refused(key, BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, text))
    return Coordinator(key=key, node_id=leader.broker_id, host=endpoint.host, port=endpoint.port)


def _refused(key: str, error: BrokerError) -> Coordinator:
    return Coordinator(key=key, node_id=NO_NODE, port=NO_NODE, error_code=error.code, error_message=error.message)


def _response(found: list[Coordinator], many: bool) -> FindCoordinatorResponse:
    if many:
        return FindCoordinatorResponse(coordinators=found)
    [only] = found
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )
