from __future__ import annotations

from penstock.connect.connectors.mirror.remote_acls import copied_acls
from penstock.core.acls import AclBinding, AclOperation, AclPermission, ResourcePattern, ResourceType


def acl(topic: str, operation: AclOperation, permission: AclPermission = AclPermission.ALLOW) -> AclBinding:
    return AclBinding(ResourcePattern(ResourceType.TOPIC, topic), "User:ann", "*", operation, permission)


def copies(*bindings: AclBinding) -> list[AclBinding]:
    return list(copied_acls(bindings, lambda topic: f"a.{topic}" if topic != "private" else None))


def test_rights_to_read_go_with_the_topic_and_rights_to_write_do_not() -> None:
    read, write, all_ = AclOperation.READ, AclOperation.WRITE, AclOperation.ALL
    assert copies(acl("orders", read), acl("orders", write), acl("items", all_)) == [
        acl("a.orders", read),
        acl("a.items", read),
    ]


def test_what_is_denied_stays_denied() -> None:
    denied = AclPermission.DENY
    assert copies(acl("orders", AclOperation.WRITE, denied), acl("orders", AclOperation.ALL, denied)) == [
        acl("a.orders", AclOperation.WRITE, denied),
        acl("a.orders", AclOperation.ALL, denied),
    ]


def test_acls_of_all_topics_and_of_topics_that_are_not_replicated_are_left() -> None:
    assert copies(acl("*", AclOperation.READ), acl("private", AclOperation.READ)) == []
