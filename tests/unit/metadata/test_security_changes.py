"""Decisions about ACLs and users."""

from __future__ import annotations

import itertools

import pytest

from penstock.core.acls import AclBinding, AclOperation, AclPermission, ResourcePattern, ResourceType
from penstock.core.credentials import ScramCredential, ScramMechanism
from penstock.metadata import acl_changes, user_changes
from penstock.metadata.acl_changes import add_acls, matching_acls, remove_acls
from penstock.metadata.changes import DurableChange, ScramCredentialRemoved, ScramCredentialSet
from penstock.metadata.image import ClusterImage
from penstock.metadata.user_changes import Alteration, alter_users
from penstock.protocol.error_codes import BrokerError, ErrorCode

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
SECRET = ScramCredential(SHA_256, 4096, b"salt", b"stored", b"server")
IDS = (number.to_bytes(16, "big") for number in itertools.count(1))


def acl(name: str) -> AclBinding:
    pattern = ResourcePattern(ResourceType.TOPIC, name)
    return AclBinding(pattern, "User:alice", "*", AclOperation.READ, AclPermission.ALLOW)


def image_with(*changes: DurableChange) -> ClusterImage:
    image = ClusterImage("cluster")
    for change in changes:
        image.apply(change)
    return image


def test_only_new_acls_are_added_and_each_once() -> None:
    image = image_with(*add_acls(ClusterImage("cluster"), [acl("orders")], lambda: next(IDS)))
    added = add_acls(image, [acl("payments"), acl("orders"), acl("payments")], lambda: next(IDS))
    assert [change.binding for change in added] == [acl("payments")]


def test_an_acl_that_two_filters_match_is_removed_once() -> None:
    image = image_with(*add_acls(ClusterImage("cluster"), [acl("orders"), acl("payments")], lambda: next(IDS)))
    matched = matching_acls(image, lambda binding: binding.pattern.name == "orders")
    removed = remove_acls(image, [*matched, *matched, acl("unknown")])
    assert [image.acls[change.acl_id] for change in removed] == [acl("orders")]


def test_the_number_of_acls_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_changes, "ACLS_MAX", 2)
    image = image_with(*add_acls(ClusterImage("cluster"), [acl("a"), acl("b")], lambda: next(IDS)))
    assert add_acls(image, [acl("a")], lambda: next(IDS)) == []
    with pytest.raises(BrokerError) as refused:
        add_acls(image, [acl("c")], lambda: next(IDS))
    assert refused.value.code is ErrorCode.POLICY_VIOLATION


def test_users_are_set_and_removed() -> None:
    image = image_with(ScramCredentialSet("bob", SECRET))
    result = alter_users(image, [Alteration("alice", SHA_256, SECRET), Alteration("bob", SHA_256, None)])
    assert result.refused == {}
    assert result.changes == [ScramCredentialSet("alice", SECRET), ScramCredentialRemoved("bob", SHA_256)]


@pytest.mark.parametrize(
    ("alterations", "code"),
    [
        ([Alteration("bob", SHA_512, None)], ErrorCode.RESOURCE_NOT_FOUND),
        ([Alteration("eve", SHA_256, None)], ErrorCode.RESOURCE_NOT_FOUND),
        ([Alteration("bob", SHA_256, None), Alteration("bob", SHA_256, SECRET)], ErrorCode.DUPLICATE_RESOURCE),
        ([Alteration("bob", SHA_256, SECRET)] * 2, ErrorCode.DUPLICATE_RESOURCE),
        # A part that could be made does not count when another one of the same user cannot.
        ([Alteration("bob", SHA_256, None), Alteration("bob", SHA_512, None)], ErrorCode.RESOURCE_NOT_FOUND),
    ],
)
def test_a_user_is_changed_completely_or_not_at_all(alterations: list[Alteration], code: ErrorCode) -> None:
    image = image_with(ScramCredentialSet("bob", SECRET))
    result = alter_users(image, [*alterations, Alteration("alice", SHA_256, SECRET)])
    assert {user: error.code for user, error in result.refused.items()} == {alterations[0].user: code}
    assert result.changes == [ScramCredentialSet("alice", SECRET)]


def test_the_number_of_credentials_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_changes, "SCRAM_CREDENTIALS_MAX", 2)
    image = image_with(ScramCredentialSet("bob", SECRET))
    wanted = [Alteration(user, SHA_256, SECRET) for user in ("bob", "alice", "eve")]
    result = alter_users(image, wanted)
    assert {user: error.code for user, error in result.refused.items()} == {"eve": ErrorCode.POLICY_VIOLATION}
    assert [change.user for change in result.changes] == ["bob", "alice"]
