"""How large a micro-batch of a backlog is, by the time that the one before took."""

from __future__ import annotations

from penstock.pipeline.topics.batch_sizing import FIRST_ROWS, BatchSizing


def drained(backlog: int, rows_per_second: int, *, target_s: float = 10, overhead_s: float = 0.1) -> list[int]:
    """The batches of a backlog, by a query of this speed."""
    sizing, now_s, batches = BatchSizing(target_s), 0.0, []
    while backlog:
        sizing.asked_for_next(now_s)
        rows = min(backlog, sizing.rows)
        sizing.planned(backlog, now_s)
        backlog -= rows
        now_s += rows / rows_per_second + overhead_s
        batches.append(rows)
    return batches


def test_the_first_batch_of_a_backlog_is_small_whatever_follows() -> None:
    assert drained(50_000_000, 1_000_000)[0] == FIRST_ROWS
    assert drained(FIRST_ROWS, 1_000) == [FIRST_ROWS]


def test_a_fast_query_gets_to_large_batches_at_once() -> None:
    batches = drained(20_000_000, 2_000_000)
    assert len(batches) <= 4
    assert batches[1] == 8 * FIRST_ROWS


def test_a_slow_query_shows_progress_every_ten_seconds_or_so() -> None:
    batches = drained(1_000_000, 2_000)
    assert all(rows <= 2 * 10 * 2_000 for rows in batches[3:])
    assert min(batches) >= 10_000


def test_a_batch_that_takes_all_available_records_changes_nothing() -> None:
    sizing = BatchSizing(10)
    sizing.planned(5, 0)
    sizing.asked_for_next(3_600)  # it has waited for an hour
    assert sizing.rows == FIRST_ROWS
