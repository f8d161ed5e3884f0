"""The index of aborted transactions: its format, its files, and their damage."""

from __future__ import annotations

import pytest

from penstock.log.config import LogConfig
from penstock.log.damage import Damage
from penstock.log.partition_log import PartitionLog
from penstock.log.transaction_index import SavedIndex, TransactionIndex
from penstock.log.transaction_index_files import CHECKPOINT_NAME, decode_checkpoint, encode_checkpoint
from tests.memory_filesystem import MemoryFileSystem
from tests.unit.log.stored_batches import NOW_MS, append, make_batch, make_marker, open_log

D = "data/topic-0"
SMALL = LogConfig(segment_bytes=1_000, index_interval_bytes=150)


def index_files(fs: MemoryFileSystem) -> list[str]:
    return sorted(name for name in fs.list_directory(D) if name.endswith(".txnindex"))


def abort_some(log: PartitionLog, first: int, transactions: int) -> None:
    for number in range(first, first + transactions):
        append(log, make_batch(b"x" * 90, producer=(7, 0, number), transactional=True))
        append(log, make_marker(7, 0, committed=False))


def entries(log: PartitionLog) -> list[tuple[int, int, int, int]]:
    return log.producer_state.transactions.aborted.entries


class TestTheIndex:
    def test_an_entry_has_kafkas_bytes(self) -> None:
        index = TransactionIndex()
        index.append(7, 100, 258, 101)
        assert index.encode(0, 1_000).hex() == (
            "0000"  # version
            "0000000000000007"  # producer id
            "0000000000000064"  # first offset
            "0000000000000102"  # last offset: the marker's
            "0000000000000065"  # last stable offset
        )

    def test_a_search_ends_where_nothing_further_can_overlap(self) -> None:
        """A long transaction holds the last stable offset back, so earlier short ones must be found."""
        index = TransactionIndex()
        index.append(7, 0, 5, 2)
        index.append(8, 6, 9, 2)
        index.append(9, 2, 10, 11)
        index.append(7, 11, 15, 16)
        assert index.overlapping(0, 3) == [(7, 0), (9, 2)]
        assert index.overlapping(6, 8) == [(8, 6), (9, 2)]
        assert index.overlapping(0, 16) == [(7, 0), (8, 6), (9, 2), (7, 11)]
        assert index.overlapping(16, 99) == []

    def test_it_can_be_cut_at_both_ends_and_into_files(self) -> None:
        index = TransactionIndex()
        for offset in range(0, 50, 10):
            index.append(7, offset, offset + 5, offset + 6)
        index.truncate(35)
        index.truncate_start(6)
        assert index.entries == [(7, 10, 15, 16), (7, 20, 25, 26)]
        again = TransactionIndex()
        assert index.encode(0, 15) == b""
        assert again.extend(index.encode(15, 25), 15, 25)
        assert again.extend(index.encode(25, 99), 25, 99)
        assert again.entries == index.entries

    def test_replaying_adds_nothing_twice(self) -> None:
        index = TransactionIndex()
        index.append(7, 0, 5, 6)
        index.append(7, 0, 5, 6)
        assert len(index) == 1

    @pytest.mark.parametrize(
        "entry",
        [(7, 20, 15, 16), (7, 10, 15, 17), (7, 10, 99, 16), (7, 10, 9, 10), (7, -1, 15, 16)],
        ids=["backwards", "stable behind its marker", "of the next segment", "of the one before", "negative"],
    )
    def test_impossible_entries_are_refused(self, entry: tuple[int, int, int, int]) -> None:
        writer = TransactionIndex()
        writer.append(*entry)
        content = writer.encode(-1, 1_000)
        index = TransactionIndex()
        assert not index.extend(content, 10, 50)
        assert not index.extend(content[:-1], 0, 1_000)
        assert len(index) == 0

    def test_a_checkpoint_reads_back(self) -> None:
        saved = {0: SavedIndex(34, 1), 1 << 40: SavedIndex(68, (1 << 32) - 1)}
        assert decode_checkpoint(encode_checkpoint(saved)) == saved
        for harmed in (b"", b"0\n1\n", b"1\n0\n", b"0\n1\n5 34\n", b"0\n0\n\xff", encode_checkpoint(saved)[:-1]):
            assert decode_checkpoint(harmed) is None


class TestTheFiles:
    def test_there_is_a_file_for_every_segment_with_an_abort_and_no_other(self) -> None:
        fs = MemoryFileSystem()
        log = open_log(fs, D, SMALL)
        for _ in range(10):
            append(log, make_batch(b"x" * 90))
        abort_some(log, 0, 20)
        log.close()
        with_marker = {max(base for base in log.segment_base_offsets if base <= entry[2]) for entry in entries(log)}
        assert index_files(fs) == [f"{base:020d}.txnindex" for base in sorted(with_marker)]
        assert f"{0:020d}.txnindex" not in index_files(fs)
        assert sum(fs.size(f"{D}/{name}") for name in index_files(fs)) == 34 * 20

    def test_a_log_without_aborts_has_no_file_of_it(self) -> None:
        fs = MemoryFileSystem()
        log = open_log(fs, D, SMALL)
        for number in range(20):
            append(log, make_batch(b"x" * 90, producer=(7, 0, number), transactional=True))
            append(log, make_marker(7, 0, committed=True))
        log.close()
        assert index_files(fs) == []
        assert CHECKPOINT_NAME not in fs.list_directory(D)

    def test_a_sealed_segments_file_is_on_the_disk_once_the_segment_is(self) -> None:
        """Also if it was flushed to its end before it was sealed."""
        fs = MemoryFileSystem()
        log = open_log(fs, D, SMALL)
        flushed = 0
        for number in range(20):
            abort_some(log, number, 1)
            log.flush()
            after = fs.crash()
            damage: list[Damage] = []
            again = open_log(after, D, SMALL, clean=False, recovery_point=log.recovery_point, damage=damage)
            assert entries(again) == entries(log)
            assert [d for d in damage if not d.file.endswith(".snapshot")] == [], "snapshots are not synced"
            flushed = max(flushed, len(index_files(after)))
        assert flushed > 2

    def test_a_file_goes_with_its_segment(self) -> None:
        fs = MemoryFileSystem()
        log = open_log(fs, D, SMALL)
        abort_some(log, 0, 20)
        log.flush()
        boundary = log.segment_base_offsets[2]
        assert len(index_files(fs)) > 3
        log.delete_records_before(boundary)
        assert index_files(fs)[0] == f"{boundary:020d}.txnindex"
        assert log.aborted_transactions(0, 40)[0].first_offset >= boundary - 1
        log.close()
        damage: list[Damage] = []
        again = open_log(fs, D, SMALL, recovery_point=40, log_start_offset=boundary, damage=damage)
        assert entries(again) == entries(log)
        assert damage == []

    @pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
    @pytest.mark.parametrize("end_offset", [0, 1, 8, 13, 39])
    def test_truncating_leaves_no_file_that_says_too_much(self, end_offset: int, clean: bool) -> None:
        fs = MemoryFileSystem()
        log = open_log(fs, D, SMALL)
        abort_some(log, 0, 20)
        log.close()
        log = open_log(fs, D, SMALL, recovery_point=40)
        log.truncate_to(end_offset)
        for _ in range(20):
            append(log, make_batch(b"y" * 90))
        if clean:
            log.close()
        damage: list[Damage] = []
        again = open_log(fs.copy(), D, SMALL, clean=clean, recovery_point=log.recovery_point, damage=damage)
        assert entries(again) == entries(log) == [(7, n, n + 1, n + 2) for n in range(0, end_offset - 1, 2)]
        assert again.first_unstable_offset == log.first_unstable_offset
        assert damage == []

    @pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
    @pytest.mark.parametrize("suffix", [".txnindex", CHECKPOINT_NAME, "index"], ids=["index", "checkpoint", "all"])
    @pytest.mark.parametrize("what", ["missing", "empty", "short", "garbage", "zeros", "one missing", "one entry less"])
    def test_missing_and_damaged_files_are_rebuilt(self, what: str, suffix: str, clean: bool) -> None:
        fs = MemoryFileSystem()
        log = open_log(fs, D, SMALL)
        abort_some(log, 0, 10)
        append(log, make_batch(b"x" * 90, producer=(9, 0, 0), transactional=True))
        abort_some(log, 10, 10)
        log.close() if clean else log.flush()
        names = [name for name in fs.list_directory(D) if name.endswith(suffix)]
        for name in names[1:2] or names if what.startswith("one") else names:
            path = f"{D}/{name}"
            content = fs.read_file(path)
            replacement = {
                "empty": b"",
                "short": content[:-3],
                "garbage": b"\xa5" * len(content),
                "zeros": bytes(len(content)),
                "one entry less": content[:-34],
            }.get(what)
            if replacement is None:
                fs.remove_file(path)
            else:
                fs.put(path, replacement)
        again = open_log(fs, D, SMALL, clean=clean, recovery_point=log.recovery_point)
        assert entries(again) == entries(log)
        assert again.first_unstable_offset == 20
        append(again, make_marker(9, 0, committed=False))
        again.close()
        damage: list[Damage] = []
        third = open_log(fs, D, SMALL, recovery_point=again.log_end_offset, damage=damage)
        assert entries(third) == entries(again)
        assert entries(third)[-1][:2] == (9, 20)
        assert damage == []

    def test_files_that_nothing_vouches_for_are_replaced(self) -> None:
        """As Kafka leaves them, or a copy that lost the checkpoint."""
        fs = MemoryFileSystem()
        log = open_log(fs, D, SMALL)
        for _ in range(20):
            append(log, make_batch(b"x" * 90, timestamp=NOW_MS))
        log.close()
        fs.put(f"{D}/{log.segment_base_offsets[1]:020d}.txnindex", b"\0" * 34)
        again = open_log(fs, D, SMALL, recovery_point=20)
        assert entries(again) == []
        assert index_files(fs) == []
