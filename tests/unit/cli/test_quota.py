"""`penstock quota`: whom a quota is for, and mistakes that are found before a broker is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from penstock.cli import quota
from penstock.cli.app import run_app
from penstock.cli.command_error import CommandError
from penstock.core.exit_codes import ExitCode
from penstock.core.quotas import DEFAULT, QuotaEntity
from penstock.protocol.error_codes import BrokerError, ErrorCode


class Broker:
    """What the command asks of the wire client."""

    def __init__(self) -> None:
        self.quotas: dict[QuotaEntity, dict[str, float]] = {}

    def client_quotas(self) -> dict[QuotaEntity, dict[str, float]]:
        return self.quotas

    def alter_client_quotas(self, entity: QuotaEntity, changes: Mapping[str, float], removals: list[str]) -> None:
        if any(limit <= 0 for limit in changes.values()):
            raise BrokerError(ErrorCode.INVALID_REQUEST, "must be greater than 0")
        limits = {**self.quotas.pop(entity, {}), **changes}
        limits = {key: limit for key, limit in limits.items() if key not in removals}
        if limits:
            self.quotas[entity] = limits


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    broker = Broker()

    @contextmanager
    def connected(*_: Any) -> Iterator[Any]:
        yield broker

    monkeypatch.setattr(quota, "connected", connected)
    monkeypatch.setattr(quota, "wire_connected", connected)
    return broker


@pytest.mark.parametrize(
    ("words", "entity"),
    [
        (["--user", "alice"], QuotaEntity("alice")),
        (["--user-defaults"], QuotaEntity(DEFAULT)),
        (["--user", "alice", "--client-id", "app"], QuotaEntity("alice", "app")),
        (["--user", "alice", "--client-defaults"], QuotaEntity("alice", DEFAULT)),
        (["--client-id", "app"], QuotaEntity(None, "app")),
        (["--ip", "10.0.0.1"], QuotaEntity(ip="10.0.0.1")),
        (["--ip-defaults"], QuotaEntity(ip=DEFAULT)),
    ],
)
def test_a_quota_is_set_and_removed(broker: Broker, words: list[str], entity: QuotaEntity) -> None:
    assert run_app(["quota", "set", *words, "one=1", "two=2.5"]) == 0
    assert broker.quotas == {entity: {"one": 1.0, "two": 2.5}}
    assert run_app(["quota", "remove", *words, "one"]) == 0
    assert broker.quotas == {entity: {"two": 2.5}}


def test_quotas_are_listed(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(["quota", "list"]) == 0
    assert capsys.readouterr().out == ""
    broker.quotas = {QuotaEntity("alice", DEFAULT): {"producer_byte_rate": 1048576.0}, QuotaEntity("bob"): {"x": 1.5}}
    assert run_app(["quota", "list"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "ENTITY                           QUOTA               LIMIT",
        "user=alice, client-id=<default>  producer_byte_rate  1048576",
        "user=bob                         x                   1.5",
    ]
    assert run_app(["quota", "list", "--user", "alice", "--json"]) == 0
    expected = '[{"entity": {"user": "alice", "client-id": null}, "quotas": {"producer_byte_rate": 1048576.0}}]\n'
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["set", "one=1"], "whom is the quota for"),
        (["set", "--user", "a", "--user-defaults", "one=1"], "not both"),
        (["set", "--user", "a", "--ip", "10.0.0.1", "one=1"], "not for both"),
        (["set", "--user", "", "one=1"], "the name is empty"),
        (["set", "--user", "a", "one"], "expected NAME=VALUE"),
        (["set", "--user", "a", "one=many"], "one=many: expected a number"),
        (["remove", "one"], "whom is the quota for"),
    ],
)
def test_mistakes_are_one_line(broker: Broker, words: list[str], message: str) -> None:
    with pytest.raises(CommandError, match=message) as caught:
        run_app(["quota", *words])
    assert caught.value.exit_code == ExitCode.USAGE
    assert broker.quotas == {}


def test_what_the_broker_refuses_is_one_line(broker: Broker) -> None:
    with pytest.raises(CommandError, match="must be greater than 0") as caught:
        run_app(["quota", "set", "--user", "alice", "producer_byte_rate=0"])
    assert caught.value.exit_code == ExitCode.FAILURE
