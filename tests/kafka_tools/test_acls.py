"""kafka-acls against this broker: add, list and remove; literal and prefixed patterns; allow and deny."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.kafka_tools.tools import BrokerTools

pytestmark = pytest.mark.clients

Listed = dict[tuple[str, str, str], set[tuple[str, str, str, str]]]


def acls(output: str) -> Listed:
    """Principal, host, operation and permission, by resource type, name and pattern type."""
    found: Listed = {}
    for line in output.splitlines():
        if resource := re.search(r"resourceType=(\w+), name=(\S+), patternType=(\w+)", line):
            current = found.setdefault((resource[1], resource[2], resource[3]), set())
        if acl := re.search(r"principal=(\S+), host=(\S+), operation=(\w+), permissionType=(\w+)", line):
            current.add((acl[1], acl[2], acl[3], acl[4]))
    return found


@pytest.fixture(autouse=True)
def _no_acls_remain(tools: BrokerTools) -> Iterator[None]:
    yield
    tools.run("kafka-acls", "--remove", "--topic", "orders", "--resource-pattern-type", "match", "--force")
    tools.run("kafka-acls", "--remove", "--group", "billing", "--transactional-id", "tx", "--cluster", "--force")
    assert tools.run("kafka-acls", "--list").strip() == ""


def test_literal_and_prefixed_patterns(tools: BrokerTools) -> None:
    tools.run("kafka-acls", "--add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders")
    tools.run("kafka-acls", "--add", "--deny-principal", "User:eve", "--deny-host", "10.0.0.1", "--operation", "All",
              "--topic", "ord", "--resource-pattern-type", "prefixed")  # fmt: skip
    literal = ("TOPIC", "orders", "LITERAL")
    prefixed = ("TOPIC", "ord", "PREFIXED")
    alice = ("User:alice", "*", "READ", "ALLOW")
    eve = ("User:eve", "10.0.0.1", "ALL", "DENY")
    assert acls(tools.run("kafka-acls", "--list")) == {literal: {alice}, prefixed: {eve}}
    assert acls(tools.run("kafka-acls", "--list", "--topic", "orders")) == {literal: {alice}}
    matching = tools.run("kafka-acls", "--list", "--topic", "orders", "--resource-pattern-type", "match")
    assert acls(matching) == {literal: {alice}, prefixed: {eve}}
    assert acls(tools.run("kafka-acls", "--list", "--principal", "User:eve")) == {prefixed: {eve}}

    tools.run("kafka-acls", "--remove", "--topic", "orders", "--force")
    assert acls(tools.run("kafka-acls", "--list")) == {prefixed: {eve}}
    tools.run("kafka-acls", "--remove", "--topic", "ord", "--resource-pattern-type", "prefixed",
              "--deny-principal", "User:eve", "--deny-host", "10.0.0.1", "--operation", "All", "--force")  # fmt: skip
    assert acls(tools.run("kafka-acls", "--list")) == {}


def test_the_roles_of_producers_and_consumers(tools: BrokerTools) -> None:
    tools.run("kafka-acls", "--add", "--allow-principal", "User:bob", "--producer", "--topic", "orders",
              "--transactional-id", "tx", "--idempotent")  # fmt: skip
    tools.run("kafka-acls", "--add", "--allow-principal", "User:carol", "--allow-principal", "User:dave",
              "--consumer", "--topic", "orders", "--group", "billing")  # fmt: skip

    def allowed(user: str, *operations: str) -> set[tuple[str, str, str, str]]:
        return {(f"User:{user}", "*", operation, "ALLOW") for operation in operations}

    readers = allowed("carol", "READ", "DESCRIBE") | allowed("dave", "READ", "DESCRIBE")
    assert acls(tools.run("kafka-acls", "--list")) == {
        ("TOPIC", "orders", "LITERAL"): allowed("bob", "WRITE", "DESCRIBE", "CREATE") | readers,
        ("TRANSACTIONAL_ID", "tx", "LITERAL"): allowed("bob", "WRITE", "DESCRIBE"),
        ("CLUSTER", "kafka-cluster", "LITERAL"): allowed("bob", "IDEMPOTENT_WRITE"),
        ("GROUP", "billing", "LITERAL"): allowed("carol", "READ") | allowed("dave", "READ"),
    }
