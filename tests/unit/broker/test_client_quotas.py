"""What requests are charged, with a clock that the test moves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.broker.client_quotas import ClientQuotas, Usage
from penstock.core import limits
from penstock.core.quotas import DEFAULT, QuotaEntity
from penstock.metadata.broker_config import BrokerConfig

PRODUCE, FETCH, METADATA = 0, 1, 3
CONFIG = BrokerConfig.load()


class Clock:
    def __init__(self) -> None:
        self.now_ms = 5_000_000

    def __call__(self) -> int:
        return self.now_ms


def usage(client_id: str = "app", *, user: str = "alice", size: int = 0, handled_s: float = 0.0) -> Usage:
    return Usage(user, client_id, size, handled_s)


def fetched(size: int) -> Any:
    data = SimpleNamespace(records=b"x" * size)
    return SimpleNamespace(responses=[SimpleNamespace(partitions=[data, SimpleNamespace(records=None)])])


def test_each_api_counts_for_its_own_quota() -> None:
    quotas = ClientQuotas({QuotaEntity("alice"): {"producer_byte_rate": 10, "consumer_byte_rate": 10}}, CONFIG, Clock())
    assert quotas.charge(usage(size=1000), METADATA, None) == 0
    assert quotas.charge(usage(size=1000), FETCH, fetched(0)) == 0
    assert quotas.charge(usage(size=200), PRODUCE, None) == 10_000
    assert quotas.charge(usage(size=0), FETCH, fetched(150)) == 5_000
    assert quotas.charge(usage(size=200, user="bob"), PRODUCE, None) == 0


def test_the_time_of_requests_is_a_percentage_of_one_core_and_mutes_for_a_window_at_most() -> None:
    clock = Clock()
    quotas = ClientQuotas({QuotaEntity(None, "app"): {"request_percentage": 10}}, CONFIG, clock)
    assert quotas.charge(usage(handled_s=1.0), METADATA, None) == 0  # one second of ten
    assert quotas.charge(usage(handled_s=0.05), METADATA, None) == 500
    assert quotas.charge(usage(handled_s=5.0), METADATA, None) == 1000
    assert quotas.charge(usage("other", handled_s=5.0), METADATA, None) == 0


def test_what_was_used_is_remembered_when_quotas_change() -> None:
    clock = Clock()
    before = ClientQuotas({QuotaEntity("alice"): {"producer_byte_rate": 1000}}, CONFIG, clock)
    assert before.charge(usage(size=5000), PRODUCE, None) == 0
    after = ClientQuotas({QuotaEntity("alice"): {"producer_byte_rate": 100}}, CONFIG, clock, before)
    assert after.charge(usage(size=0), PRODUCE, None) == 40_000


def test_a_fetch_is_limited_to_what_the_windows_allow() -> None:
    quotas = ClientQuotas({QuotaEntity("alice"): {"consumer_byte_rate": 100}}, CONFIG, Clock())
    assert (quotas.fetch_bytes_max("alice", "app"), quotas.fetch_bytes_max("bob", "app")) == (1000, None)


def test_invented_client_ids_take_a_bounded_amount_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "QUOTA_METERS_MAX", 10)
    clock = Clock()
    quotas = ClientQuotas(
        {QuotaEntity(None, DEFAULT): {"producer_byte_rate": 10, "controller_mutation_rate": 10}}, CONFIG, clock
    )
    for number in range(100):
        assert quotas.charge(usage(f"client-{number}", size=1), PRODUCE, None) == 0
        assert quotas.mutations("alice", f"client-{number}") is not None
    assert len(quotas._buckets) <= 12
    clock.now_ms += 60_000  # those that are not used any more make room
    quotas.charge(usage("new", size=200), PRODUCE, None)
    assert ("producer_byte_rate", None, "new") in quotas._buckets
    assert len(quotas._buckets) == 1
