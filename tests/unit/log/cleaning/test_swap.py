"""Cleaned segments replace the old ones whole, wherever the process is killed or the power fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from penstock.log.damage import Damage
from penstock.log.partition_log import PartitionLog
from tests.memory_filesystem import MemoryFileSystem
from tests.stopping_filesystem import Stopped, StoppingFileSystem
from tests.unit.log.cleaning.compacted_logs import (
    DIRECTORY,
    batches_of,
    clean_log,
    compact,
    compacting,
    contents,
    put,
    seal,
)
from tests.unit.log.stored_batches import NOW_MS, append, make_marker, open_log

Lose = Callable[[StoppingFileSystem], MemoryFileSystem]


def written_log(fs: MemoryFileSystem) -> PartitionLog:
    """Several groups of several segments, with keys that come again, transactions and tombstones."""
    log = open_log(fs, DIRECTORY, compacting())
    for number in range(14):
        put(log, (f"k{number % 3}", f"value {number}"), (f"j{number % 5}", "x" * 20))
        if number % 4 == 0:
            put(log, ("t", f"aborted {number}"), producer=(7, 0, number // 4), transactional=True)
            append(log, make_marker(7, 0, committed=number % 8 == 0))
    put(log, ("k0", None))
    seal(log)
    log.config = compacting(segment_bytes=900)  # so that several segments become one
    return log


def reopened(fs: MemoryFileSystem, recovery_point: int) -> tuple[PartitionLog, list[Damage]]:
    """The log, and its damage. Snapshots are not synced: a power failure may damage them, and they are rebuilt."""
    damage: list[Damage] = []
    log = open_log(fs, DIRECTORY, compacting(), clean=False, recovery_point=recovery_point, damage=damage)
    return log, [each for each in damage if not each.file.endswith(".snapshot")]


def swap(fs: StoppingFileSystem, log: PartitionLog) -> None:
    assert compact(log, fs)
    for path in log.lifecycle.take_retired(NOW_MS + 2000):
        fs.remove_file(path)


@pytest.fixture(scope="module")
def old_and_new() -> tuple[list[bytes], list[bytes], int]:
    """The batches before and after, and how many operations the cleaning and the swap take."""
    fs = StoppingFileSystem()
    log = written_log(fs)
    old, before = batches_of(log), len(log.segment_base_offsets)
    fs.operations_left = 1_000_000
    swap(fs, log)
    operations = 1_000_000 - fs.operations_left
    assert 2 < len(log.segment_base_offsets) < before
    new = batches_of(log)
    assert len(b"".join(new)) < len(b"".join(old)) - 300
    return old, new, operations


LOSSES: dict[str, Lose] = {
    "killed": lambda fs: fs.copy(),
    "power failure, nothing unsynced is kept": lambda fs: fs.crash(),
    "power failure, all names and bytes are kept": lambda fs: fs.crash(lambda path, unsynced: max(1, unsynced)),
    "power failure, every second name is kept": lambda fs: fs.crash(lambda path, unsynced: sum(path.encode()) % 2),
}


@pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES)
def test_a_stop_at_any_operation_leaves_the_old_or_the_new_segments(
    lose: Lose, old_and_new: tuple[list[bytes], list[bytes], int]
) -> None:
    old, new, operations = old_and_new
    outcomes = []
    for stop_at in range(operations):
        fs = StoppingFileSystem()
        log = written_log(fs)
        fs.operations_left = stop_at
        with pytest.raises(Stopped):
            swap(fs, log)
        fs.operations_left = None
        after = lose(fs)
        again, damage = reopened(after, log.recovery_point)
        found = batches_of(again)
        assert found in (old, new), f"operation {stop_at}"
        assert damage == [], f"operation {stop_at}"
        assert again.log_end_offset == log.log_end_offset
        assert not [
            name for name in after.list_directory(DIRECTORY) if name.endswith((".cleaned", ".swap", ".deleted"))
        ]
        assert again._state.transaction_index.entries == replayed_index(after, log.recovery_point)
        outcomes.append(found == new)
    assert outcomes == sorted(outcomes), "once the new segments count, they stay"
    assert set(outcomes) == {False, True}, "stops came before and after the new segments began to count"
    assert False in outcomes


def replayed_index(fs: MemoryFileSystem, recovery_point: int) -> list[tuple[int, int, int, int]]:
    """The aborted transactions as the batches alone tell them."""
    copy = fs.copy()
    for name in copy.list_directory(DIRECTORY):
        if name.endswith((".txnindex", ".snapshot")) or name == "transaction-index-checkpoint":
            copy.remove_file(f"{DIRECTORY}/{name}")
    return reopened(copy, 0)[0]._state.transaction_index.entries


def test_a_start_may_be_killed_as_well(old_and_new: tuple[list[bytes], list[bytes], int]) -> None:
    old, new, operations = old_and_new
    for stop_at in range(0, operations, 4):
        for stop_start_at in range(0, 40, 3):
            fs = StoppingFileSystem()
            log = written_log(fs)
            fs.operations_left = stop_at
            with pytest.raises(Stopped):
                swap(fs, log)
            starting = fs.copy()
            assert isinstance(starting, StoppingFileSystem)
            starting.operations_left = stop_start_at
            try:
                reopened(starting, log.recovery_point)
            except Stopped:
                pass
            else:
                break
            starting.operations_left = None
            again, damage = reopened(starting.copy(), log.recovery_point)
            assert batches_of(again) in (old, new)
            assert damage == []


def steps(log: PartitionLog) -> Iterator[None]:
    """The swap, step by step."""
    while (sync := log.lifecycle.advance_swap()) is not None:
        yield
        sync()
        yield


class TestBetweenTheSteps:
    """What a broker does while the disk is waited for."""

    def test_readers_and_writers_go_on(self) -> None:
        fs = MemoryFileSystem()
        log = written_log(fs)
        slices = [log.read(offset, 1 << 20, log.log_end_offset) for offset in range(0, log.log_end_offset, 5)]
        before = [each.read() for each in slices]
        newest = {key: value for _, key, value in contents(log) if not (value or "").startswith("aborted")}
        result = clean_log(log, fs)
        assert result is not None
        assert log.lifecycle.begin_swap(result, NOW_MS)
        for number, _ in enumerate(steps(log)):
            found = contents(log)
            assert [offset for offset, _, _ in found] == sorted({offset for offset, _, _ in found})
            put(log, ("new", f"{number}"))
            newest["new"] = f"{number}"
            assert {key: value for _, key, value in contents(log) if key != "t"}.items() >= {
                key: value for key, value in newest.items() if key != "t"
            }.items()
        assert [each.read() for each in slices] == before, "a reader in the middle of a segment notices nothing"

    @pytest.mark.parametrize("step", range(8))
    @pytest.mark.parametrize("how", ["delete_records", "truncate", "close", "retention"])
    def test_changes_of_the_segments(self, step: int, how: str) -> None:
        fs = MemoryFileSystem()
        log = written_log(fs)
        end = log.log_end_offset
        put(log, ("late", "1"), ("late", "2"))
        result = clean_log(log, fs)
        assert result is not None
        assert log.lifecycle.begin_swap(result, NOW_MS)
        for number, _ in enumerate(steps(log)):
            if number == step:
                break
        if how == "delete_records":
            log.delete_records_before(end - 3)
            assert all(offset >= end - 3 or key for offset, key, _ in contents(log))
        elif how == "truncate":
            log.truncate_to(end - 8)
            assert log.log_end_offset <= end - 8
        elif how == "retention":
            log.config = compacting(deletes=True, retention_bytes=0)
            log.lifecycle.delete_old_segments(log.log_end_offset, NOW_MS)
        if how == "close":
            log.close()
            again = open_log(fs, DIRECTORY, compacting())
            assert len(b"".join(batches_of(again))) < result.bytes_read, "the swap was completed first"
            return
        expected = batches_of(log)
        while (sync := log.lifecycle.advance_swap()) is not None:
            sync()
        if how != "retention":  # which has deleted nothing
            assert batches_of(log) == expected
        expected = batches_of(log)
        start = log.log_start_offset
        log.close()
        damage: list[Damage] = []
        again = open_log(fs, DIRECTORY, compacting(), log_start_offset=start, damage=damage)
        assert batches_of(again) == expected
        assert damage == []


def test_segments_that_were_deleted_meanwhile_are_not_brought_back() -> None:
    fs = MemoryFileSystem()
    log = written_log(fs)
    result = clean_log(log, fs)
    assert result is not None
    log.delete_records_before(result.replacements[0].end_offset)
    assert log.lifecycle.begin_swap(result, NOW_MS)
    log.lifecycle.complete_swap()
    assert log.segment_base_offsets[0] == result.replacements[1].base_offset
    assert not [name for name in fs.list_directory(DIRECTORY) if name.endswith(".cleaned")]


def test_a_cleaning_of_segments_that_changed_is_not_used() -> None:
    fs = MemoryFileSystem()
    log = written_log(fs)
    result = clean_log(log, fs)
    assert result is not None
    assert len(result.replacements[0].replaced) > 1
    log.delete_records_before(result.replacements[0].replaced[1])
    before = batches_of(log)
    assert not log.lifecycle.begin_swap(result, NOW_MS)
    assert batches_of(log) == before
    assert not [name for name in fs.list_directory(DIRECTORY) if name.endswith(".cleaned")]


def test_files_of_an_earlier_cleaning_do_not_endanger_a_swap() -> None:
    """A start that found one of them would take the swap for incomplete, when the old segments may be gone already."""
    fs = MemoryFileSystem()
    log = written_log(fs)
    result = clean_log(log, fs)
    assert result is not None
    left = f"{DIRECTORY}/{1:020d}.log.cleaned"
    fs.put(left, b"")
    log.delete_records_before(result.replacements[0].end_offset)
    assert log.lifecycle.begin_swap(result, NOW_MS)
    assert {name[:20] for name in fs.list_directory(DIRECTORY) if name.endswith(".cleaned")} == {
        f"{replacement.base_offset:020d}" for replacement in result.replacements[1:]
    }


def test_a_flush_of_transaction_indexes_completes_a_swap_first() -> None:
    fs = MemoryFileSystem()
    log = written_log(fs)
    result = clean_log(log, fs)
    assert result is not None
    put(log, ("new", "1"))
    assert log.lifecycle.begin_swap(result, NOW_MS)
    assert log.lifecycle.advance_swap() is not None
    log.flush()
    assert not log.lifecycle.is_swapping
    expected = batches_of(log)
    again, damage = reopened(fs.copy(), log.recovery_point)
    assert batches_of(again) == expected
    assert damage == []


def test_replaced_files_stay_for_a_while_and_are_given_out_once() -> None:
    fs = MemoryFileSystem()
    log = written_log(fs)
    compact(log, fs)
    assert log.lifecycle.take_retired(NOW_MS + 999) == []
    retired = log.lifecycle.take_retired(NOW_MS + 1000)
    assert sorted(path.rpartition("/")[2] for path in retired) == sorted(
        name for name in fs.list_directory(DIRECTORY) if name.endswith(".deleted")
    )
    assert retired
    assert log.lifecycle.take_retired(NOW_MS + 1000) == []
