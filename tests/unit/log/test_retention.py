"""Which segments retention deletes, and what a log does about it."""

from __future__ import annotations

import pytest

from penstock.log.config import LogConfig
from penstock.log.partition_log import PartitionLog
from penstock.protocol.error_codes import BrokerError, ErrorCode
from tests.memory_filesystem import MemoryFileSystem
from tests.unit.log.stored_batches import NOW_MS, append, make_batch, open_log, read_all

D = "data/topic-0"
HOUR_MS = 3600 * 1000


@pytest.fixture
def fs() -> MemoryFileSystem:
    return MemoryFileSystem()


def filled(fs: MemoryFileSystem, config: LogConfig, timestamp: int = NOW_MS) -> PartitionLog:
    """Ten segments of a batch of two records each, an hour apart."""
    log = open_log(fs, D, config)
    for number in range(10):
        append(log, make_batch(b"x" * 90, count=2, timestamp=timestamp + number * HOUR_MS if timestamp >= 0 else -1))
    assert len(log.segment_base_offsets) == 10
    return log


def config(**changed: int | bool) -> LogConfig:
    return LogConfig(segment_bytes=200, **changed)  # type: ignore[arg-type]


def delete(log: PartitionLog, *, now_ms: int = NOW_MS, high_watermark: int | None = None) -> int:
    end = log.log_end_offset if high_watermark is None else high_watermark
    return log.lifecycle.delete_old_segments(end, now_ms)


class TestByTime:
    def test_segments_go_when_their_newest_record_is_too_old(self, fs: MemoryFileSystem) -> None:
        log = filled(fs, config(retention_ms=2 * HOUR_MS))
        assert delete(log, now_ms=NOW_MS + 5 * HOUR_MS) == 3
        assert log.log_start_offset == 6
        assert len(read_all(log)) == 7

    def test_a_young_segment_protects_those_behind_it(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D, config(retention_ms=HOUR_MS))
        for timestamp in (NOW_MS, NOW_MS + 5 * HOUR_MS, NOW_MS, NOW_MS):
            append(log, make_batch(b"x" * 90, timestamp=timestamp))
        assert delete(log, now_ms=NOW_MS + 5 * HOUR_MS) == 1

    def test_the_active_segment_is_rolled_if_all_of_it_is_too_old(self, fs: MemoryFileSystem) -> None:
        log = filled(fs, config(retention_ms=HOUR_MS))
        assert delete(log, now_ms=NOW_MS + 100 * HOUR_MS) == 10
        assert (log.log_start_offset, log.log_end_offset, log.segment_base_offsets) == (20, 20, [20])
        assert delete(log, now_ms=NOW_MS + 200 * HOUR_MS) == 0, "an empty segment stays"
        offset, _ = append(log, make_batch(timestamp=NOW_MS + 200 * HOUR_MS))
        assert offset == 20
        log.close()
        again = open_log(fs, D, config())
        assert (again.log_start_offset, again.log_end_offset) == (20, 21)

    def test_without_timestamps_the_time_of_the_last_write_counts(self, fs: MemoryFileSystem) -> None:
        log = filled(fs, config(retention_ms=HOUR_MS), timestamp=-1)
        fs.clock_ms = NOW_MS
        assert delete(log, now_ms=NOW_MS + HOUR_MS) == 0
        assert delete(log, now_ms=NOW_MS + HOUR_MS + 1) == 10

    def test_nothing_goes_that_is_staged(self, fs: MemoryFileSystem) -> None:
        log = filled(fs, config(retention_ms=HOUR_MS))
        batch, header = make_batch(b"y")
        log.stage(batch, header, 0, NOW_MS)
        assert delete(log, now_ms=NOW_MS + 100 * HOUR_MS) == 9
        log.write_staged()
        assert log.log_end_offset == 21


class TestBySize:
    def test_the_oldest_go_until_the_rest_fits(self, fs: MemoryFileSystem) -> None:
        log = filled(fs, config())
        size = log.size_bytes // 10
        log.config = config(retention_bytes=3 * size + 1)
        assert delete(log) == 6
        assert log.size_bytes == 4 * size, "no less than retention.bytes stays"
        log.config = config(retention_bytes=3 * size)
        assert delete(log) == 1
        assert delete(log) == 0

    def test_minus_one_is_no_limit(self, fs: MemoryFileSystem) -> None:
        assert delete(filled(fs, config()), now_ms=NOW_MS + 10_000 * HOUR_MS) == 0


class TestWhatIsProtected:
    def test_records_above_the_high_watermark(self, fs: MemoryFileSystem) -> None:
        log = filled(fs, config(retention_bytes=0))
        assert delete(log, high_watermark=7) == 3

    def test_topics_that_are_only_compacted(self, fs: MemoryFileSystem) -> None:
        log = filled(fs, config(retention_bytes=0, retention_ms=1, deletes=False))
        assert delete(log, now_ms=NOW_MS + 100 * HOUR_MS) == 0


class TestReaders:
    def test_a_deleted_offset_is_out_of_range(self, fs: MemoryFileSystem) -> None:
        log = filled(fs, config(retention_bytes=0))
        delete(log)
        with pytest.raises(BrokerError) as refusal:
            log.read(0, 1000, log.log_end_offset)
        assert refusal.value.code == ErrorCode.OFFSET_OUT_OF_RANGE

    def test_a_slice_that_is_being_sent_stays_readable(self, fs: MemoryFileSystem) -> None:
        log = filled(fs, config(retention_bytes=0))
        fetched = log.read(0, 1000, log.log_end_offset)
        before = fetched.read()
        delete(log)
        for path in log.lifecycle.take_retired(NOW_MS + HOUR_MS):
            fs.remove_file(path)
        assert fetched.read() == before


class TestFiles:
    def test_they_wait_under_another_name(self, fs: MemoryFileSystem) -> None:
        log = filled(fs, config(retention_bytes=0, file_delete_delay_ms=60_000))
        log.close()  # so that there are indexes
        log = open_log(fs, D, config(retention_bytes=0, file_delete_delay_ms=60_000))
        assert delete(log) == 10
        names = [name for name in fs.list_directory(D) if name.startswith("0" * 20)]
        assert names == [f"{0:020d}{suffix}.deleted" for suffix in (".index", ".log", ".timeindex")]
        assert log.lifecycle.take_retired(NOW_MS + 59_999) == []
        assert len(log.lifecycle.take_retired(NOW_MS + 60_000)) == 30

    def test_a_start_removes_them(self, fs: MemoryFileSystem) -> None:
        log = filled(fs, config(retention_bytes=400))
        delete(log)
        start = log.log_start_offset
        again = open_log(fs.copy(), D, config(), clean=False)
        assert again.log_start_offset == start > 0
        assert not [name for name in again._state.fs.list_directory(D) if name.endswith(".deleted")]

    def test_a_power_failure_may_bring_them_back_whole(self, fs: MemoryFileSystem) -> None:
        log = filled(fs, config(retention_bytes=400))
        log.flush()
        before = read_all(log)
        delete(log)
        again = open_log(fs.crash(), D, config(), clean=False, recovery_point=log.recovery_point)
        assert read_all(again) == before
