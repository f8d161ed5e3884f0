"""Buckets and precedence, with the time passed in."""

from __future__ import annotations

import pytest

from penstock.core.quotas import DEFAULT, QuotaEntity
from penstock.security.quotas import Quota, QuotaTable, TokenBucket, Windows

START_MS = 1_000_000


def test_who_keeps_to_its_quota_does_not_wait() -> None:
    bucket = TokenBucket(10)
    for second in range(60):
        bucket.take(100, 100, START_MS + second * 1000)
        assert bucket.throttle_ms(100, START_MS + second * 1000) == 0


def test_a_burst_is_let_through_and_more_is_waited_for() -> None:
    bucket = TokenBucket(10)
    assert bucket.throttle_ms(100, START_MS) == 0
    bucket.take(1000, 100, START_MS)
    assert bucket.throttle_ms(100, START_MS) == 0
    bucket.take(500, 100, START_MS)
    assert bucket.throttle_ms(100, START_MS) == 5000
    assert bucket.throttle_ms(100, START_MS + 5000) == 0
    assert not bucket.is_unused(100, START_MS + 14_999)
    assert bucket.is_unused(100, START_MS + 15_000)


@pytest.mark.parametrize("size", [1, 70, 700, 5000])
def test_who_sends_all_it_can_gets_its_quota_in_any_ten_seconds_after_its_burst(size: int) -> None:
    bucket = TokenBucket(10)
    now_ms, sent = START_MS, []
    while now_ms < START_MS + 100_000:
        bucket.take(size, 1000, now_ms)
        sent.append((now_ms, size))
        now_ms += max(1, bucket.throttle_ms(1000, now_ms))
    for begin_ms in range(START_MS + 12_000, START_MS + 85_000, 777):
        in_ten_seconds = sum(size for at_ms, size in sent if begin_ms <= at_ms < begin_ms + 10_000)
        assert 10_000 - size <= in_ten_seconds <= 10_000 + size


def test_a_clock_that_is_set_back_does_no_harm() -> None:
    bucket = TokenBucket(10)
    bucket.take(5000, 100, START_MS)
    bucket.take(1, 100, START_MS - 50_000)
    assert 0 < bucket.throttle_ms(100, START_MS - 50_000) <= 100_000


def test_bursts_follow_from_the_windows() -> None:
    windows = Windows(11, 1000)
    assert (windows.burst_of_bytes_s, windows.burst_of_changes_s) == (10, 11)
    windows = Windows(1, 2000)
    assert (windows.burst_of_bytes_s, windows.burst_of_changes_s) == (2, 2)


SPECIFIC_FIRST = [
    (QuotaEntity("alice", "app"), ("alice", "app")),
    (QuotaEntity("alice", DEFAULT), ("alice", "app")),
    (QuotaEntity("alice"), ("alice", None)),
    (QuotaEntity(DEFAULT, "app"), ("alice", "app")),
    (QuotaEntity(DEFAULT, DEFAULT), ("alice", "app")),
    (QuotaEntity(DEFAULT), ("alice", None)),
    (QuotaEntity(None, "app"), (None, "app")),
    (QuotaEntity(None, DEFAULT), (None, "app")),
]


def test_the_most_specific_quota_counts() -> None:
    limits = {entity: float(number) for number, (entity, _) in enumerate(SPECIFIC_FIRST)}
    limits[QuotaEntity("bob", "app")] = limits[QuotaEntity("alice", "other")] = 99.0
    for number, (entity, meter) in enumerate(SPECIFIC_FIRST):
        assert QuotaTable(limits).of_client("alice", "app") == Quota(float(number), meter)
        del limits[entity]
    assert QuotaTable(limits).of_client("alice", "app") is None


def test_an_address_has_its_own_quota_or_the_default() -> None:
    table = QuotaTable({QuotaEntity(ip="10.0.0.1"): 1.0, QuotaEntity(ip=DEFAULT): 2.0})
    assert (table.of_ip("10.0.0.1"), table.of_ip("10.0.0.2")) == (1.0, 2.0)
    assert QuotaTable({}).of_ip("10.0.0.1") is None
    assert table.of_client("10.0.0.1", "10.0.0.1") is None
