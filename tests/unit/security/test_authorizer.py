"""Kafka's rules for ACLs, one test each; `tests/property/test_authorizer.py` combines them."""

from __future__ import annotations

import pytest

from penstock.core.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourcePattern, ResourceType
from penstock.security.authorizer import Authorizer, Client

ALICE = Client("User:alice", "10.0.0.1")
TOPIC = ResourceType.TOPIC


def acl(
    name: str,
    operation: AclOperation = AclOperation.READ,
    *,
    deny: bool = False,
    principal: str = "User:alice",
    host: str = "*",
    prefixed: bool = False,
) -> AclBinding:
    pattern = ResourcePattern(TOPIC, name, PatternType.PREFIXED if prefixed else PatternType.LITERAL)
    return AclBinding(pattern, principal, host, operation, AclPermission.DENY if deny else AclPermission.ALLOW)


def may(
    *acls: AclBinding, operation: AclOperation = AclOperation.READ, name: str = "orders", client: Client = ALICE
) -> bool:
    return Authorizer(acls).authorize(client, operation, TOPIC, name)


def test_nothing_is_allowed_without_an_acl() -> None:
    assert not may()


def test_literal_prefixed_and_wildcard_patterns() -> None:
    assert may(acl("orders"))
    assert not may(acl("order"))
    assert may(acl("order", prefixed=True))
    assert may(acl("orders", prefixed=True))
    assert not may(acl("orders-eu", prefixed=True))
    assert may(acl("*"))
    assert not may(acl("*", prefixed=True)), "only a literal * is a wildcard"


def test_a_deny_wins_however_it_is_written() -> None:
    for denial in (
        acl("orders", deny=True),
        acl("*", deny=True),
        acl("o", deny=True, prefixed=True),
        acl("orders", AclOperation.ALL, deny=True),
        acl("orders", deny=True, principal="User:*"),
        acl("orders", deny=True, host="10.0.0.1"),
    ):
        assert not may(acl("orders"), denial)
        assert not may(denial, acl("orders", AclOperation.ALL, principal="User:*"))


def test_a_deny_for_others_does_not_count() -> None:
    for denial in (
        acl("orders", deny=True, principal="User:bob"),
        acl("orders", deny=True, host="10.0.0.2"),
        acl("orders", AclOperation.WRITE, deny=True),
        acl("payments", deny=True),
    ):
        assert may(acl("orders"), denial)


@pytest.mark.parametrize("operation", [AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER])
def test_operations_that_imply_describe(operation: AclOperation) -> None:
    assert may(acl("orders", operation), operation=AclOperation.DESCRIBE)
    assert may(
        acl("orders", AclOperation.DESCRIBE), acl("orders", operation, deny=True), operation=AclOperation.DESCRIBE
    )


def test_operations_that_imply_nothing() -> None:
    assert not may(acl("orders", AclOperation.CREATE), operation=AclOperation.DESCRIBE)
    assert not may(acl("orders", AclOperation.DESCRIBE), operation=AclOperation.READ)
    assert may(acl("orders", AclOperation.ALTER_CONFIGS), operation=AclOperation.DESCRIBE_CONFIGS)
    assert not may(acl("orders", AclOperation.ALTER), operation=AclOperation.DESCRIBE_CONFIGS)


def test_principals_and_hosts() -> None:
    assert may(acl("orders", principal="User:*"))
    assert not may(acl("orders", principal="User:Alice"))
    assert not may(acl("orders", principal="Group:*"))
    assert may(acl("orders", host="10.0.0.1"))
    assert not may(acl("orders", host="10.0.0.2"))


def test_super_users_may_do_everything() -> None:
    authorizer = Authorizer([acl("*", AclOperation.ALL, deny=True)], super_users=["User:alice"])
    assert authorizer.authorize(ALICE, AclOperation.DELETE, TOPIC, "orders")
    assert authorizer.authorize_any(ALICE, AclOperation.DELETE, TOPIC)
    assert not authorizer.authorize(Client("User:bob", "10.0.0.1"), AclOperation.READ, TOPIC, "orders")


def test_allow_everyone_holds_only_for_resources_without_any_acl() -> None:
    authorizer = Authorizer([acl("orders", principal="User:bob")], allow_everyone_if_no_acl_found=True)
    assert authorizer.authorize(ALICE, AclOperation.READ, TOPIC, "payments")
    assert not authorizer.authorize(ALICE, AclOperation.READ, TOPIC, "orders"), "it has an ACL, for somebody else"
    assert authorizer.authorize(ALICE, AclOperation.READ, ResourceType.GROUP, "orders")


def test_a_removed_acl_counts_no_longer() -> None:
    authorizer = Authorizer([acl("order", prefixed=True), acl("order", AclOperation.WRITE, prefixed=True)])
    before = authorizer.version
    authorizer.remove(acl("order", prefixed=True))
    assert authorizer.version > before
    assert not authorizer.authorize(ALICE, AclOperation.READ, TOPIC, "orders")
    assert authorizer.authorize(ALICE, AclOperation.WRITE, TOPIC, "orders")
    authorizer.remove(acl("order", AclOperation.WRITE, prefixed=True))
    authorizer.remove(acl("never added"))
    assert not authorizer.authorize(ALICE, AclOperation.WRITE, TOPIC, "orders")


def test_any_topic() -> None:
    def may_write_any(*acls: AclBinding) -> bool:
        return Authorizer(acls).authorize_any(ALICE, AclOperation.WRITE, TOPIC)

    write = AclOperation.WRITE
    assert not may_write_any()
    assert may_write_any(acl("orders", write))
    assert not may_write_any(acl("orders", write), acl("*", write, deny=True))
    assert not may_write_any(acl("orders", write), acl("ord", write, deny=True, prefixed=True))
    assert may_write_any(acl("*", write), acl("ord", write, deny=True, prefixed=True))
    assert may_write_any(acl("ord", write, prefixed=True), acl("orders", write, deny=True))
