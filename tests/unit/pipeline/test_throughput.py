"""Rows per second, with a clock that the test moves."""

from __future__ import annotations

import pytest

from penstock.pipeline.throughput import WINDOW_S, Throughput


def test_a_long_batch_counts_over_the_time_that_it_took() -> None:
    rate = Throughput()
    rate.add(5_000_000, 113.0, now_s=1000.0)
    assert rate.rows_per_second(1000.1) == pytest.approx(5_000_000 / 113)


def test_while_the_next_long_batch_runs_the_rate_stays() -> None:
    rate = Throughput()
    rate.add(5_000_000, 113.0, now_s=1000.0)
    assert rate.rows_per_second(1090.0) == pytest.approx(5_000_000 / 113)


def test_small_batches_count_with_the_pauses_between_them() -> None:
    rate = Throughput()
    for second in range(100):
        rate.add(400, 0.08, now_s=float(second))
    rate.idle()
    assert rate.rows_per_second(99.5) == pytest.approx(400, rel=0.05)


def test_an_idle_pipeline_falls_to_zero_and_an_old_rate_does_not_come_back() -> None:
    rate = Throughput()
    rate.add(1000, 1.0, now_s=10.0)
    rate.idle()
    assert rate.rows_per_second(10.0 + WINDOW_S / 2) == pytest.approx(1000 / (1 + WINDOW_S / 2))
    assert rate.rows_per_second(10.0 + 2 * WINDOW_S) == 0
    rate.busy(3600.0)
    assert rate.rows_per_second(3601.0) == 0
    rate.add(500, 1.0, now_s=3601.0)
    assert rate.rows_per_second(3601.0) == pytest.approx(500 / WINDOW_S)


def test_batches_that_are_reported_together_count_once_each() -> None:
    rate = Throughput()
    for _ in range(10):
        rate.add(100, 0.1, now_s=5.0)
    assert rate.rows_per_second(5.0) == pytest.approx(1000 / 0.1)
    rate.idle()
    assert rate.rows_per_second(5.9) == pytest.approx(1000)


def test_nothing_and_a_batch_without_duration_are_no_rate() -> None:
    rate = Throughput()
    assert rate.rows_per_second(1.0) == 0
    rate.add(10, 0.0, now_s=1.0)
    assert rate.rows_per_second(1.0) == 0
