from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.ids import TopicPartition
from penstock.pipeline.topics.planning import OffsetRange, divide, limit_rows, tasks_of


def piece(index: int, start: int, end: int) -> OffsetRange:
    return OffsetRange(TopicPartition("t", index), start, end)


def sizes(parts: list[OffsetRange]) -> list[int]:
    return [part.size for part in parts]


def test_one_task_for_each_partition_that_has_records() -> None:
    ranges = [piece(1, 5, 9), piece(0, 0, 3), piece(2, 4, 4)]
    assert divide(ranges, min_partitions=None, max_records_per_partition=None) == [piece(0, 0, 3), piece(1, 5, 9)]


def test_large_partitions_are_divided_until_there_are_enough_tasks() -> None:
    parts = divide([piece(0, 0, 900), piece(1, 0, 100)], min_partitions=10, max_records_per_partition=None)
    assert sizes(parts) == [100] * 10


def test_small_partitions_are_left_whole() -> None:
    parts = divide([piece(0, 0, 1000), piece(1, 0, 1)], min_partitions=4, max_records_per_partition=None)
    assert sizes(parts) == [333, 333, 334, 1]


def test_no_task_reads_more_than_it_may() -> None:
    parts = divide([piece(0, 7, 107), piece(1, 0, 30)], min_partitions=None, max_records_per_partition=40)
    assert sizes(parts) == [33, 33, 34, 30]
    assert parts[0].start_offset == 7
    assert parts[2].end_offset == 107


def test_a_small_batch_is_read_by_one_task() -> None:
    parts = [piece(0, 0, 3), piece(1, 5, 9)]
    assert tasks_of(parts, together_rows=7) == [tuple(parts)]
    assert tasks_of(parts, together_rows=6) == [(piece(0, 0, 3),), (piece(1, 5, 9),)]
    assert tasks_of([], together_rows=7) == []
    assert tasks_of(parts, together_rows=0) == [(piece(0, 0, 3),), (piece(1, 5, 9),)]


def test_many_small_partitions_share_tasks_that_are_about_alike() -> None:
    parts = [piece(index, 0, 131) for index in range(500)]
    tasks = tasks_of(parts, together_rows=16_384)
    assert [sum(part.size for part in task) for task in tasks] == [125 * 131] * 4
    four = [piece(index, 0, 5_000) for index in range(4)]
    assert tasks_of(four, together_rows=16_384) == [tuple(four[:2]), tuple(four[2:])]
    mixed = [piece(0, 0, 100), piece(1, 0, 90_000), piece(2, 0, 100)]
    assert tasks_of(mixed, together_rows=16_384) == [(part,) for part in mixed]


@given(lengths=st.lists(st.integers(1, 500), max_size=40), together_rows=st.integers(0, 1_000))
def test_tasks_keep_every_part_and_their_order(lengths: list[int], together_rows: int) -> None:
    parts = [piece(index, 0, length) for index, length in enumerate(lengths)]
    tasks = tasks_of(parts, together_rows=together_rows)
    assert [part for task in tasks for part in task] == parts
    for task in tasks:
        assert len(task) == 1 or sum(part.size for part in task) <= together_rows


@given(
    lengths=st.lists(st.integers(0, 500), min_size=1, max_size=6),
    min_partitions=st.none() | st.integers(1, 40),
    maximum=st.none() | st.integers(1, 100),
)
def test_every_offset_is_read_once(lengths: list[int], min_partitions: int | None, maximum: int | None) -> None:
    ranges = [piece(index, 10, 10 + length) for index, length in enumerate(lengths)]
    parts = divide(ranges, min_partitions=min_partitions, max_records_per_partition=maximum)
    read = [(part.topic_partition, offset) for part in parts for offset in range(part.start_offset, part.end_offset)]
    assert read == [(whole.topic_partition, o) for whole in ranges for o in range(whole.start_offset, whole.end_offset)]
    assert all(size >= 1 for size in sizes(parts))
    assert maximum is None or all(size <= maximum for size in sizes(parts))


def test_a_limit_is_shared_in_proportion() -> None:
    starts = {TopicPartition("t", 0): 0, TopicPartition("t", 1): 100, TopicPartition("t", 2): 7}
    ends = {TopicPartition("t", 0): 900, TopicPartition("t", 1): 200, TopicPartition("t", 2): 7}
    assert limit_rows(starts, ends, 100) == {
        TopicPartition("t", 0): 90,
        TopicPartition("t", 1): 110,
        TopicPartition("t", 2): 7,
    }


@given(waiting=st.lists(st.integers(0, 10**12), min_size=1, max_size=8), max_rows=st.integers(1, 10**9))
def test_a_limit_lets_every_partition_go_on_and_nothing_beyond(waiting: list[int], max_rows: int) -> None:
    starts = {TopicPartition("t", index): 5 for index in range(len(waiting))}
    ends = {TopicPartition("t", index): 5 + size for index, size in enumerate(waiting)}
    limited = limit_rows(starts, ends, max_rows)
    for partition, end in ends.items():
        assert starts[partition] <= limited[partition] <= end
        assert limited[partition] > starts[partition] or end == starts[partition]
    taken = sum(limited.values()) - sum(starts.values())
    assert taken <= max_rows + len(waiting)
