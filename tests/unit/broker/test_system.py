from __future__ import annotations

from penstock.broker.system import SystemClock, SystemEntropy
from penstock.core.ids import uuid_text


def test_ids_are_version_4_uuids_that_differ_and_never_begin_with_a_dash() -> None:
    entropy = SystemEntropy()
    ids = {entropy.uuid() for _ in range(500)}
    assert len(ids) == 500
    assert all(identifier[6] >> 4 == 4 and identifier[8] >> 6 == 2 for identifier in ids)
    assert not any(uuid_text(identifier).startswith("-") for identifier in ids)


def test_random_numbers_stay_in_their_range() -> None:
    entropy = SystemEntropy()
    assert {entropy.randrange(1, 4) for _ in range(200)} == {1, 2, 3}


def test_the_monotonic_clock_does_not_go_back() -> None:
    clock = SystemClock()
    earlier = clock.monotonic_ms()
    assert clock.monotonic_ms() >= earlier
