"""What is cleaned next, and when."""

from __future__ import annotations

from penstock.log.cleaning.plan import SegmentFacts, SourceSegment, cleanable_part, first_dirty_offset, grouped, is_due
from penstock.log.config import LogConfig
from penstock.log.segment import RELATIVE_OFFSET_MAX

NOW_MS = 1_000_000


def facts(*ages_ms: int) -> list[SegmentFacts]:
    """Segments of 10 offsets and 100 bytes whose batches have these ages; the last one is active."""
    return [
        SegmentFacts(10 * number, 10 * number + 10, 100, lambda age=age: NOW_MS - age, lambda age=age: NOW_MS - age)  # type: ignore[misc]
        for number, age in enumerate(ages_ms)
    ]


def part(segments: list[SegmentFacts], config: LogConfig, dirty_from: int = 0, decided_end: int = 1000) -> object:
    return cleanable_part(segments, config, dirty_from=dirty_from, decided_end=decided_end, now_ms=NOW_MS)


def test_a_checkpoint_outside_of_the_log_is_not_used() -> None:
    assert first_dirty_offset(5, 0, 10) == 5
    assert first_dirty_offset(5, 7, 10) == 7
    assert first_dirty_offset(11, 2, 10) == 2


class TestTheCleanablePart:
    def test_the_active_segment_is_not_part_of_it(self) -> None:
        found = cleanable_part(facts(5, 5, 5), LogConfig(), dirty_from=10, decided_end=1000, now_ms=NOW_MS)
        assert found is not None
        assert (found.first_dirty_offset, found.end_offset) == (10, 20)
        assert (found.clean_bytes, found.dirty_bytes, found.dirty_ratio) == (100, 100, 0.5)
        assert part(facts(5), LogConfig()) is None

    def test_it_ends_before_what_is_undecided_or_unflushed(self) -> None:
        found = cleanable_part(facts(5, 5, 5), LogConfig(), dirty_from=0, decided_end=19, now_ms=NOW_MS)
        assert found is not None
        assert found.end_offset == 10
        assert part(facts(5, 5, 5), LogConfig(), decided_end=9) is None

    def test_it_ends_before_what_is_too_young(self) -> None:
        config = LogConfig(min_compaction_lag_ms=50)
        found = cleanable_part(facts(100, 50, 49, 5), config, dirty_from=0, decided_end=1000, now_ms=NOW_MS)
        assert found is not None
        assert found.end_offset == 20

    def test_nothing_is_dirty(self) -> None:
        assert part(facts(5, 5, 5), LogConfig(), dirty_from=20) is None


class TestWhenItIsDue:
    def test_by_the_share_of_dirty_bytes(self) -> None:
        config = LogConfig(min_cleanable_dirty_ratio=0.5)
        for dirty_from, due in ((20, False), (10, True)):
            found = cleanable_part(facts(5, 5, 5, 5), config, dirty_from=dirty_from, decided_end=1000, now_ms=NOW_MS)
            assert found is not None
            assert is_due(found, config) is due

    def test_without_a_largest_age_no_file_is_read(self) -> None:
        def read() -> int:
            raise AssertionError("a file was read")

        segments = [SegmentFacts(0, 10, 100, read, read), SegmentFacts(10, 20, 100, read, read)]
        assert part(segments, LogConfig()) is not None

    def test_by_age(self) -> None:
        for lag_ms, due in ((100, False), (99, True)):
            config = LogConfig(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=lag_ms)
            found = cleanable_part(facts(100, 5, 5), config, dirty_from=0, decided_end=1000, now_ms=NOW_MS)
            assert found is not None
            assert is_due(found, config) is due


class TestGroups:
    def test_neighbours_become_one_segment_while_they_fit(self) -> None:
        segments = [
            SourceSegment(10 * number, 10 * number + 10, size) for number, size in enumerate([40, 60, 1, 200, 5])
        ]
        sizes = [[segment.size for segment in group] for group in grouped(segments, 100)]
        assert sizes == [[40, 60], [1], [200], [5]]

    def test_offsets_stay_near_the_base_offset(self) -> None:
        far = RELATIVE_OFFSET_MAX + 1
        segments = [SourceSegment(0, 10, 1), SourceSegment(10, far, 1), SourceSegment(far, far + 1, 1)]
        assert [len(group) for group in grouped(segments, 100)] == [2, 1]
