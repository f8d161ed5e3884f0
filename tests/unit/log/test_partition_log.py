from __future__ import annotations

import errno
from pathlib import Path

import pytest

from penstock.log.config import LogConfig
from penstock.log.damage import Damage
from penstock.log.filesystem import File, RealFileSystem
from penstock.log.partition_log import PartitionLog
from penstock.log.segment_caches import SegmentCaches
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.protocol.record_batch import parse_header
from tests.memory_filesystem import MemoryFileSystem
from tests.unit.log.stored_batches import NOW_MS, append, make_batch, open_log, read_all, split

D = "data/topic-0"
SMALL = LogConfig(segment_bytes=1_000, index_interval_bytes=150)


@pytest.fixture
def fs() -> MemoryFileSystem:
    return MemoryFileSystem()


def fill(log: PartitionLog, batches: int, payload: bytes = b"x" * 90, count: int = 2) -> list[bytes]:
    return [append(log, make_batch(payload, count, NOW_MS + number))[1] for number in range(batches)]


class TestAppending:
    def test_batches_get_consecutive_offsets_and_the_leader_epoch_in_place(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D)
        first, second = make_batch(count=3), make_batch(count=2)
        assert log.stage(*first, 5, NOW_MS) == 0
        assert log.stage(*second, 5, NOW_MS) == 3
        assert log.log_end_offset == 0, "staging shows nothing to readers"
        log.write_staged()
        assert log.log_end_offset == 5
        headers = [parse_header(batch) for batch in read_all(log)]
        assert [(h.base_offset, h.partition_leader_epoch) for h in headers] == [(0, 5), (3, 5)]
        assert log.leader_epochs.entries == [(5, 0)]

    def test_what_was_written_is_read_back_byte_for_byte_over_many_segments(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D, SMALL)
        written = fill(log, 60)
        assert len(log.segment_base_offsets) > 5
        assert log.size_bytes == sum(map(len, written))
        for max_bytes in (1, 200, 1_000, 1 << 20):
            assert read_all(log, max_bytes) == written

    def test_a_segment_never_outgrows_its_size_unless_one_batch_does(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D, SMALL)
        fill(log, 20)
        append(log, make_batch(b"y" * 5_000))
        fill(log, 3)
        sizes = [fs.size(f"{D}/{base:020d}.log") for base in log.segment_base_offsets]
        assert sorted(sizes)[-1] == 5_061
        assert all(size <= 1_000 for size in sorted(sizes)[:-1])

    def test_a_segment_is_rolled_by_the_age_of_its_batches(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D, LogConfig(segment_ms=1_000))
        for timestamp in (NOW_MS, NOW_MS + 1_000, NOW_MS + 1_001, NOW_MS + 1_500):
            append(log, make_batch(timestamp=timestamp))
        assert log.segment_base_offsets == [0, 2]

    def test_batches_without_timestamps_age_by_the_clock(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D, LogConfig(segment_ms=1_000))
        for now_ms in (NOW_MS, NOW_MS + 1_000, NOW_MS + 1_001):
            log.stage(*make_batch(timestamp=-1), 0, now_ms)
            log.write_staged()
        assert log.segment_base_offsets == [0, 2]

    def test_jitter_rolls_earlier_and_always_at_the_same_time(self, fs: MemoryFileSystem) -> None:
        config = LogConfig(segment_ms=1_000_000, segment_jitter_ms=900_000)
        rolled_at = []
        for name in ("a", "b"):
            log = open_log(fs, f"{name}/topic-0", config)
            timestamp = NOW_MS
            while len(log.segment_base_offsets) == 1:
                append(log, make_batch(timestamp=timestamp))
                timestamp += 1_000
            rolled_at.append(timestamp)
        assert all(NOW_MS + 90_000 < at < NOW_MS + 1_000_000 for at in rolled_at)
        assert rolled_at[0] != rolled_at[1]

    def test_a_full_index_rolls_the_segment(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D, LogConfig(index_interval_bytes=100, segment_index_bytes=40))
        fill(log, 40)
        assert len(log.segment_base_offsets) > 3
        assert all(fs.size(f"{D}/{base:020d}.index") <= 40 for base in log.segment_base_offsets[:-1])

    def test_offsets_too_far_from_the_base_offset_roll_the_segment(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D)
        for _ in range(3):
            append(log, make_batch(count=1 << 30))
        assert log.segment_base_offsets == [0, 2 << 30]

    def test_batches_staged_together_may_begin_several_segments(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D, SMALL)
        staged = [make_batch(b"z" * 300, producer=(7, 0, number)) for number in range(20)]
        for batch in staged:
            log.stage(*batch, 0, NOW_MS)
        log.write_staged()
        assert len(log.segment_base_offsets) == 10
        assert read_all(log) == [bytes(batch) for batch, _ in staged]

    def test_more_batches_than_one_system_call_takes(self, tmp_path: Path) -> None:
        log = open_log(RealFileSystem(), str(tmp_path / "topic-0"))
        staged = [make_batch(str(number).encode()) for number in range(3_000)]
        for batch in staged:
            log.stage(*batch, 0, NOW_MS)
        log.write_staged()
        assert read_all(log) == [bytes(batch) for batch, _ in staged]


class TestFailingWrites:
    @pytest.mark.parametrize("space_left", [0, 1, 100, 400, 900, 1_500])
    def test_a_full_disk_takes_nothing_of_what_was_staged_and_works_again_later(
        self, fs: MemoryFileSystem, space_left: int
    ) -> None:
        log = open_log(fs, D, SMALL)
        written = [append(log, make_batch(b"w" * 90, producer=(7, 0, number)))[1] for number in range(4)]
        producers = dict(log.producer_state.entries)
        before = {name: fs.read_file(f"{D}/{name}") for name in fs.list_directory(D) if name.endswith(".log")}
        fs.space_left = space_left
        for number in range(4, 16):
            log.stage(*make_batch(b"n" * 120, producer=(7, 0, number)), 0, NOW_MS)
        with pytest.raises(OSError) as refused:
            log.write_staged()
        assert refused.value.errno == errno.ENOSPC
        assert log.log_end_offset == 4
        assert log.producer_state.entries == producers
        assert read_all(log) == written
        after = {name: fs.read_file(f"{D}/{name}") for name in fs.list_directory(D) if name.endswith(".log")}
        assert after == before
        fs.space_left = None
        for number in range(4, 16):
            written.append(append(log, make_batch(b"n" * 120, producer=(7, 0, number)))[1])
        assert read_all(log) == written

    def test_a_torn_write_is_taken_back(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D)
        written = fill(log, 2)
        fs.torn_write = 30
        with pytest.raises(OSError):
            fill(log, 1)
        assert fs.size(f"{D}/{0:020d}.log") == sum(map(len, written))
        written += fill(log, 1)
        assert read_all(log) == written

    def test_bytes_that_could_not_be_taken_back_are_cut_before_the_next_write(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D)
        written = fill(log, 2)
        fs.torn_write = 200
        fs.truncate_error = errno.EIO
        with pytest.raises(OSError):
            append(log, make_batch(b"long" * 100))
        with pytest.raises(OSError):
            fill(log, 1)
        fs.truncate_error = None
        written += fill(log, 1, b"short")
        assert read_all(log) == written
        assert fs.size(f"{D}/{0:020d}.log") == sum(map(len, written))

    def test_an_epoch_that_was_never_written_is_not_remembered(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D)
        append(log, make_batch(), leader_epoch=1)
        fs.space_left = 30
        with pytest.raises(OSError):
            append(log, make_batch(), leader_epoch=2)
        assert log.leader_epochs.entries == [(1, 0)]
        fs.space_left = None
        append(log, make_batch(), leader_epoch=2)
        assert log.leader_epochs.entries == [(1, 0), (2, 1)]

    def test_a_failed_fsync_moves_no_recovery_point(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D)
        fill(log, 1)
        fs.sync_error = errno.EIO
        with pytest.raises(OSError):
            log.flush()
        assert log.recovery_point == 0


class CountingFile:
    def __init__(self, file: File) -> None:
        self._file = file
        self.bytes_read = 0

    def pread(self, size: int, position: int) -> bytes:
        content = self._file.pread(size, position)
        self.bytes_read += len(content)
        return content


class TestReading:
    def test_a_slice_begins_with_the_batch_that_holds_the_offset(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D, SMALL)
        written = fill(log, 60, count=3)
        for offset in range(log.log_end_offset):
            found = log.read(offset, 1 << 20, log.log_end_offset)
            assert found.first_batch is not None
            assert split(found.read())[0] == written[offset // 3]
            assert len(found) == found.size

    def test_a_slice_ends_at_the_end_offset(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D, SMALL)
        written = fill(log, 60)
        for end_offset in range(0, 120, 2):
            got = []
            offset = 0
            while offset < end_offset:
                batches = split(log.read(offset, 1 << 20, end_offset).read())
                got += batches
                offset = parse_header(batches[-1]).end_offset
            assert got == written[: end_offset // 2]

    def test_the_first_batch_is_whole_unless_the_caller_has_no_room_left(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D)
        written = fill(log, 3)
        assert log.read(0, 10, 6).read() == written[0]
        assert log.read(0, 10, 6, at_least_one_batch=False).size == 0
        assert log.read(0, 200, 6, at_least_one_batch=False).read() == (written[0] + written[1])[:200]

    def test_outside_of_the_log_is_out_of_range_and_its_end_is_empty(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D)
        fill(log, 3)
        for offset in (-1, 7):
            with pytest.raises(BrokerError) as refused:
                log.read(offset, 100, 6)
            assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert log.read(6, 100, 6).read() == b""
        assert log.read(4, 100, 4).read() == b""
        assert log.read(4, 100, 2).read() == b""

    def test_a_slice_survives_the_deletion_of_its_segment(self, tmp_path: Path) -> None:
        log = open_log(RealFileSystem(), str(tmp_path / "topic-0"), SMALL)
        written = fill(log, 20)
        held = log.read(0, 150, log.log_end_offset)
        log.delete_records_before(log.log_end_offset)
        log.move_aside("gone-delete")
        RealFileSystem().remove_directory(str(tmp_path / "topic-0.gone-delete"))
        assert held.read() == written[0]

    def test_the_cost_of_a_read_does_not_depend_on_the_size_of_the_log(self, fs: MemoryFileSystem) -> None:
        """Measured in bytes read: the same for a log ten times as long, at any offset."""

        def bytes_read(batches: int) -> int:
            log = open_log(fs, f"data/t{batches}-0")
            for number in range(batches):
                log.stage(*make_batch(b"x" * 140, timestamp=NOW_MS + number), 0, NOW_MS)
            log.write_staged()
            most = 0
            for offset in range(0, batches, batches // 50):
                file = CountingFile(log.read(offset, 1_000, batches).file)
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr("penstock.log.segment.Segment.file", file)
                    log.read(offset, 1_000, batches)
                most = max(most, file.bytes_read)
            return most

        assert bytes_read(20_000) <= bytes_read(2_000) <= 16_384

    def test_an_index_that_lost_its_entries_costs_one_slow_read(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D)
        for _ in range(1_500):
            log.stage(*make_batch(b"x" * 1_000), 0, NOW_MS)
        log.write_staged()
        log.close()
        fs.put(f"{D}/{0:020d}.index", b"")
        log = open_log(fs, D, recovery_point=1_500)
        first = log.read(1_400, 1_000, 1_500)
        file = CountingFile(first.file)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("penstock.log.segment.Segment.file", file)
            log.read(1_450, 1_000, 1_500)
        assert file.bytes_read <= 16_384

    def test_a_read_detects_an_index_that_was_damaged_after_its_segment_was_verified(
        self, fs: MemoryFileSystem
    ) -> None:
        fs.make_directory(D)
        log = open_log(fs, D, SMALL)
        written = fill(log, 30, count=3)
        log.close()
        damage: list[Damage] = []
        log = PartitionLog.open(
            D,
            SMALL,
            fs,
            clean_shutdown=True,
            recovery_point=90,
            now_ms=NOW_MS,
            report_damage=damage.append,
            caches=SegmentCaches(index_bytes_max=1),  # so that every index is loaded again and again
        )
        assert read_all(log) == written
        path = f"{D}/{0:020d}.index"
        index = bytearray(fs.read_file(path))
        last_offset = int.from_bytes(index[:4], "big")
        index[:4] = (last_offset - 4).to_bytes(4, "big")  # an offset of the batch before
        fs.put(path, bytes(index))
        for offset in range(last_offset + 1):
            found = log.read(offset, 1, 90).first_batch
            assert found is not None
            assert found.base_offset <= offset < found.end_offset


class TestReopening:
    @pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
    def test_everything_is_there_again(self, fs: MemoryFileSystem, clean: bool) -> None:
        log = open_log(fs, D, SMALL)
        written = [append(log, make_batch(b"x" * 90, producer=(7, 0, n)), leader_epoch=n // 9)[1] for n in range(30)]
        if clean:
            log.close()
        damage: list[Damage] = []
        again = open_log(fs.copy(), D, SMALL, clean=clean, recovery_point=30 if clean else 0, damage=damage)
        assert again.log_end_offset == 30
        assert again.segment_base_offsets == log.segment_base_offsets
        assert again.size_bytes == log.size_bytes
        assert again.leader_epochs.entries == log.leader_epochs.entries
        assert again.producer_state.entries[7].batches[-1] == log.producer_state.entries[7].batches[-1]
        assert read_all(again) == written
        written += fill(again, 10)
        assert read_all(again) == written
        assert damage == []

    def test_a_clean_opening_reads_little(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D)
        for number in range(5_000):
            log.stage(*make_batch(b"x" * 140, timestamp=NOW_MS + number), 0, NOW_MS)
        log.write_staged()
        log.close()
        path = f"{D}/{0:020d}.log"
        content = bytearray(fs.read_file(path))
        content[:900_000] = bytes(900_000)  # a read of these bytes would detect the damage
        fs.put(path, bytes(content))
        damage: list[Damage] = []
        assert open_log(fs, D, recovery_point=5_000, damage=damage).log_end_offset == 5_000
        assert damage == []

    @pytest.mark.parametrize("suffix", [".index", ".timeindex", ".snapshot"])
    @pytest.mark.parametrize("what", ["missing", "empty", "short", "garbage", "zeros"])
    def test_a_damaged_derived_file_is_rebuilt(self, fs: MemoryFileSystem, suffix: str, what: str) -> None:
        log = open_log(fs, D, SMALL)
        written = [append(log, make_batch(b"x" * 90, 1, NOW_MS + n, producer=(7, 0, n)))[1] for n in range(30)]
        log.close()
        for name in fs.list_directory(D):
            if name.endswith(suffix):
                path = f"{D}/{name}"
                size = fs.size(path)
                content = {"empty": b"", "short": fs.read_file(path)[:-3], "zeros": bytes(size)}.get(
                    what, b"\xa5" * size
                )
                fs.put(path, content)
                if what == "missing":
                    fs.remove_file(path)
        again = open_log(fs, D, SMALL, recovery_point=30)
        assert read_all(again) == written
        assert again.producer_state.entries[7].batches[-1].last_sequence == 29
        found = again.offset_for_timestamp(NOW_MS + 17)
        assert found is not None
        assert found.read() == written[17]
        again.close()
        third = open_log(fs, D, SMALL, recovery_point=30)
        assert read_all(third) == written

    def test_damage_in_the_middle_is_reported_once_and_stays(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D)
        written = fill(log, 10, count=1)
        path = f"{D}/{0:020d}.log"
        content = bytearray(fs.read_file(path))
        start = sum(map(len, written[:4]))
        content[start + 80] ^= 1
        for clean in (True, False):
            harmed = fs.copy()
            harmed.put(path, bytes(content))
            damage: list[Damage] = []
            again = open_log(harmed, D, clean=clean, recovery_point=10, damage=damage)
            assert again.log_end_offset == 10
            for _ in range(2):
                assert split(again.read(0, 1 << 20, 10).read()) == written[:4], (
                    "a read before the damage ends before it"
                )
                with pytest.raises(BrokerError) as refused:
                    again.read(4, 1 << 20, 10)
                assert refused.value.code == ErrorCode.CORRUPT_MESSAGE
                assert split(again.read(5, 1 << 20, 10).read()) == written[5:], "what follows stays readable"
            assert [(d.file, d.position, d.length, d.removed) for d in damage] == [
                (path, start, len(written[4]), False)
            ]
            assert harmed.read_file(path) == content

    def test_a_flushed_batch_that_is_damaged_at_the_end_is_not_cut(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D)
        written = fill(log, 3, count=1)
        path = f"{D}/{0:020d}.log"
        content = bytearray(fs.read_file(path))
        content[-1] ^= 1
        harmed = fs.copy()
        harmed.put(path, bytes(content))
        damage: list[Damage] = []
        again = open_log(harmed, D, clean=False, recovery_point=3, damage=damage)
        assert again.log_end_offset == 3, "its offset stays taken"
        assert harmed.read_file(path) == content
        assert [d.removed for d in damage] == [False]
        base_offset, added = append(again, make_batch(b"after"))
        assert base_offset == 3
        assert again.segment_base_offsets == [0, 3]
        assert split(again.read(0, 1 << 20, 4).read()) == written[:2]
        assert again.read(3, 1 << 20, 4).read() == added

    def test_the_same_batch_unflushed_is_a_torn_tail(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D)
        written = fill(log, 3, count=1)
        path = f"{D}/{0:020d}.log"
        content = bytearray(fs.read_file(path))
        content[-1] ^= 1
        fs.put(path, bytes(content))
        damage: list[Damage] = []
        again = open_log(fs, D, clean=False, recovery_point=2, damage=damage)
        assert again.log_end_offset == 2
        assert [(d.position, d.length, d.removed) for d in damage] == [(2 * len(written[0]), len(written[2]), True)]
        assert read_all(again) == written[:2]

    def test_a_missing_segment_is_damage_and_not_skipped(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D, SMALL)
        written = fill(log, 30, count=1)
        log.close()
        lost, after = log.segment_base_offsets[1:3]
        fs.remove_file(f"{D}/{lost:020d}.log")
        damage: list[Damage] = []
        again = open_log(fs, D, SMALL, recovery_point=30, damage=damage)
        with pytest.raises(BrokerError):
            again.read(lost, 1 << 20, 30)
        assert split(again.read(after, 1 << 20, 30).read())[0] == written[after]
        assert len(damage) == 1


class TestFlushing:
    def test_what_was_flushed_survives_a_power_failure(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D, SMALL)
        written = fill(log, 20)
        ticket = log.begin_flush()
        later = fill(log, 20)
        ticket.sync()
        assert log.complete_flush(ticket) == 40 == log.recovery_point
        after = fs.crash()
        again = open_log(after, D, SMALL, clean=False, recovery_point=40)
        assert read_all(again)[:20] == written
        assert read_all(log) == written + later
        log.flush()
        assert read_all(open_log(fs.crash(), D, SMALL, clean=False, recovery_point=80)) == written + later

    def test_what_was_flushed_survives_a_power_failure_behind_a_truncation(self, fs: MemoryFileSystem) -> None:
        """The checkpoint of leader epochs had a new content that was not synced when the directory was."""
        log = open_log(fs, D)
        written = [append(log, make_batch())[1]]
        log.flush()
        for _ in range(2):
            append(log, make_batch(), leader_epoch=1)
        log.truncate_to(2)
        damage: list[Damage] = []
        again = open_log(fs.crash(), D, clean=False, recovery_point=log.recovery_point, damage=damage)
        assert read_all(again)[:1] == written
        assert again.leader_epochs.entries == [(0, 0), (1, 1)]
        assert damage == []

    def test_flushing_again_without_an_append_syncs_nothing(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D)
        fill(log, 2)
        log.flush()
        before = fs.synced_files
        log.flush()
        assert fs.synced_files == before

    def test_a_rolled_segment_waits_for_a_flush(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D, SMALL)
        waiting = []
        for step in (lambda: fill(log, 2), lambda: fill(log, 20), log.flush):
            step()
            waiting.append(log.has_unflushed_sealed_segment)
        assert waiting == [False, True, False]

    def test_one_append_needs_one_sync(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D)
        fill(log, 2)
        log.flush()
        fill(log, 2)
        before = fs.synced_files
        log.flush()
        assert fs.synced_files == before + 1


class TestDeletingAndTruncating:
    def test_deleting_records_moves_the_start_and_removes_whole_segments(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D, SMALL)
        written = fill(log, 30, count=1)
        boundary = log.segment_base_offsets[3]
        log.delete_records_before(boundary + 1)
        assert log.log_start_offset == boundary + 1
        assert log.segment_base_offsets[0] == boundary
        assert read_all(log) == written[boundary + 1 :]
        with pytest.raises(BrokerError) as refused:
            log.read(boundary, 100, 30)
        assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
        log.delete_records_before(3)
        assert log.log_start_offset == boundary + 1, "the start never moves back"
        with pytest.raises(BrokerError):
            log.delete_records_before(31)
        log.close()
        again = open_log(fs, D, SMALL, recovery_point=30, log_start_offset=boundary + 1)
        assert read_all(again) == written[boundary + 1 :]

    def test_deleting_inside_a_batch_keeps_the_batch(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D)
        written = fill(log, 3, count=10)
        log.delete_records_before(15)
        log.close()
        damage: list[Damage] = []
        again = open_log(fs, D, recovery_point=30, log_start_offset=15, damage=damage)
        assert split(again.read(15, 1 << 20, 30).read()) == written[1:]
        assert damage == []

    def test_deleting_everything_leaves_an_empty_log_that_goes_on(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D, SMALL)
        fill(log, 30, count=1)
        log.delete_records_before(30)
        assert (log.log_start_offset, log.log_end_offset) == (30, 30)
        assert len(log.segment_base_offsets) == 1
        assert append(log, make_batch())[0] == 30

    @pytest.mark.parametrize("end_offset", [0, 1, 7, 12, 29])
    def test_truncating_takes_the_batch_with_the_offset_and_all_behind_it(
        self, fs: MemoryFileSystem, end_offset: int
    ) -> None:
        log = open_log(fs, D, SMALL)
        written = [append(log, make_batch(b"x" * 90, producer=(7, 0, n)), leader_epoch=n // 10)[1] for n in range(30)]
        log.flush()
        log.truncate_to(end_offset)
        assert log.log_end_offset == log.recovery_point == end_offset
        assert read_all(log) == written[:end_offset]
        assert log.leader_epochs.latest == (max(0, end_offset - 1) // 10 if end_offset else -1)
        entry = log.producer_state.entries.get(7)
        assert (entry.batches[-1].last_sequence if entry else -1) == end_offset - 1
        more = [append(log, make_batch(b"y" * 50), leader_epoch=5)[1] for _ in range(20)]
        assert read_all(log) == written[:end_offset] + more
        log.close()
        again = open_log(fs, D, SMALL, recovery_point=end_offset + 20)
        assert read_all(again) == written[:end_offset] + more

    def test_moving_aside_frees_the_name(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D)
        fill(log, 1)
        assert log.move_aside("0123-delete") == f"{D}.0123-delete"
        assert fs.list_directory("data") == ["topic-0.0123-delete"]
        assert open_log(fs, D).log_end_offset == 0


class TestTimestamps:
    def test_the_first_batch_that_reaches_a_timestamp(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D, SMALL)
        timestamps = [NOW_MS + (n * 37) % 200 + n * 5 for n in range(80)]
        written = [append(log, make_batch(b"x" * 60, 1, timestamp))[1] for timestamp in timestamps]
        for reopened in (False, True):
            if reopened:
                log.close()
                log = open_log(fs, D, SMALL, recovery_point=80)
            for timestamp in range(NOW_MS - 5, max(timestamps) + 5, 3):
                expected = next((n for n, t in enumerate(timestamps) if t >= timestamp), None)
                found = log.offset_for_timestamp(timestamp)
                assert (None if found is None else found.read()) == (None if expected is None else written[expected])
            newest = log.max_timestamp()
            assert newest is not None
            assert newest.read() == written[timestamps.index(max(timestamps))]

    def test_deleted_batches_are_not_found(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D)
        written = [append(log, make_batch(timestamp=NOW_MS + n))[1] for n in range(5)]
        log.delete_records_before(3)
        found = log.offset_for_timestamp(NOW_MS)
        assert found is not None
        assert found.read() == written[3]

    def test_a_log_without_timestamps_has_no_newest_batch(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D)
        assert log.max_timestamp() is None
        append(log, make_batch(timestamp=-1))
        assert log.max_timestamp() is None
        assert log.offset_for_timestamp(0) is None


def test_a_compacted_log_has_gaps_and_reads_step_over_them(fs: MemoryFileSystem) -> None:
    """What compaction will leave behind: offsets increase, but not one by one."""
    log = open_log(fs, D, LogConfig(segment_bytes=700, index_interval_bytes=150))
    written = fill(log, 30, count=1)
    log.close()
    kept = [batch for number, batch in enumerate(written) if number % 3 == 0]
    for base, upper in zip(log.segment_base_offsets, [*log.segment_base_offsets[1:], 30], strict=True):
        content = b"".join(batch for batch in kept if base <= parse_header(batch).base_offset < upper)
        fs.put(f"{D}/{base:020d}.log", content)
        for suffix in ("index", "timeindex"):
            fs.remove_file(f"{D}/{base:020d}.{suffix}")
    damage: list[Damage] = []
    config = LogConfig(segment_bytes=700, index_interval_bytes=150, contiguous_offsets=False)
    again = open_log(fs, D, config, damage=damage)
    assert read_all(again) == kept
    assert split(again.read(10, 1, again.log_end_offset).read()) == [written[12]]
    assert damage == []
