"""Every API of the router, asked by clients with and without rights: the column `access` and the handlers must agree.

Requests are made from the message definitions, so that an API that is added to the router is tested without further
work: every name in a request is that of a resource which exists, or of one which does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from penstock.broker.access import Grant
from penstock.broker.deferred import Deferred
from penstock.broker.node import Node
from penstock.broker.request_context import RequestContext
from penstock.broker.router import ROUTES, Route
from penstock.core.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclOperation,
    AclPermission,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from penstock.core.credentials import ScramMechanism
from penstock.core.ids import TopicName
from penstock.metadata.broker_config_definitions import STANDARD_AUTHORIZER
from penstock.metadata.changes import AclAdded, AclRemoved, ScramCredentialSet
from penstock.metadata.topics import NewTopic
from penstock.protocol.codec import request_class
from penstock.protocol.definitions.init_producer_id import InitProducerIdRequest
from penstock.protocol.definitions.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.definitions.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.schema import BYTES, RECORDS, STRING, UUID, Field, Struct
from penstock.security.sasl_server import scram_credential
from tests.record_batches import Record, encode_batch
from tests.unit.broker.nodes import FakeConnection, commit_changes, make_topics, node_in

SETTINGS = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:root",
    "transaction.state.log.num.partitions": "2",
    "auto.create.topics.enable": "false",
}
AUTHORIZATION_FAILED = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
BEFORE_AUTHENTICATION = {"ApiVersions", "SaslHandshake", "SaslAuthenticate"}
# They answer with what the client may see, which may be nothing. DescribeCluster names the brokers, as Metadata does.
WITHOUT_REFUSALS = {"ListGroups", "ListTransactions", "DescribeCluster"}
TURNS_OF_THE_LOOP = 20
TESTED = [route for route in ROUTES if route.name not in BEFORE_AUTHENTICATION]


class Names(NamedTuple):
    topic: str
    topic_id: bytes
    group: str
    transactional_id: str
    user: str


ABSENT = Names("nowhere", b"\x07" * 16, "nobodies", "no-transaction", "nobody")
OF_GROUPS = {"group_id", "group_ids", "groups", "groups_names", "coordinator_keys", "key"}
OF_TRANSACTIONS = {"transactional_id", "transactional_ids", "v3_and_below_transactional_id"}
NUMBERS = {
    "acks": -1,
    "resource_type": ResourceType.TOPIC,
    "resource_type_filter": ResourceType.ANY,
    "resource_pattern_type": PatternType.LITERAL,
    "pattern_type_filter": PatternType.ANY,
    "operation": AclOperation.READ,
    "permission_type": AclPermission.ALLOW,
    "num_partitions": 1,
    "replication_factor": 1,
    "endpoint_type": 1,
    "mechanism": ScramMechanism.SCRAM_SHA_256,
    "iterations": 4096,
    "count": 5,
    "response_partition_limit": 100,
    "session_timeout_ms": 10_000,
    "transaction_timeout_ms": 10_000,
    "max_bytes": 1000,
    "partition_max_bytes": 1000,
    "rebalance_timeout_ms": 10_000,
    "retention_time_ms": -1,
}


def filled(struct: type[Struct], version: int, names: Names) -> Any:
    """A request in which every array has one element and every name is one of `names`."""
    values = {}
    for name, field in struct.FIELDS.items():
        if field.exists_in(version) and field.tag is None:
            value = _value(name, field, version, names, struct.__name__)
            if value is not None:
                values[name] = [value] if field.is_array else value
    return struct(**values)


def _value(name: str, field: Field, version: int, names: Names, struct: str) -> Any:
    if isinstance(field.kind, type):
        if name in ("cursor", "owned_partitions") or (name == "topic_partitions" and "Heartbeat" in struct):
            return None
        return filled(field.kind, version, names)
    if field.kind is STRING:
        return _text(name, names, struct)
    if field.kind is UUID:
        return names.topic_id if name == "topic_id" else None
    if field.kind is RECORDS:
        return memoryview(bytearray(encode_batch([Record()])))
    if field.kind is BYTES:
        return b"x" * 32 if name == "salted_password" else b"bytes"
    if name in ("partitions", "partition_indexes"):
        return 0
    return NUMBERS.get(name)


def _text(name: str, names: Names, struct: str) -> str | None:
    if name in OF_GROUPS:
        return names.group
    if name in OF_TRANSACTIONS:
        return names.transactional_id
    if name.endswith("filter"):
        return None
    if name.startswith("principal"):
        return "User:eve"
    if name == "host":
        return "*"
    if "Scram" in struct or struct == "UserName":
        return names.user
    # A topic is named by its name or by its id. Versions that have both fields are asked by name.
    if name in ("name", "topic", "topic_names", "topics", "topic_name", "resource_name", "subscribed_topic_names"):
        return (
            None if struct in ("AlterableConfig", "CreatableTopicConfig", "JoinGroupRequestProtocol") else names.topic
        )
    return None


def by_name(request: Any) -> Any:
    """Where a topic has both a name and an id, only one of them may be given."""
    for topic in getattr(request, "topics", None) or ():
        if getattr(topic, "name", None) and hasattr(topic, "topic_id") and type(topic).__name__ in NAMED_TWICE:
            topic.topic_id = bytes(16)
    return request


WITHOUT_TOPIC = {"AlterableConfig", "CreatableTopicConfig", "JoinGroupRequestProtocol"}
NAMED_TWICE = {"MetadataRequestTopic", "DeleteTopicState"}


def open_request(route: Route, version: int) -> Any:
    """The request that names nothing: where a list may be missing, that asks for everything."""
    cls = request_class(route.api_key)
    return cls(
        **{
            name: None
            for name, field in cls.FIELDS.items()
            if field.is_array and field.exists_in(version) and field.nullable_in(version)
        }
    )


async def ask_as(node: Node, principal: str, route: Route, version: int, request: Any) -> Any:
    """The response, or None while it waits for other clients."""
    connection = FakeConnection(access=node.access_of(principal, "127.0.0.1"))
    answer = route.handle(request, RequestContext(node, version, "test", connection))
    if isinstance(answer, Deferred):
        for _ in range(TURNS_OF_THE_LOOP):
            node.appends.write()
            if answer.done:
                break
            await asyncio.sleep(0)
        else:
            answer.abandon()
            return None
        answer = answer.response
    return answer


def codes(value: Any) -> Iterator[int]:
    for name in value.FIELDS:
        content = getattr(value, name)
        if name.endswith("error_code") and content:
            yield content
        for each in content if isinstance(content, list) else [content]:
            if isinstance(each, Struct):
                yield from codes(each)


def run(directory: Path, scenario: Callable[[Node, Names], Awaitable[None]]) -> None:
    """On a node with a topic, a group, a transactional id, a user and an ACL."""

    async def main() -> None:
        with node_in(directory, SETTINGS) as node:
            make_topics(node, NewTopic("orders", 2, 1))
            names = Names("orders", node.image.topics[TopicName("orders")].topic_id, "billing", "till-7", "alice")
            by_key = {route.api_key: route for route in ROUTES}
            commit = OffsetCommitRequest(
                group_id=names.group,
                topics=[
                    OffsetCommitRequestTopic(
                        name="orders", partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
                    )
                ],
            )
            committed = await ask_as(node, "User:root", by_key[8], 9, commit)
            assert list(codes(committed)) == []
            begun = InitProducerIdRequest(transactional_id=names.transactional_id, transaction_timeout_ms=10_000)
            assert list(codes(await ask_as(node, "User:root", by_key[22], 4, begun))) == []
            alice = scram_credential(ScramMechanism.SCRAM_SHA_256, b"salt", 4096, "secret")
            commit_changes(node, ScramCredentialSet("alice", alice))
            await scenario(node, names)

    asyncio.run(main())


def binding(grant: Grant, principal: str = "User:eve", permission: AclPermission = AclPermission.ALLOW) -> AclBinding:
    name = CLUSTER_NAME if grant.resource is ResourceType.CLUSTER else "*"
    return AclBinding(ResourcePattern(grant.resource, name), principal, "*", grant.operation, permission)


@pytest.mark.parametrize("route", TESTED, ids=lambda route: route.name)
def test_a_client_without_rights_learns_nothing(route: Route, tmp_path: Path) -> None:
    """What exists is refused like what does not, and lists are empty."""

    async def scenario(node: Node, names: Names) -> None:
        for version in range(route.min_version, route.max_version + 1):
            request = by_name(filled(request_class(route.api_key), version, names))
            response = await ask_as(node, "User:eve", route, version, request)
            assert response is not None, f"version {version} waits for something"
            found = set(codes(response))
            assert found <= AUTHORIZATION_FAILED, f"version {version}: {response}"
            assert found or route.name in WITHOUT_REFUSALS, f"version {version}: {response}"
            absent = by_name(filled(request_class(route.api_key), version, ABSENT))
            if names.topic_id.hex() not in str(request).replace("\\x", "") and repr(names.topic_id) not in repr(
                request
            ):
                told = repr(await ask_as(node, "User:eve", route, version, absent))
                for here, nowhere in zip(names, ABSENT, strict=True):
                    told = told.replace(str(nowhere), str(here))
                assert repr(response) == told, f"version {version}"
            everything = repr(await ask_as(node, "User:eve", route, version, open_request(route, version)))
            for name in ("orders", repr(names.topic_id), "billing", "till-7", "alice"):
                assert name not in everything, f"version {version}: {everything}"

    run(tmp_path, scenario)


@pytest.mark.parametrize("route", TESTED, ids=lambda route: route.name)
def test_the_declared_operations_suffice_and_one_less_does_not(route: Route, tmp_path: Path) -> None:
    choices = max(len(requirement.any_of) for requirement in route.access)

    async def scenario(node: Node, names: Names) -> None:
        for choice in range(choices):
            grants = [each.any_of[min(choice, len(each.any_of) - 1)] for each in route.access]
            bindings = list(dict.fromkeys(binding(grant) for grant in grants))
            for number, each in enumerate(bindings):
                commit_changes(node, AclAdded(bytes((number + 1,)) * 16, each))
            for version in range(route.min_version, route.max_version + 1):
                request = by_name(filled(request_class(route.api_key), version, names))
                response = await ask_as(node, "User:eve", route, version, request)
                if response is not None:
                    assert not set(codes(response)) & AUTHORIZATION_FAILED, f"version {version}: {response}"
            for number in range(len(bindings)):
                commit_changes(node, AclRemoved(bytes((number + 1,)) * 16))
            version = route.max_version
            response = await ask_as(
                node, "User:eve", route, version, by_name(filled(request_class(route.api_key), version, names))
            )
            assert response is not None
            assert set(codes(response)) & AUTHORIZATION_FAILED or route.name in WITHOUT_REFUSALS

    run(tmp_path, scenario)


def test_a_topic_that_may_not_be_described_is_left_out_of_metadata(tmp_path: Path) -> None:
    metadata = next(route for route in ROUTES if route.name == "Metadata")

    async def scenario(node: Node, names: Names) -> None:
        make_topics(node, NewTopic("secret", 1, 1))
        read = AclBinding(
            ResourcePattern(ResourceType.TOPIC, "ord", PatternType.PREFIXED),
            "User:eve",
            "*",
            AclOperation.READ,
            AclPermission.ALLOW,
        )
        commit_changes(node, AclAdded(b"1" * 16, read))
        every = await ask_as(
            node, "User:eve", metadata, 9, MetadataRequest(topics=None, include_topic_authorized_operations=True)
        )
        assert [topic.name for topic in every.topics] == ["orders"]
        assert every.topics[0].topic_authorized_operations == 1 << AclOperation.READ | 1 << AclOperation.DESCRIBE
        wanted = [MetadataRequestTopic(name=name) for name in ("orders", "secret", "absent")]
        named = await ask_as(
            node,
            "User:eve",
            metadata,
            10,
            MetadataRequest(
                topics=wanted, include_topic_authorized_operations=True, include_cluster_authorized_operations=True
            ),
        )
        assert [(topic.name, topic.error_code, topic.topic_id == bytes(16)) for topic in named.topics] == [
            ("orders", 0, False),
            ("secret", ErrorCode.TOPIC_AUTHORIZATION_FAILED, True),
            ("absent", ErrorCode.TOPIC_AUTHORIZATION_FAILED, True),
        ]
        assert named.cluster_authorized_operations == 0

    run(tmp_path, scenario)
