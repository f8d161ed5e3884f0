"""When a key set is loaded again."""

from __future__ import annotations

from penstock.security.key_set_refresh import UNKNOWN_KEY_REFRESH_MS, KeySetRefresh, RefreshTimes

TIMES = RefreshTimes(refresh_ms=3_600_000, retry_backoff_ms=100, retry_backoff_max_ms=10_000)
NOW_MS = 50_000


def test_a_set_is_loaded_again_at_intervals() -> None:
    refresh = KeySetRefresh(TIMES, NOW_MS)
    assert refresh.due_ms == NOW_MS + 3_600_000
    refresh.succeeded(refresh.due_ms + 5)
    assert refresh.due_ms == NOW_MS + 5 + 2 * 3_600_000


def test_failures_are_repeated_with_a_growing_delay_until_one_succeeds() -> None:
    refresh = KeySetRefresh(TIMES, NOW_MS)
    delays = []
    for _ in range(9):
        refresh.failed(NOW_MS)
        delays.append(refresh.due_ms - NOW_MS)
    assert delays == [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]
    refresh.succeeded(NOW_MS)
    refresh.failed(NOW_MS)
    assert refresh.due_ms == NOW_MS + 100


def test_a_thousand_failures_do_not_overflow() -> None:
    refresh = KeySetRefresh(TIMES, NOW_MS)
    for _ in range(1000):
        refresh.failed(NOW_MS)
    assert refresh.due_ms == NOW_MS + 10_000


def test_unknown_keys_cause_a_load_at_once_and_then_rarely() -> None:
    refresh = KeySetRefresh(TIMES, NOW_MS)
    assert refresh.unknown_key(NOW_MS)
    assert refresh.due_ms == NOW_MS
    refresh.succeeded(NOW_MS)
    loads = sum(refresh.unknown_key(NOW_MS + ms) for ms in range(UNKNOWN_KEY_REFRESH_MS))
    assert (loads, refresh.due_ms) == (0, NOW_MS + 3_600_000)
    assert refresh.unknown_key(NOW_MS + UNKNOWN_KEY_REFRESH_MS)
    assert refresh.due_ms == NOW_MS + UNKNOWN_KEY_REFRESH_MS
