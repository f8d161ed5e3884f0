from __future__ import annotations

import pytest

from penstock.connect.connector import ConnectError
from penstock.connect.runtime.sink_plan import next_ranges, share_out, start_positions
from penstock.connect.runtime.sink_run import bounded_rows
from penstock.core.ids import TopicPartition
from penstock.pipeline.topics.planning import OffsetRange

A, B, C = (TopicPartition("orders", index) for index in range(3))
EARLIEST, LATEST = dict.fromkeys((A, B, C), 10), dict.fromkeys((A, B, C), 100)


def test_a_committed_offset_decides_and_the_reset_policy_where_there_is_none() -> None:
    committed = {A: 50, B: 3}  # B's records up to 10 have expired
    assert start_positions([A, B, C], committed, EARLIEST, LATEST, "earliest") == {A: 50, B: 10, C: 10}
    assert start_positions([A, B, C], committed, EARLIEST, LATEST, "latest") == {A: 50, B: 100, C: 100}


def test_an_offset_beyond_the_end_of_the_log_is_out_of_range() -> None:
    assert start_positions([A], {A: 101}, EARLIEST, LATEST, "earliest") == {A: 10}
    assert start_positions([A], {A: 100}, EARLIEST, LATEST, "earliest") == {A: 100}


@pytest.mark.parametrize(("committed", "says"), [({}, "has no committed offset"), ({A: 5}, "committed offset 5")])
def test_without_a_reset_policy_the_connector_fails(committed: dict[TopicPartition, int], says: str) -> None:
    with pytest.raises(ConnectError, match=says):
        start_positions([A], committed, EARLIEST, LATEST, "none")


def test_a_large_backlog_does_not_starve_a_small_one() -> None:
    ranges = next_ranges({A: 0, B: 0, C: 7}, {A: 1_000_000, B: 1, C: 7}, 1000)
    assert ranges == [OffsetRange(A, 0, 999), OffsetRange(B, 0, 1)]


def test_a_partition_is_moved_by_one_task_and_tasks_are_about_alike() -> None:
    ranges = [OffsetRange(A, 0, 100), OffsetRange(B, 0, 60), OffsetRange(C, 5, 45)]
    assert share_out(ranges, 2) == [(ranges[0],), (ranges[1], ranges[2])]
    assert share_out(ranges, 5) == [(ranges[0],), (ranges[1],), (ranges[2],)]
    assert share_out([], 2) == []


def test_a_job_is_worth_its_while_and_bounded_by_bytes() -> None:
    mebibyte = 1024 * 1024
    assert bounded_rows(20_000, None) == 20_000
    assert bounded_rows(10_000, 100) == 8 * mebibyte // 100
    assert bounded_rows(10_000_000, 1000) == 512 * mebibyte // 1000
    assert bounded_rows(10_000, mebibyte) == 512
    assert bounded_rows(10_000, 1024 * mebibyte) == 1
