"""Rates, buckets and precedence, with the time passed in."""

from __future__ import annotations

import pytest

from penstock.core.quotas import DEFAULT, QuotaEntity
from penstock.security.quotas import Quota, QuotaTable, TokenBucket, WindowedRate, Windows

WINDOWS = Windows(11, 1000)
START_MS = 1_000_000


def test_a_rate_within_its_quota_does_not_wait() -> None:
    rate = WindowedRate(WINDOWS)
    for second in range(60):
        rate.record(100, START_MS + second * 1000)
        # The windows are filled from the second on in which they are counted, so the rate is a little above.
        assert rate.throttle_ms(110, START_MS + second * 1000 + 999) == 0


def test_the_first_bytes_of_a_client_are_counted_over_the_windows_before_them() -> None:
    rate = WindowedRate(WINDOWS)
    rate.record(1000, START_MS)
    assert rate.throttle_ms(100, START_MS) == 0
    rate.record(500, START_MS)
    # 1500 bytes in 10 seconds are 150 a second: half the quota too much, which 5 of 10 seconds make up for.
    assert rate.throttle_ms(100, START_MS) == 5000


@pytest.mark.parametrize("used", [1001, 1500, 5000, 100_000])
def test_who_waits_as_it_is_told_is_within_its_quota_after_the_time_that_its_bytes_take(used: int) -> None:
    """As in Kafka the first waits of a new client repeat, until its windows are filled."""
    rate = WindowedRate(WINDOWS)
    rate.record(used, START_MS)
    now_ms = START_MS
    while (throttle_ms := rate.throttle_ms(100, now_ms)) > 0:
        now_ms += throttle_ms
    assert used / 100 * 1000 - 10_000 <= now_ms - START_MS <= max(11_000, used / 100 * 1000)


def test_a_rate_forgets_windows_that_are_over() -> None:
    rate = WindowedRate(WINDOWS)
    rate.record(5000, START_MS)
    assert not rate.is_unused(START_MS + 10_999)
    assert rate.is_unused(START_MS + 11_000)


def test_a_long_run_keeps_to_its_quota() -> None:
    """A client that sends as much as it can, and waits as it is told."""
    rate = WindowedRate(WINDOWS)
    now_ms, sent = START_MS, 0
    while now_ms < START_MS + 600_000:
        rate.record(700, now_ms)
        sent += 700
        now_ms += rate.throttle_ms(1000, now_ms) + 1
    assert 0.95 <= sent / 600_000 <= 1.05


def test_a_clock_that_is_set_back_does_no_harm() -> None:
    rate = WindowedRate(WINDOWS)
    rate.record(5000, START_MS)
    rate.record(1, START_MS - 50_000)
    assert 0 < rate.throttle_ms(100, START_MS - 50_000) <= 100_000


def test_a_bucket_lets_a_burst_through_and_refills() -> None:
    bucket = TokenBucket(Windows(10, 1000))
    assert bucket.throttle_ms(5, START_MS) == 0
    bucket.take(50, 5, START_MS)
    assert bucket.throttle_ms(5, START_MS) == 0
    bucket.take(10, 5, START_MS)
    assert bucket.throttle_ms(5, START_MS) == 2000
    assert bucket.throttle_ms(5, START_MS + 2000) == 0
    assert not bucket.is_unused(5, START_MS + 11_999)
    assert bucket.is_unused(5, START_MS + 12_000)


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
