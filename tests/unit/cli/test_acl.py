"""What the flags of `penstock acl` and `penstock user` mean; the broker's side is in tests/integration."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from penstock.cli.acl import checked_principal, operations_on, parsed, resources
from penstock.cli.app import run_app
from penstock.cli.command_error import CommandError
from penstock.cli.user import parsed_mechanism, read_password
from penstock.core.acls import AclOperation, PatternType, ResourcePattern, ResourceType
from penstock.core.credentials import ScramMechanism

ALLOWED = ["acl", "create", "--allow-principal", "User:a", "--topic", "t"]


@pytest.mark.parametrize("text", ["ClusterAction", "CLUSTER_ACTION", "cluster-action", "clusteraction"])
def test_operations_in_every_spelling(text: str) -> None:
    assert parsed(AclOperation, text, "--operation") is AclOperation.CLUSTER_ACTION


def test_an_unknown_operation_names_the_known_ones() -> None:
    with pytest.raises(CommandError, match=r"--operation Reed: expected one of All, Read, Write, .*"):
        parsed(AclOperation, "Reed", "--operation")


def test_producers_and_consumers() -> None:
    def of(kind: ResourceType, **what: bool) -> list[AclOperation]:
        return operations_on(kind, None, **({"producer": False, "consumer": False} | what))

    assert of(ResourceType.TOPIC, producer=True) == [AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE]
    assert of(ResourceType.TOPIC, consumer=True) == [AclOperation.READ, AclOperation.DESCRIBE]
    assert of(ResourceType.GROUP, consumer=True) == [AclOperation.READ]
    assert of(ResourceType.GROUP, producer=True) == []
    assert of(ResourceType.TOPIC) == [AclOperation.ALL]


def test_resources() -> None:
    assert resources(["orders"], None, ["till"], True, PatternType.PREFIXED) == [
        ResourcePattern(ResourceType.TOPIC, "orders", PatternType.PREFIXED),
        ResourcePattern(ResourceType.TRANSACTIONAL_ID, "till", PatternType.PREFIXED),
        ResourcePattern(ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL),
    ]


def test_principals() -> None:
    assert checked_principal("User:alice") == "User:alice"
    with pytest.raises(CommandError, match="write User:alice"):
        checked_principal("alice")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["acl", "create", "--topic", "orders"], "use --allow-principal"),
        (["acl", "create", "--allow-principal", "User:a"], "no resource given"),
        (
            ["acl", "create", "--allow-principal", "User:a", "--topic", "t", "--resource-pattern-type", "match"],
            "literal",
        ),
        ([*ALLOWED, "--operation", "Fly"], "--operation Fly"),
        (["acl", "delete", "--allow-principal", "User:a"], "no resource given"),
        (["user", "create", "alice", "--mechanism", "MD5"], "--mechanism MD5: expected one of SCRAM-SHA-256"),
        (["user", "create", "alice", "--password-file", "/no/such/file"], "No such file or directory"),
    ],
)
def test_mistakes_are_found_before_a_broker_is_asked(words: list[str], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        run_app(words)


def test_passwords_come_from_a_file_or_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert parsed_mechanism("scram-sha-512") is ScramMechanism.SCRAM_SHA_512
    file = tmp_path / "secret"
    file.write_text("from the file\r\nsecond line\n")
    assert read_password("alice", file) == "from the file"
    monkeypatch.setattr("sys.stdin", io.StringIO("from a pipe\n"))
    assert read_password("alice", None) == "from a pipe"
    with pytest.raises(CommandError, match="the password is empty"):
        read_password("alice", None)
