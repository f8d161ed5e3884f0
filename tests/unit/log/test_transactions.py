"""Transactions in a log: open, decided, ended by markers, and recovered after a restart."""

from __future__ import annotations

import errno

import pytest

from penstock.log.config import LogConfig
from penstock.log.damage import Damage
from penstock.log.partition_log import PartitionLog
from penstock.log.producer_state import NO_TRANSACTION, ProducerState
from penstock.log.transactions import Transactions
from penstock.protocol.error_codes import BrokerError, ErrorCode
from tests.memory_filesystem import MemoryFileSystem
from tests.unit.log.stored_batches import NOW_MS, append, make_batch, make_marker, open_log, read_all

D = "data/topic-0"
SMALL = LogConfig(segment_bytes=1_000, index_interval_bytes=150)


@pytest.fixture
def fs() -> MemoryFileSystem:
    return MemoryFileSystem()


@pytest.fixture
def log(fs: MemoryFileSystem) -> PartitionLog:
    return open_log(fs, D)


def write(log: PartitionLog, producer_id: int, sequence: int, count: int = 1, epoch: int = 0) -> int:
    """Appends a batch of a transaction, as a producer's that was checked."""
    batch = make_batch(b"x" * 90, count, producer=(producer_id, epoch, sequence), transactional=True)
    assert log.producer_state.check(batch[1]) is None
    return append(log, batch)[0]


def end(log: PartitionLog, producer_id: int, *, committed: bool, epoch: int = 0, coordinator_epoch: int = 0) -> int:
    log.producer_state.check_marker(producer_id, epoch, coordinator_epoch)
    marker = make_marker(producer_id, epoch, committed=committed, coordinator_epoch=coordinator_epoch)
    return append(log, marker)[0]


def stable(log: PartitionLog) -> int:
    return log.last_stable_offset(log.log_end_offset)


def refusal(state: ProducerState, *args: int, epoch_must_be_new: bool = False) -> ErrorCode:
    with pytest.raises(BrokerError) as refused:
        state.check_marker(*args, epoch_must_be_new=epoch_must_be_new)
    return refused.value.code


class TestTheLastStableOffset:
    def test_it_is_the_high_watermark_without_transactions(self, log: PartitionLog) -> None:
        append(log, make_batch(count=3))
        assert log.first_unstable_offset is None
        assert [log.last_stable_offset(offset) for offset in (0, 2, 3)] == [0, 2, 3]

    def test_it_stays_at_the_first_open_transaction(self, log: PartitionLog) -> None:
        append(log, make_batch(count=3))
        write(log, 7, 0)
        write(log, 8, 0)
        write(log, 7, 1)
        assert (log.first_unstable_offset, stable(log)) == (3, 3)
        end(log, 7, committed=True)
        assert (log.first_unstable_offset, stable(log)) == (4, 4)
        end(log, 8, committed=False)
        assert (log.first_unstable_offset, stable(log)) == (None, 8)

    def test_a_marker_decides_nothing_before_the_high_watermark_passed_it(self, log: PartitionLog) -> None:
        write(log, 7, 0)
        write(log, 8, 0)
        assert end(log, 8, committed=True) == 2
        assert end(log, 7, committed=True) == 3
        append(log, make_batch())
        assert log.first_unstable_offset is None
        assert [log.last_stable_offset(offset) for offset in (0, 1, 2, 3, 4, 5)] == [0, 0, 0, 0, 4, 5]

    def test_it_never_lies_before_the_log_start(self, log: PartitionLog) -> None:
        write(log, 7, 0)
        append(log, make_batch(count=5))
        log.delete_records_before(4)
        assert (log.first_unstable_offset, stable(log)) == (4, 4)

    def test_staged_batches_change_nothing_that_readers_see(self, log: PartitionLog) -> None:
        write(log, 7, 0)
        log.stage(*make_marker(7, 0, committed=True), 0, NOW_MS)
        log.stage(*make_batch(producer=(8, 0, 0), transactional=True), 0, NOW_MS)
        assert (log.first_unstable_offset, stable(log)) == (0, 0)
        log.write_staged()
        assert (log.first_unstable_offset, stable(log)) == (2, 2)

    def test_ended_transactions_are_forgotten_once_they_can_be_read(self) -> None:
        transactions = Transactions()
        for offset in range(0, 3_000, 3):
            transactions.begin(7, offset)
            transactions.end(7, offset, offset + 2, True)
        assert transactions.first_unstable_offset(1_500) == 1_500
        assert transactions.first_unstable_offset(2_998) == 2_997
        assert transactions.first_unstable_offset(3_000) is None
        assert not transactions._ended


class TestMarkers:
    def test_a_transaction_begins_with_its_first_batch_and_ends_with_its_marker(self, log: PartitionLog) -> None:
        append(log, make_batch(count=2))
        write(log, 7, 0)
        write(log, 7, 1)
        assert log.producer_state.entries[7].current_transaction_first_offset == 2
        assert log.producer_state.has_open_transaction(7, 0)
        assert not log.producer_state.has_open_transaction(7, 1)
        assert not log.producer_state.has_open_transaction(8, 0)
        end(log, 7, committed=True, coordinator_epoch=4)
        entry = log.producer_state.entries[7]
        assert (entry.current_transaction_first_offset, entry.coordinator_epoch) == (NO_TRANSACTION, 4)
        assert [batch.first_sequence for batch in entry.batches] == [0, 1], "retries are still recognised"
        assert not log.producer_state.has_open_transaction(7, 0)
        assert write(log, 7, 2) == 5
        entry = log.producer_state.entries[7]
        assert (entry.current_transaction_first_offset, entry.coordinator_epoch) == (5, 4)

    def test_a_marker_without_a_transaction_aborts_nothing(self, log: PartitionLog) -> None:
        end(log, 7, committed=False)
        write(log, 8, 0)
        end(log, 8, committed=True)
        end(log, 8, committed=False)
        assert log.aborted_transactions(0, 100) == []
        assert stable(log) == 4

    def test_an_older_coordinator_is_fenced(self, log: PartitionLog) -> None:
        write(log, 7, 0)
        end(log, 7, committed=True, coordinator_epoch=4)
        write(log, 7, 1)
        assert refusal(log.producer_state, 7, 0, 3) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
        log.producer_state.check_marker(7, 0, 4)
        log.producer_state.check_marker(7, 0, 5)

    def test_an_older_producer_epoch_ends_nothing(self, log: PartitionLog) -> None:
        write(log, 7, 0, epoch=3)
        assert refusal(log.producer_state, 7, 2, 0) == ErrorCode.INVALID_PRODUCER_EPOCH

    def test_a_marker_with_a_new_epoch_shuts_out_the_old_one(self, log: PartitionLog) -> None:
        write(log, 7, 0)
        end(log, 7, committed=True, epoch=1)
        late = make_batch(producer=(7, 0, 1), transactional=True)[1]
        with pytest.raises(BrokerError) as refused:
            log.producer_state.check(late)
        assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
        with pytest.raises(BrokerError) as refused:
            log.producer_state.check(make_batch(producer=(7, 1, 1), transactional=True)[1])
        assert refused.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        write(log, 7, 0, epoch=1)

    def test_where_every_transaction_has_its_epoch_a_delayed_marker_is_refused(self, log: PartitionLog) -> None:
        state = log.producer_state
        write(log, 7, 0, epoch=1)
        assert refusal(state, 7, 1, 0, epoch_must_be_new=True) == ErrorCode.INVALID_PRODUCER_EPOCH
        state.check_marker(7, 2, 0, epoch_must_be_new=True)
        end(log, 7, committed=True, epoch=2)
        state.check_marker(7, 2, 0, epoch_must_be_new=True)  # the same marker again: it has nothing left to end
        write(log, 8, 0, epoch=2**15 - 1)
        state.check_marker(8, 2**15 - 1, 0, epoch_must_be_new=True)  # there is no newer epoch

    def test_any_coordinator_may_end_the_transaction_of_an_unknown_producer(self, log: PartitionLog) -> None:
        log.producer_state.check_marker(7, 0, 0, epoch_must_be_new=True)

    def test_a_transaction_takes_only_transactional_batches(self, log: PartitionLog) -> None:
        write(log, 7, 0)
        plain = make_batch(producer=(7, 0, 1))[1]
        with pytest.raises(BrokerError) as refused:
            log.producer_state.check(plain)
        assert refused.value.code == ErrorCode.INVALID_TXN_STATE
        end(log, 7, committed=False)
        assert log.producer_state.check(plain) is None

    def test_batches_that_the_broker_writes_for_a_producer_have_no_sequence(self, log: PartitionLog) -> None:
        state = log.producer_state
        for _ in range(2):
            batch = make_batch(producer=(7, 1, -1), transactional=True)
            state.check_unsequenced(batch[1])
            append(log, batch)
        assert state.entries[7].batches == ()
        assert state.entries[7].current_transaction_first_offset == 0
        for producer, code in (
            ((7, 0, -1), ErrorCode.INVALID_PRODUCER_EPOCH),
            ((7, 1, -1), ErrorCode.INVALID_TXN_STATE),
        ):
            with pytest.raises(BrokerError) as refused:
                state.check_unsequenced(make_batch(producer=producer)[1])
            assert refused.value.code == code

    def test_a_producer_with_an_open_transaction_does_not_expire(self, log: PartitionLog) -> None:
        write(log, 7, 0)
        write(log, 8, 0)
        end(log, 8, committed=True)
        log.producer_state.remove_expired(NOW_MS + 1_000, 100)
        assert set(log.producer_state.entries) == {7}

    def test_a_control_batch_of_another_kind_changes_nothing(self, log: PartitionLog) -> None:
        write(log, 7, 0)
        batch, header = make_marker(7, 0, committed=True)
        batch[61 + 8] = 2  # the type in the key
        append(log, (batch, header))
        assert log.first_unstable_offset == 0


class TestFailingWrites:
    def test_what_could_not_be_written_neither_began_nor_ended_a_transaction(
        self, fs: MemoryFileSystem, log: PartitionLog
    ) -> None:
        write(log, 7, 0)
        write(log, 8, 0)
        before = dict(log.producer_state.entries)
        for batch in (
            make_marker(7, 1, committed=False, coordinator_epoch=9),
            make_batch(producer=(7, 1, 0), transactional=True),
            make_marker(8, 0, committed=True),
            make_batch(producer=(9, 0, 0), transactional=True),
        ):
            log.stage(*batch, 0, NOW_MS)
        fs.write_error = errno.EIO
        with pytest.raises(OSError):
            log.write_staged()
        fs.write_error = None
        assert log.producer_state.entries == before
        assert log.aborted_transactions(0, 100) == []
        assert (log.first_unstable_offset, stable(log)) == (0, 0)
        end(log, 7, committed=True)
        assert stable(log) == 1
        end(log, 8, committed=True)
        assert stable(log) == 4


class TestAbortedTransactions:
    def test_those_that_overlap_what_was_fetched(self, log: PartitionLog) -> None:
        for producer_id, committed in ((7, False), (8, True), (9, False)):
            write(log, producer_id, 0, 3)
            end(log, producer_id, committed=committed)
        assert log.aborted_transactions(0, 12) == [(7, 0), (9, 8)]
        assert log.aborted_transactions(0, 8) == [(7, 0)]
        assert log.aborted_transactions(3, 8) == [(7, 0)], "its marker lies there"
        assert log.aborted_transactions(4, 8) == []
        assert log.aborted_transactions(4, 9) == [(9, 8)]

    def test_a_longer_one_that_ends_later_is_found_behind_a_shorter_one(self, log: PartitionLog) -> None:
        write(log, 7, 0)
        write(log, 8, 0)
        end(log, 7, committed=False)
        write(log, 9, 0)
        end(log, 8, committed=False)
        end(log, 9, committed=False)
        assert log.producer_state.transactions.aborted.entries == [(7, 0, 2, 1), (8, 1, 4, 3), (9, 3, 5, 6)]
        assert log.aborted_transactions(0, 2) == [(7, 0), (8, 1)]

    def test_those_in_a_slice(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D, LogConfig(index_interval_bytes=150))
        for number in range(20):
            write(log, 7, number)
            end(log, 7, committed=False)
        fetched = log.read(10, 230, log.log_end_offset)
        found = log.aborted_transactions_in(fetched, 10)
        assert found[0] == (7, 10)
        assert len(found) <= 4
        everything = log.read(0, 1 << 20, log.log_end_offset)
        assert len(log.aborted_transactions_in(everything, 0)) == 20
        assert open_log(fs, "data/other-0").aborted_transactions_in(everything, 0) == []

    def test_truncating_takes_the_abort_back(self, log: PartitionLog) -> None:
        write(log, 7, 0)
        end(log, 7, committed=False)
        write(log, 8, 0)
        log.truncate_to(1)
        assert log.aborted_transactions(0, 100) == []
        assert (log.first_unstable_offset, stable(log)) == (0, 0)
        assert set(log.producer_state.entries) == {7}
        end(log, 7, committed=True)
        assert stable(log) == 2

    def test_truncating_does_not_age_producers(self, log: PartitionLog) -> None:
        append(log, make_batch(producer=(7, 0, 0)))
        append(log, make_batch())
        log.truncate_to(1)
        log.remove_expired_producers(NOW_MS + 1)
        assert 7 in log.producer_state.entries


class TestReopening:
    @pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
    @pytest.mark.parametrize("flushed", [0, 11, 23, 40])
    def test_transactions_are_as_they_were(self, fs: MemoryFileSystem, clean: bool, flushed: int) -> None:
        log = open_log(fs, D, SMALL)
        write(log, 100, 0)
        for number in range(20):
            write(log, 7 + number % 3, number // 3)
            if number % 3 == 2:
                end(log, 7 + number % 3, committed=number % 2 == 0)
            if log.log_end_offset >= flushed > log.recovery_point:
                log.flush()
        assert len(log.segment_base_offsets) > 3
        if clean:
            log.close()
        damage: list[Damage] = []
        again = open_log(fs.copy(), D, SMALL, clean=clean, recovery_point=log.recovery_point, damage=damage)
        assert again.producer_state.entries == log.producer_state.entries
        assert again.first_unstable_offset == log.first_unstable_offset == 0
        assert stable(again) == 0
        index = again.producer_state.transactions.aborted.entries
        assert index == log.producer_state.transactions.aborted.entries
        assert len(index) == 3
        end(again, 100, committed=True)
        assert stable(again) == 1, "producers 7 and 8 have never ended theirs"
        assert damage == []

    def test_only_a_marker_that_reached_the_disk_counts_after_a_power_failure(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D)
        write(log, 7, 0)
        write(log, 8, 0)
        end(log, 7, committed=False)
        log.flush()
        end(log, 8, committed=True)
        again = open_log(fs.crash(), D, clean=False, recovery_point=3)
        assert again.first_unstable_offset == 1
        assert again.aborted_transactions(0, 100) == [(7, 0)]
        assert again.producer_state.has_open_transaction(8, 0)

    def test_a_transaction_that_began_before_the_log_start_ends_as_any_other(self, fs: MemoryFileSystem) -> None:
        log = open_log(fs, D, SMALL)
        write(log, 7, 0)
        for _ in range(20):
            append(log, make_batch(b"x" * 90))
        log.delete_records_before(15)
        log.close()
        again = open_log(fs, D, SMALL, recovery_point=21, log_start_offset=15)
        assert (again.first_unstable_offset, stable(again)) == (15, 15)
        end(again, 7, committed=False)
        assert stable(again) == 22
        assert again.aborted_transactions(15, 22) == [(7, 0)]
        assert len(read_all(again)) == 7
