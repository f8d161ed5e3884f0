"""Which records, batches and markers a cleaning keeps: Kafka's rules, one by one."""

from __future__ import annotations

import pytest

from penstock.log.batches import BatchAnomaly
from penstock.log.config import NEVER
from penstock.log.partition_log import PartitionLog
from penstock.protocol.compression import Compression
from penstock.protocol.record_batch import DELETE_HORIZON_FLAG, parse_header
from tests.memory_filesystem import MemoryFileSystem
from tests.record_batches import Record, encode_batch
from tests.unit.log.cleaning.compacted_logs import (
    DAY_MS,
    DIRECTORY,
    clean_log,
    compact,
    compacting,
    contents,
    headers_of,
    put,
    records_of,
    seal,
)
from tests.unit.log.stored_batches import NOW_MS, append, make_marker, open_log


@pytest.fixture
def fs() -> MemoryFileSystem:
    return MemoryFileSystem()


@pytest.fixture
def log(fs: MemoryFileSystem) -> PartitionLog:
    return open_log(fs, DIRECTORY, compacting(segment_bytes=100_000))


def clean_again(log: PartitionLog, fs: MemoryFileSystem, now_ms: int) -> None:
    """A record that makes the log dirty, and a cleaning."""
    put(log, ("filler", f"{now_ms}"))
    seal(log)
    assert compact(log, fs, now_ms)


@pytest.mark.parametrize("compression", Compression)
def test_the_newest_record_of_each_key_stays_where_it_was(
    fs: MemoryFileSystem, log: PartitionLog, compression: Compression
) -> None:
    put(log, ("a", "1"), ("b", "1"), ("a", "2"), compression=compression)
    put(log, ("c", "1"), ("b", "2"), compression=compression)
    seal(log)
    before = records_of(log)
    assert compact(log, fs)
    assert contents(log) == [(2, "a", "2"), (3, "c", "1"), (4, "b", "2")]
    assert set(records_of(log)) <= set(before), "timestamps too"
    assert [(header.base_offset, header.end_offset) for header in headers_of(log)] == [(0, 3), (3, 5)]


def test_keys_are_distinguished_by_all_of_their_bytes(fs: MemoryFileSystem, log: PartitionLog) -> None:
    keys = ["", "k", "k" * 15, "k" * 16, "k" * 17, "k" * 1000, "k" * 999 + "l"]
    for key in keys:
        put(log, (key, "1"), (key, "2"))
    seal(log)
    assert compact(log, fs)
    assert [(key, value) for _, key, value in contents(log)] == [(key, "2") for key in keys]


def test_records_without_a_key_go(fs: MemoryFileSystem, log: PartitionLog) -> None:
    """A topic may become compacted when it has some; later ones are refused."""
    put(log, (None, "1"), ("a", "1"))
    seal(log)
    assert compact(log, fs)
    assert contents(log) == [(1, "a", "1")]


def test_a_batch_that_stays_whole_keeps_its_bytes(fs: MemoryFileSystem, log: PartitionLog) -> None:
    put(log, ("a", "1"), compression=Compression.ZSTD)
    put(log, ("b", "1"))
    put(log, ("b", "2"))
    seal(log)
    before = log.read(0, 1 << 20, log.log_end_offset).read()
    first = headers_of(log)[0].size
    assert compact(log, fs)
    assert log.read(0, 1 << 20, log.log_end_offset).read()[:first] == before[:first]


def test_a_segment_without_changes_is_not_replaced(fs: MemoryFileSystem, log: PartitionLog) -> None:
    put(log, ("a", "1"), ("b", "1"))
    seal(log)
    result = clean_log(log, fs)
    assert result is not None
    assert result.replacements == ()
    assert log.lifecycle.begin_swap(result, NOW_MS)
    log.lifecycle.complete_swap()
    assert log.lifecycle.cleaned_offset == 2
    assert not [name for name in fs.list_directory(DIRECTORY) if name.endswith(".cleaned")]


class TestTombstones:
    def test_a_tombstone_gets_a_horizon_and_goes_after_it(self, fs: MemoryFileSystem, log: PartitionLog) -> None:
        put(log, ("a", "1"))
        put(log, ("a", None), ("b", "1"))
        seal(log)
        assert compact(log, fs, NOW_MS)
        assert contents(log) == [(1, "a", None), (2, "b", "1")]
        (header,) = headers_of(log)
        assert header.attributes & DELETE_HORIZON_FLAG
        assert header.delete_horizon_ms == header.base_timestamp == NOW_MS + DAY_MS
        assert [record.timestamp for record in records_of(log)] == [NOW_MS, NOW_MS + 1], "relative to the horizon"
        clean_again(log, fs, NOW_MS + DAY_MS - 1)
        assert (1, "a", None) in contents(log)
        clean_again(log, fs, NOW_MS + DAY_MS)
        assert [key for _, key, _ in contents(log)] == ["b", "filler"]
        assert headers_of(log)[0].delete_horizon_ms == NOW_MS + DAY_MS

    def test_the_longest_retention_there_is(self, fs: MemoryFileSystem, log: PartitionLog) -> None:
        log.config = compacting(segment_bytes=100_000, delete_retention_ms=NEVER)
        put(log, ("a", None), ("b", "1"), timestamp=-1)
        seal(log)
        assert compact(log, fs)
        assert [(record.key, record.timestamp) for record in records_of(log)] == [(b"a", -1), (b"b", 0)]
        (header,) = headers_of(log)
        assert (header.delete_horizon_ms, header.max_timestamp) == (NEVER, 0)

    def test_timestamps_that_wrap_around(self, fs: MemoryFileSystem, log: PartitionLog) -> None:
        records = [Record(None, b"a", NEVER), Record(b"1", b"a", NEVER + 2), Record(b"1", b"b", NEVER + 5)]
        batch = encode_batch(records, max_timestamp=NEVER)
        append(log, (memoryview(batch), parse_header(batch)))
        put(log, ("b", None))
        seal(log)
        assert compact(log, fs)
        assert contents(log) == [(1, "a", "1"), (3, "b", None)]

    def test_a_newer_value_replaces_it_at_once(self, fs: MemoryFileSystem, log: PartitionLog) -> None:
        put(log, ("a", None))
        put(log, ("a", "1"))
        seal(log)
        assert compact(log, fs)
        assert contents(log) == [(1, "a", "1")]


class TestProducers:
    def test_the_last_batch_of_a_producer_stays_without_its_records(
        self, fs: MemoryFileSystem, log: PartitionLog
    ) -> None:
        put(log, ("a", "1"), ("a", "2"), producer=(7, 3, 0))
        put(log, ("a", "3"), ("a", "4"), producer=(7, 3, 2), compression=Compression.GZIP)
        put(log, ("a", "5"))
        seal(log)
        assert compact(log, fs)
        assert contents(log) == [(4, "a", "5")]
        emptied = headers_of(log)[0]
        assert (emptied.records_count, emptied.compression) == (0, Compression.NONE)
        assert (emptied.base_offset, emptied.end_offset, emptied.base_sequence, emptied.last_sequence) == (2, 4, 2, 3)
        assert (emptied.producer_id, emptied.producer_epoch) == (7, 3)

    def test_its_sequence_is_known_when_only_the_log_is_left(self, fs: MemoryFileSystem, log: PartitionLog) -> None:
        put(log, ("a", "1"), ("a", "2"), producer=(7, 0, 0))
        put(log, ("a", "3"))
        seal(log)
        assert compact(log, fs)
        log.close()
        for name in fs.list_directory(DIRECTORY):
            if name.endswith(".snapshot"):
                fs.remove_file(f"{DIRECTORY}/{name}")
        again = open_log(fs, DIRECTORY, compacting())
        assert again.producer_state.entries[7].batches[-1].last_sequence == 1

    def test_a_producer_that_expired_leaves_nothing(self, fs: MemoryFileSystem, log: PartitionLog) -> None:
        put(log, ("a", "1"), producer=(7, 0, 0))
        put(log, ("a", "2"))
        seal(log)
        log.remove_expired_producers(NOW_MS + 2 * DAY_MS)
        assert compact(log, fs)
        assert [header.producer_id for header in headers_of(log)] == [-1]


class TestTransactions:
    def test_aborted_data_goes_and_hides_nothing(self, fs: MemoryFileSystem, log: PartitionLog) -> None:
        put(log, ("a", "committed"), producer=(1, 0, 0), transactional=True)
        append(log, make_marker(1, 0, committed=True))
        put(log, ("a", "aborted"), producer=(1, 0, 1), transactional=True)
        append(log, make_marker(1, 0, committed=False))
        seal(log)
        assert compact(log, fs)
        assert contents(log) == [(0, "a", "committed")]

    def test_a_marker_goes_after_its_data_and_its_horizon(self, fs: MemoryFileSystem, log: PartitionLog) -> None:
        for number, committed in enumerate([True, False]):
            put(log, ("a", "old"), producer=(1, 0, number), transactional=True)
            append(log, make_marker(1, 0, committed=committed))
        put(log, ("a", "new"), producer=(1, 0, 2), transactional=True)
        append(log, make_marker(1, 0, committed=True))
        put(log, ("b", "1"))
        seal(log)
        markers = [1, 3]
        assert compact(log, fs, NOW_MS)
        found = {header.base_offset: header for header in headers_of(log)}
        assert [found[offset].delete_horizon_ms for offset in markers] == [None, None], "this pass removed the data"
        assert log.aborted_transactions(0, log.log_end_offset)
        clean_again(log, fs, NOW_MS)
        found = {header.base_offset: header for header in headers_of(log)}
        assert [found[offset].delete_horizon_ms for offset in markers] == [NOW_MS + DAY_MS] * 2
        assert log.aborted_transactions(0, log.log_end_offset) == [], "without its data it would hide later records"
        clean_again(log, fs, NOW_MS + DAY_MS)
        found = {header.base_offset: header for header in headers_of(log)}
        assert not found.keys() & set(markers)
        assert found[5].records_count == 1, "the marker of data that is still there"
        assert contents(log)[0] == (4, "a", "new")

    def test_data_that_is_not_cleaned_yet_stays_aborted(self, fs: MemoryFileSystem, log: PartitionLog) -> None:
        put(log, ("a", "1"))
        put(log, ("b", "1"))
        put(log, ("c", "aborted"), producer=(1, 0, 0), transactional=True)
        append(log, make_marker(1, 0, committed=False))
        put(log, ("a", "2"))
        put(log, ("a", "3"))
        seal(log)
        assert compact(log, fs, keys_max=1)
        assert log.lifecycle.cleaned_offset == 1
        log.config = compacting(segment_bytes=100_000, index_interval_bytes=0)
        assert contents(log)[2] == (2, "c", "aborted")
        assert [each.first_offset for each in log.aborted_transactions(0, log.log_end_offset)] == [2]

    def test_what_is_undecided_is_not_cleaned(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, DIRECTORY, compacting(segment_bytes=150))
        put(log, ("a", "1"))
        put(log, ("a", "2"))
        put(log, ("t", "open"), producer=(1, 0, 0), transactional=True)
        put(log, ("a", "3"))
        seal(log)
        assert compact(log, fs)
        assert log.lifecycle.cleaned_offset == 2
        assert contents(log) == [(1, "a", "2"), (2, "t", "open"), (3, "a", "3")]


def test_more_keys_than_memory_take_several_passes(fs: MemoryFileSystem, log: PartitionLog) -> None:
    for number in range(20):
        put(log, (f"key {number % 10}", f"{number}"))
    seal(log)
    reached = []
    while compact(log, fs, keys_max=3):
        reached.append(log.lifecycle.cleaned_offset)
    assert reached == [3, 6, 9, 12, 15, 18, 20]
    assert contents(log) == [(number, f"key {number - 10}", f"{number}") for number in range(10, 20)]


def test_the_end_of_the_replaced_segments_stays_visible(fs: MemoryFileSystem, log: PartitionLog) -> None:
    """A start finds it in the file itself; a follower could otherwise not reach the end of its leader's log."""
    put(log, ("a", "1"))
    put(log, ("b", "aborted"), producer=(1, 0, 0), transactional=True)
    seal(log)
    append(log, make_marker(1, 0, committed=False))
    log.remove_expired_producers(NOW_MS + 2 * DAY_MS)
    assert compact(log, fs)
    assert [(header.base_offset, header.records_count) for header in headers_of(log)][:2] == [(0, 1), (1, 0)]


def test_a_damaged_segment_is_not_cleaned(fs: MemoryFileSystem, log: PartitionLog) -> None:
    put(log, ("a", "1"))
    put(log, ("a", "2"))
    seal(log)
    path = f"{DIRECTORY}/{0:020d}.log"
    content = bytearray(fs.read_file(path))
    content[-3] ^= 1
    fs.put(path, bytes(content))
    with pytest.raises(BatchAnomaly, match=r"00000000000000000000\.log: the CRC32C does not match"):
        clean_log(log, fs)


def test_a_checkpoint_beyond_the_log_is_replaced(fs: MemoryFileSystem, log: PartitionLog) -> None:
    """As of a log that was restored from a backup. Otherwise it would be dirty for ever."""
    put(log, ("a", "1"))
    put(log, ("a", "2"))
    seal(log)
    log.lifecycle.cleaned_offset = 1000
    assert compact(log, fs)
    assert contents(log) == [(1, "a", "2")]
    assert log.lifecycle.cleaned_offset == 2
    assert not compact(log, fs)


def test_a_log_that_was_compacted_has_gaps_for_ever(fs: MemoryFileSystem, log: PartitionLog) -> None:
    put(log, ("a", "1"))
    put(log, ("a", "2"))
    seal(log)
    assert compact(log, fs)
    plain = compacting(compacts=False, deletes=True, contiguous_offsets=True)
    log.config = plain
    assert contents(log) == [(1, "a", "2")]
    log.close()
    again = PartitionLog.open(
        DIRECTORY,
        plain,
        fs,
        clean_shutdown=False,
        cleaned_offset=log.lifecycle.cleaned_offset,
        now_ms=NOW_MS,
        report_damage=lambda damage: pytest.fail(str(damage)),
    )
    assert contents(again) == [(1, "a", "2")]
