"""ACLs and SCRAM users over the handlers, in every version."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.acls import AclOperation, AclPermission, PatternType, ResourceType
from penstock.core.credentials import ScramMechanism
from penstock.metadata.broker_config_definitions import STANDARD_AUTHORIZER
from penstock.protocol.definitions.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from penstock.protocol.definitions.create_acls import AclCreation, CreateAclsRequest
from penstock.protocol.definitions.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from penstock.protocol.definitions.describe_acls import DescribeAclsRequest
from penstock.protocol.definitions.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from penstock.protocol.error_codes import ErrorCode
from penstock.security.sasl_server import scram_credential
from tests.unit.broker.handlers.conftest import ClientMaker
from tests.unit.broker.handlers.requests import Client, versions_of

EVERYTHING: dict[str, Any] = {
    "resource_type_filter": ResourceType.ANY,
    "pattern_type_filter": PatternType.ANY,
    "operation": AclOperation.ANY,
    "permission_type": AclPermission.ANY,
}
SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512


@pytest.fixture
def secured(client_with: ClientMaker) -> Client:
    return client_with({"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"})


def creation(name: str = "orders", **changed: Any) -> AclCreation:
    values: dict[str, Any] = {
        "resource_type": ResourceType.TOPIC,
        "resource_name": name,
        "resource_pattern_type": PatternType.PREFIXED,
        "principal": "User:alice",
        "host": "*",
        "operation": AclOperation.READ,
        "permission_type": AclPermission.ALLOW,
    }
    return AclCreation(**(values | changed))


def described(client: Client, version: int | None = None, **wanted: Any) -> list[tuple[str, int, str, int]]:
    response = client.ask(DescribeAclsRequest(**(EVERYTHING | wanted)), version)
    assert response.error_code == ErrorCode.NONE
    return [
        (resource.resource_name, resource.pattern_type, acl.principal, acl.operation)
        for resource in response.resources
        for acl in resource.acls
    ]


@pytest.mark.parametrize("version", versions_of(CreateAclsRequest))
def test_acls_are_created_described_and_deleted(version: int, secured: Client) -> None:
    wanted = [creation(), creation(operation=AclOperation.WRITE), creation("payments")]
    response = secured.ask(CreateAclsRequest(creations=wanted), version)
    assert [result.error_code for result in response.results] == [0, 0, 0]
    assert described(secured, version) == [
        ("orders", PatternType.PREFIXED, "User:alice", AclOperation.READ),
        ("orders", PatternType.PREFIXED, "User:alice", AclOperation.WRITE),
        ("payments", PatternType.PREFIXED, "User:alice", AclOperation.READ),
    ]
    assert len(described(secured, version, resource_name_filter="orders", pattern_type_filter=PatternType.ANY)) == 2
    matching = DeleteAclsFilter(**(EVERYTHING | {"resource_name_filter": "orders"}))
    unknown = DeleteAclsFilter(**(EVERYTHING | {"operation": 77}))
    deleted = secured.ask(DeleteAclsRequest(filters=[matching, unknown]), version)
    first, second = deleted.filter_results
    assert [(acl.resource_name, acl.operation) for acl in first.matching_acls] == [("orders", 3), ("orders", 4)]
    assert (second.error_code, second.matching_acls) == (ErrorCode.INVALID_REQUEST, [])
    assert [row[0] for row in described(secured, version)] == ["payments"]


def test_an_acl_that_is_refused_does_not_keep_others_from_being_created(secured: Client) -> None:
    wanted = [creation(operation=99), creation(), creation(principal="alice"), creation(resource_name="")]
    response = secured.ask(CreateAclsRequest(creations=wanted))
    assert [result.error_code for result in response.results] == [42, 0, 42, 42]
    assert "operation 99" in response.results[0].error_message
    assert len(described(secured)) == 1


def test_creating_an_acl_twice_is_no_error(secured: Client) -> None:
    for _ in range(2):
        response = secured.ask(CreateAclsRequest(creations=[creation(), creation()]))
        assert [result.error_code for result in response.results] == [0, 0]
    assert len(described(secured)) == 1


def test_a_filter_with_unknown_numbers_is_refused(secured: Client) -> None:
    response = secured.ask(DescribeAclsRequest(**(EVERYTHING | {"permission_type": 9})))
    assert response.error_code == ErrorCode.INVALID_REQUEST


def test_without_an_authorizer_acls_are_disabled(client: Client) -> None:
    assert client.ask(DescribeAclsRequest(**EVERYTHING)).error_code == ErrorCode.SECURITY_DISABLED
    [created] = client.ask(CreateAclsRequest(creations=[creation()])).results
    [deleted] = client.ask(DeleteAclsRequest(filters=[DeleteAclsFilter(**EVERYTHING)])).filter_results
    assert {created.error_code, deleted.error_code} == {ErrorCode.SECURITY_DISABLED}
    assert "authorizer.class.name" in created.error_message


def upsertion(user: str = "alice", **changed: Any) -> ScramCredentialUpsertion:
    values: dict[str, Any] = {"mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"p" * 32}
    return ScramCredentialUpsertion(name=user, **(values | changed))


def alter(client: Client, *parts: ScramCredentialUpsertion | ScramCredentialDeletion) -> dict[str, int]:
    request = AlterUserScramCredentialsRequest(
        deletions=[each for each in parts if isinstance(each, ScramCredentialDeletion)],
        upsertions=[each for each in parts if isinstance(each, ScramCredentialUpsertion)],
    )
    return {result.user: result.error_code for result in client.ask(request).results}


def users(client: Client, *names: str) -> dict[str, Any]:
    request = DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names] or None)
    response = client.ask(request)
    assert response.error_code == 0
    return {
        result.user: result.error_code or [(info.mechanism, info.iterations) for info in result.credential_infos]
        for result in response.results
    }


def test_users_are_set_described_and_removed(client: Client) -> None:
    sha_512 = upsertion(mechanism=2, iterations=8192, salted_password=b"p" * 64)
    assert alter(client, upsertion(), sha_512, upsertion("bob")) == {"alice": 0, "bob": 0}
    assert users(client) == {"alice": [(1, 4096), (2, 8192)], "bob": [(1, 4096)]}
    assert alter(client, ScramCredentialDeletion(name="alice", mechanism=1)) == {"alice": 0}
    assert users(client, "alice", "eve") == {"alice": [(2, 8192)], "eve": ErrorCode.RESOURCE_NOT_FOUND}
    assert users(client, "alice", "alice") == {"alice": ErrorCode.DUPLICATE_RESOURCE}


def test_the_salted_password_is_not_kept(client: Client) -> None:
    import hashlib

    salted = hashlib.pbkdf2_hmac("sha256", b"secret", b"salt", 4096)
    assert alter(client, upsertion(salted_password=salted)) == {"alice": 0}
    credential = client.node.image.scram_credentials["alice", SHA_256]
    assert credential == scram_credential(SHA_256, b"salt", 4096, "secret")
    assert salted not in (credential.stored_key, credential.server_key)


@pytest.mark.parametrize(
    ("part", "code"),
    [
        (upsertion(iterations=1), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=10**6), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(salt=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(salted_password=b"short"), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(mechanism=7), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("n" * 2000), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (ScramCredentialDeletion(name="alice", mechanism=1), ErrorCode.RESOURCE_NOT_FOUND),
        (ScramCredentialDeletion(name="alice", mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
    ],
)
def test_credentials_that_are_refused_change_nothing_of_their_user(
    part: ScramCredentialUpsertion | ScramCredentialDeletion, code: ErrorCode, client: Client
) -> None:
    other = upsertion(part.name, mechanism=2, salted_password=b"p" * 64)
    expected = {part.name: code, "bob": 0}
    assert alter(client, part, other, upsertion("bob")) == expected
    assert list(users(client)) == ["bob"]
