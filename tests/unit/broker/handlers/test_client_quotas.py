"""DescribeClientQuotas and AlterClientQuotas."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core import limits
from penstock.core.quotas import QuotaEntity
from penstock.protocol.definitions.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from penstock.protocol.definitions.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from penstock.protocol.error_codes import ErrorCode
from tests.unit.broker.handlers.requests import Client, versions_of
from tests.unit.broker.handlers.test_topic_administration import fail_to_write

EXACT, DEFAULT, ANY = 0, 1, 2
Parts = list[tuple[str, str | None]]


def entry(parts: Parts, **quotas: float | None) -> RequestEntryData:
    return RequestEntryData(
        entity=[RequestEntityData(entity_type=kind, entity_name=name) for kind, name in parts],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()],
    )


def alter(client: Client, *entries: RequestEntryData, version: int = 1, validate_only: bool = False) -> list[int]:
    response = client.ask(AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only), version)
    assert all((each.error_message is None) == (each.error_code == 0) for each in response.entries)
    return [each.error_code for each in response.entries]


def describe(client: Client, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    wanted = [ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    response = client.ask(DescribeClientQuotasRequest(components=wanted, strict=strict))
    if response.error_code:
        return ErrorCode(response.error_code)
    return {
        tuple((part.entity_type, part.entity_name) for part in each.entity): {v.key: v.value for v in each.values}
        for each in response.entries
    }


@pytest.mark.parametrize("version", versions_of(AlterClientQuotasRequest))
def test_quotas_are_set_and_removed(client: Client, version: int) -> None:
    alice: Parts = [("user", "alice")]
    assert alter(client, entry(alice, producer_byte_rate=1024, request_percentage=12.5), version=version) == [0]
    assert describe(client) == {(("user", "alice"),): {"producer_byte_rate": 1024.0, "request_percentage": 12.5}}
    assert alter(client, entry(alice, producer_byte_rate=None, consumer_byte_rate=5), version=version) == [0]
    assert client.node.image.client_quotas[QuotaEntity("alice")] == {
        "consumer_byte_rate": 5,
        "request_percentage": 12.5,
    }
    assert alter(client, entry(alice, request_percentage=None, consumer_byte_rate=None), version=version) == [0]
    assert describe(client) == {}


@pytest.mark.parametrize(
    ("parts", "quotas"),
    [
        ([("user", "alice")], {"producer_byte_rate": 0.0001, "consumer_byte_rate": 1}),
        ([("user", "alice")], {"consumer_byte_rate": 1, "producer_byte_rate": -1}),
        ([("user", "alice")], {"consumer_byte_rate": 1, "producer_byte_rate": float("nan")}),
        ([("user", "alice")], {"consumer_byte_rate": 1, "request_percentage": float("inf")}),
        ([("user", "alice")], {"consumer_byte_rate": 1, "producer_byte_rate": 1.5}),
        ([("user", "alice")], {"consumer_byte_rate": 1, "producer_byte_rate": 1e19}),
        ([("user", "alice")], {"consumer_byte_rate": 1, "connection_creation_rate": 1}),
        ([("user", "alice")], {"bytes": 1}),
        ([("ip", "10.0.0.1")], {"producer_byte_rate": 1}),
        ([("ip", "somewhere")], {"connection_creation_rate": 1}),
        ([("ip", "10.0.0.1"), ("user", "alice")], {"connection_creation_rate": 1}),
        ([("user", "alice"), ("user", "bob")], {"producer_byte_rate": 1}),
        ([("user", "")], {"producer_byte_rate": 1}),
        ([("group", "g")], {"producer_byte_rate": 1}),
        ([], {"producer_byte_rate": 1}),
    ],
)
def test_an_entry_that_is_wrong_is_refused_whole(client: Client, parts: Parts, quotas: dict[str, float]) -> None:
    good = entry([("client-id", "app")], producer_byte_rate=7)
    assert alter(client, entry(parts, **quotas), good) == [ErrorCode.INVALID_REQUEST, 0]
    assert describe(client) == {(("client-id", "app"),): {"producer_byte_rate": 7.0}}


def test_a_quota_of_zero_is_refused(client: Client) -> None:
    zero = RequestEntryData(
        entity=[RequestEntityData(entity_type="user", entity_name="alice")],
        ops=[OpData(key="consumer_byte_rate", value=5.0), OpData(key="producer_byte_rate", value=0.0)],
    )
    [result] = client.ask(AlterClientQuotasRequest(entries=[zero])).entries
    assert (result.error_code, result.entity[0].entity_name) == (ErrorCode.INVALID_REQUEST, "alice")
    assert "greater than 0" in result.error_message
    assert describe(client) == {}


def test_an_entity_that_is_named_twice_and_a_validation_alone(client: Client) -> None:
    twice = entry([("user", None)], producer_byte_rate=1)
    assert alter(client, twice, twice) == [0, ErrorCode.INVALID_REQUEST]
    assert alter(client, entry([("user", "x")], producer_byte_rate=1), validate_only=True) == [0]
    assert list(describe(client)) == [(("user", None),)]


def test_a_full_disk_changes_nothing(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_to_write(monkeypatch)
    assert alter(client, entry([("user", "x")], producer_byte_rate=1)) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert describe(client) == {}


def test_filters_choose_what_is_described(client: Client) -> None:
    entities: list[Parts] = [
        [("user", "alice")],
        [("user", None)],
        [("user", "alice"), ("client-id", "app")],
        [("client-id", "app")],
    ]
    assert alter(client, *(entry(parts, producer_byte_rate=1) for parts in entities)) == [0] * 4
    assert alter(client, entry([("ip", None)], connection_creation_rate=1)) == [0]
    alice, default, both, app = (tuple(parts) for parts in entities)
    assert set(describe(client)) == {alice, default, both, app, (("ip", None),)}
    assert set(describe(client, ("user", EXACT, "alice"))) == {alice, both}
    assert set(describe(client, ("user", EXACT, "alice"), strict=True)) == {alice}
    assert set(describe(client, ("user", DEFAULT, None))) == {default}
    assert set(describe(client, ("user", ANY, None))) == {alice, default, both}
    assert set(describe(client, ("user", ANY, None), ("client-id", EXACT, "app"))) == {both}
    assert set(describe(client, ("ip", ANY, None))) == {(("ip", None),)}
    assert describe(client, ("user", EXACT, "bob")) == {}


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, "alice")], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, None), ("user", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("ip", ANY, None), ("user", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("group", ANY, None)], ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_filters_that_are_refused(
    client: Client, components: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    assert describe(client, *components) == code


def test_a_request_changes_a_bounded_number_of_entities(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "QUOTA_ENTRIES_MAX", 1)
    entries = [entry([("user", name)], producer_byte_rate=1) for name in ("one", "two")]
    assert alter(client, *entries) == [0, ErrorCode.POLICY_VIOLATION]
