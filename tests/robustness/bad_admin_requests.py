"""Bad requests to the APIs that administer topics and configurations, with Kafka's code for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from penstock.protocol.definitions import alter_configs, incremental_alter_configs
from penstock.protocol.definitions.api_versions import ApiVersionsRequest
from penstock.protocol.definitions.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from penstock.protocol.definitions.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
)
from penstock.protocol.definitions.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.definitions.describe_cluster import DescribeClusterRequest
from penstock.protocol.definitions.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from penstock.protocol.definitions.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    RequestCursor,
    TopicRequest,
)
from penstock.protocol.definitions.find_coordinator import FindCoordinatorRequest
from penstock.protocol.definitions.list_config_resources import ListConfigResourcesRequest
from penstock.protocol.definitions.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.error_codes import ErrorCode as E
from tests.robustness.bad_requests import OK, Case, Outcome, Target, code_of

TOPIC: Final = 2
BROKER: Final = 4
SET, DELETE, APPEND, SUBTRACT = range(4)
UNKNOWN_ID: Final = b"no topic has this"[:16]

Ask = Callable[[Target], Outcome]


def _topic(name: str, partitions: int = 1, replicas: int = 1, **fields: Any) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, **fields)


def _create(partitions: int = 1, replicas: int = 1, *, name: str | None = None, **fields: Any) -> Ask:
    return lambda t: t.create(_topic(t.new_name() if name is None else name, partitions, replicas, **fields))


def _with_config(*configs: tuple[str, str | None]) -> Ask:
    return _create(configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs])


def _assigned(*replicas: tuple[int, list[int]], partitions: int = -1) -> Ask:
    assignments = [CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in replicas]
    return _create(partitions, -1, assignments=assignments)


def _twice(target: Target) -> Outcome:
    name = target.new_name()
    return target.create(_topic(name), _topic(name))


def _colliding(target: Target) -> Outcome:
    name = target.new_name()
    assert target.create(_topic(f"{name}.x"), validate_only=False) == OK
    return target.create(_topic(f"{name}_x"))


INVALID_NAMES: Final = {
    "empty": "",
    "a dot": ".",
    "two dots": "..",
    "250 characters": "x" * 250,
    "a space": "a b",
    "a slash": "a/b",
    "an umlaut": "ä",
    "a NUL": "a\0b",
}
CREATE_CASES: Final = (
    Case("create: nothing wrong", _create(), OK),
    *(
        Case(f"create: name is {how}", _create(name=name), E.INVALID_TOPIC_EXCEPTION)
        for how, name in INVALID_NAMES.items()
    ),
    Case("create: 249 characters", _create(name="x" * 249), OK),
    Case("create: exists", lambda t: t.create(_topic(t.topic)), E.TOPIC_ALREADY_EXISTS),
    Case("create: twice in one request", _twice, E.INVALID_REQUEST),
    Case("create: differs in . and _ only", _colliding, E.INVALID_TOPIC_EXCEPTION),
    Case("create: the cluster's metadata", _create(name="__cluster_metadata"), E.INVALID_REQUEST),
    Case("create: 0 partitions", _create(0), E.INVALID_PARTITIONS),
    Case("create: -2 partitions", _create(-2), E.INVALID_PARTITIONS),
    Case("create: 10,001 partitions", _create(10_001), E.POLICY_VIOLATION),
    Case("create: 2^31-1 partitions", _create(2**31 - 1), E.POLICY_VIOLATION),
    Case("create: 2 replicas of 1 broker", _create(1, 2), E.INVALID_REPLICATION_FACTOR),
    Case("create: 0 replicas", _create(1, 0), E.INVALID_REPLICATION_FACTOR),
    Case("create: -2 replicas", _create(1, -2), E.INVALID_REPLICATION_FACTOR),
    Case("create: assigned and counted", _assigned((0, [1]), partitions=1), E.INVALID_REQUEST),
    Case("create: assigned to broker 9", _assigned((0, [9])), E.INVALID_REPLICA_ASSIGNMENT),
    Case("create: assigned to nobody", _assigned((0, [])), E.INVALID_REPLICA_ASSIGNMENT),
    Case("create: assigned twice to one", _assigned((0, [1, 1])), E.INVALID_REPLICA_ASSIGNMENT),
    Case("create: assigned without partition 0", _assigned((1, [1])), E.INVALID_REPLICA_ASSIGNMENT),
    Case("create: partition 0 assigned twice", _assigned((0, [1]), (0, [1])), E.INVALID_REPLICA_ASSIGNMENT),
    Case("create: unknown setting", _with_config(("retention.mss", "1")), E.INVALID_CONFIG),
    Case("create: empty setting name", _with_config(("", "1")), E.INVALID_CONFIG),
    Case("create: setting is no number", _with_config(("retention.ms", "soon")), E.INVALID_CONFIG),
    Case("create: setting out of range", _with_config(("segment.bytes", "-1")), E.INVALID_CONFIG),
    Case("create: setting is no choice", _with_config(("cleanup.policy", "burn")), E.INVALID_CONFIG),
    Case("create: setting is null", _with_config(("retention.ms", None)), E.INVALID_CONFIG),
)


def _delete(*topics: tuple[str | None, bytes]) -> Ask:
    states = [DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in topics]
    return lambda t: code_of(t.ask(DeleteTopicsRequest(topics=states, timeout_ms=5000), 6), ("responses",))


def _delete_twice(target: Target) -> Outcome:
    name, _ = target.new_topic()
    request = DeleteTopicsRequest(topic_names=[name, name], timeout_ms=5000)
    return code_of(target.ask(request, 5), ("responses",))


def _delete_by_both(target: Target) -> Outcome:
    state = DeleteTopicState(name=target.topic, topic_id=target.topic_id)
    return code_of(target.ask(DeleteTopicsRequest(topics=[state], timeout_ms=5000), 6), ("responses",))


def _grow(count: int, *, assignments: list[list[int]] | None = None, topic: str | None = None, times: int = 1) -> Ask:
    def ask(target: Target) -> Outcome:
        name = target.new_topic(partitions=3)[0] if topic is None else topic
        wanted = CreatePartitionsTopic(
            name=name,
            count=count,
            assignments=None
            if assignments is None
            else [CreatePartitionsAssignment(broker_ids=broker_ids) for broker_ids in assignments],
        )
        request = CreatePartitionsRequest(topics=[wanted] * times, timeout_ms=5000)
        return code_of(target.ask(request, 3), ("results",))

    return ask


TOPIC_CASES: Final = (
    Case("delete: unknown", _delete(("unknown", bytes(16))), E.UNKNOWN_TOPIC_OR_PARTITION),
    Case("delete: unknown id", _delete((None, UNKNOWN_ID)), E.UNKNOWN_TOPIC_ID),
    Case("delete: neither name nor id", _delete((None, bytes(16))), E.INVALID_REQUEST),
    Case("delete: name and id", _delete_by_both, E.INVALID_REQUEST),
    Case("delete: twice in one request", _delete_twice, E.INVALID_REQUEST),
    Case("grow: nothing wrong", _grow(4), OK),
    Case("grow: fewer", _grow(2), E.INVALID_PARTITIONS),
    Case("grow: as many", _grow(3), E.INVALID_PARTITIONS),
    Case("grow: to -1", _grow(-1), E.INVALID_PARTITIONS),
    Case("grow: to 2^31-1", _grow(2**31 - 1), E.POLICY_VIOLATION),
    Case("grow: unknown topic", _grow(4, topic="unknown"), E.UNKNOWN_TOPIC_OR_PARTITION),
    Case("grow: twice in one request", _grow(4, times=2), E.INVALID_REQUEST),
    Case("grow: one assignment for two", _grow(5, assignments=[[1]]), E.INVALID_REPLICA_ASSIGNMENT),
    Case("grow: assigned to broker 9", _grow(4, assignments=[[9]]), E.INVALID_REPLICA_ASSIGNMENT),
    Case("grow: assigned to nobody", _grow(4, assignments=[[]]), E.INVALID_REPLICA_ASSIGNMENT),
)


def _described(kind: int, name: str | None = None) -> Ask:
    return lambda t: code_of(
        t.ask(
            DescribeConfigsRequest(
                resources=[DescribeConfigsResource(resource_type=kind, resource_name=t.topic if name is None else name)]
            ),
            4,
        ),
        ("results",),
    )


def _altered(kind: int, *configs: tuple[str, int, str | None], name: str | None = None, times: int = 1) -> Ask:
    def ask(target: Target) -> Outcome:
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=kind,
            resource_name=target.topic if name is None else name,
            configs=[
                incremental_alter_configs.AlterableConfig(name=key, config_operation=operation, value=value)
                for key, operation, value in configs
            ],
        )
        request = incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=[resource] * times, validate_only=True
        )
        return code_of(target.ask(request, 1), ("responses",))

    return ask


def _replaced(kind: int, *configs: tuple[str, str | None], name: str | None = None) -> Ask:
    def ask(target: Target) -> Outcome:
        resource = alter_configs.AlterConfigsResource(
            resource_type=kind,
            resource_name=target.topic if name is None else name,
            configs=[alter_configs.AlterableConfig(name=key, value=value) for key, value in configs],
        )
        request = alter_configs.AlterConfigsRequest(resources=[resource], validate_only=True)
        return code_of(target.ask(request, 2), ("responses",))

    return ask


CONFIG_CASES: Final = (
    Case("configs: unknown topic", _described(TOPIC, "unknown"), E.UNKNOWN_TOPIC_OR_PARTITION),
    Case("configs: invalid topic", _described(TOPIC, "a b"), E.INVALID_TOPIC_EXCEPTION),
    Case("configs: empty topic", _described(TOPIC, ""), E.INVALID_TOPIC_EXCEPTION),
    Case("configs: broker 9", _described(BROKER, "9"), E.INVALID_REQUEST),
    Case("configs: broker x", _described(BROKER, "x"), E.INVALID_REQUEST),
    Case("configs: kind 3", _described(3), E.INVALID_REQUEST),
    Case("configs: kind 0", _described(0), E.INVALID_REQUEST),
    Case("alter: nothing wrong", _altered(TOPIC, ("retention.ms", SET, "5")), OK),
    Case("alter: unknown setting", _altered(TOPIC, ("retention.mss", SET, "5")), E.INVALID_CONFIG),
    Case("alter: is no number", _altered(TOPIC, ("retention.ms", SET, "x")), E.INVALID_CONFIG),
    Case("alter: out of range", _altered(TOPIC, ("min.insync.replicas", SET, "0")), E.INVALID_CONFIG),
    Case("alter: set to null", _altered(TOPIC, ("retention.ms", SET, None)), E.INVALID_REQUEST),
    Case("alter: append null", _altered(TOPIC, ("cleanup.policy", APPEND, None)), E.INVALID_REQUEST),
    Case("alter: append to a number", _altered(TOPIC, ("retention.ms", APPEND, "5")), E.INVALID_CONFIG),
    Case("alter: append an unknown choice", _altered(TOPIC, ("cleanup.policy", APPEND, "burn")), E.INVALID_CONFIG),
    Case("alter: operation 9", _altered(TOPIC, ("retention.ms", 9, "5")), E.INVALID_REQUEST),
    Case(
        "alter: a setting twice",
        _altered(TOPIC, ("retention.ms", SET, "5"), ("retention.ms", SET, "6")),
        E.INVALID_REQUEST,
    ),
    Case("alter: a resource twice", _altered(TOPIC, ("retention.ms", SET, "5"), times=2), E.INVALID_REQUEST),
    Case(
        "alter: unknown topic",
        _altered(TOPIC, ("retention.ms", SET, "5"), name="unknown"),
        E.UNKNOWN_TOPIC_OR_PARTITION,
    ),
    Case("alter: invalid topic", _altered(TOPIC, ("retention.ms", SET, "5"), name="a b"), E.INVALID_TOPIC_EXCEPTION),
    Case("alter: empty topic", _altered(TOPIC, ("retention.ms", SET, "5"), name=""), E.INVALID_REQUEST),
    Case("alter: kind 3", _altered(3, ("retention.ms", SET, "5")), E.INVALID_REQUEST),
    Case("alter: broker 9", _altered(BROKER, ("log.retention.ms", SET, "5"), name="9"), E.INVALID_REQUEST),
    Case("alter: a broker's read-only setting", _altered(BROKER, ("node.id", SET, "5"), name="1"), E.INVALID_REQUEST),
    Case(
        "alter: a broker's setting is no number",
        _altered(BROKER, ("log.retention.ms", SET, "x"), name="1"),
        E.INVALID_REQUEST,
    ),
    Case("replace: nothing wrong", _replaced(TOPIC, ("retention.ms", "5")), OK),
    Case("replace: unknown setting", _replaced(TOPIC, ("retention.mss", "5")), E.INVALID_CONFIG),
    Case("replace: is no number", _replaced(TOPIC, ("retention.ms", "x")), E.INVALID_CONFIG),
    Case("replace: null", _replaced(TOPIC, ("retention.ms", None)), E.INVALID_REQUEST),
    Case("replace: empty topic", _replaced(TOPIC, name=""), E.INVALID_REQUEST),
    Case("replace: unknown topic", _replaced(TOPIC, name="unknown"), E.UNKNOWN_TOPIC_OR_PARTITION),
    Case(
        "list config resources: kind 99",
        lambda t: code_of(t.ask(ListConfigResourcesRequest(resource_types=[99]), 1), ()),
        E.UNSUPPORTED_VERSION,
    ),
)


def _metadata(name: str | None, topic_id: bytes = bytes(16), version: int = 12) -> Ask:
    wanted = MetadataRequestTopic(name=name, topic_id=topic_id)
    request = MetadataRequest(topics=[wanted], allow_auto_topic_creation=False)
    return lambda t: code_of(t.ask(request, version), ("topics",))


def _cluster(endpoint_type: int) -> Ask:
    return lambda t: code_of(t.ask(DescribeClusterRequest(endpoint_type=endpoint_type), 1), ())


def _pages(name: str | None, *, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Ask:
    def ask(target: Target) -> Outcome:
        topics = [TopicRequest(name=target.topic if name is None else name)]
        request = DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit)
        if cursor is not None:
            request.cursor = RequestCursor(topic_name=cursor[0], partition_index=cursor[1])
        return code_of(target.ask(request, 0), ("topics",))

    return ask


def _coordinator(key_type: int, key: str = "g") -> Ask:
    return lambda t: code_of(
        t.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]), 4), ("coordinators",)
    )


def _software(name: str, version: str) -> Ask:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    return lambda t: code_of(t.ask(request, 3), ())


CLUSTER_CASES: Final = (
    Case("metadata: unknown topic", _metadata("unknown"), E.UNKNOWN_TOPIC_OR_PARTITION),
    Case("metadata: invalid topic", _metadata("a b"), E.INVALID_TOPIC_EXCEPTION),
    Case("metadata: empty topic", _metadata(""), E.INVALID_TOPIC_EXCEPTION),
    Case("metadata: unknown id", _metadata(None, UNKNOWN_ID), E.UNKNOWN_TOPIC_ID),
    Case("cluster: endpoint of the controllers", _cluster(2), E.MISMATCHED_ENDPOINT_TYPE),
    Case("cluster: endpoint 9", _cluster(9), E.UNSUPPORTED_ENDPOINT_TYPE),
    Case("pages: unknown topic", _pages("unknown"), E.UNKNOWN_TOPIC_OR_PARTITION),
    Case("pages: invalid topic", _pages("a b"), E.INVALID_TOPIC_EXCEPTION),
    Case("pages: none allowed", _pages(None, limit=0), OK),
    Case("pages: cursor at partition -1", _pages("unknown", cursor=("unknown", -1)), E.INVALID_REQUEST),
    Case("coordinator: kind 9", _coordinator(9), E.INVALID_REQUEST),
    Case("api versions: software has no name", _software("", "1"), E.INVALID_REQUEST),
    Case("api versions: software has a blank", _software("a b", "1"), E.INVALID_REQUEST),
    Case("api versions: version ends in a dash", _software("a", "1-"), E.INVALID_REQUEST),
)
