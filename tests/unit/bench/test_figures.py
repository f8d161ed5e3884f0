from __future__ import annotations

import pytest

from penstock.bench.figures import Spread, percentile


def test_spread_is_median_and_range() -> None:
    assert Spread.of([5.0, 1.0, 3.0, 9.0]) == Spread(median=4.0, low=1.0, high=9.0)


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.5, 50), (0.99, 99), (1.0, 100), (0.001, 1)],
)
def test_percentile_is_the_nearest_rank(share: float, expected: int) -> None:
    assert percentile(range(100, 0, -1), share) == expected


def test_one_slow_answer_in_a_hundred_is_beyond_the_99th_percentile_and_two_are_not() -> None:
    assert percentile([1.0] * 99 + [50.0], 0.99) == 1.0
    assert percentile([1.0] * 98 + [50.0] * 2, 0.99) == 50.0
