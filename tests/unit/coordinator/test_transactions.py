"""The transaction coordinator: allowed requests in each state, and Kafka's error codes."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from penstock.coordinator.transaction import ProtocolLevel, Transaction, TransactionState
from penstock.coordinator.transactions import Change, Transactions
from penstock.core.ids import PRODUCER_EPOCH_MAX, ProducerIdentity, TopicPartition
from penstock.protocol.error_codes import BrokerError, ErrorCode

CLASSIC = ProtocolLevel.CLASSIC
BUMPING = ProtocolLevel.EPOCH_PER_TRANSACTION
A0 = TopicPartition("a", 0)
A1 = TopicPartition("a", 1)
B0 = TopicPartition("b", 0)


class Coordinator:
    """Writes every change at once, unless a test disables it."""

    def __init__(self) -> None:
        self._ids = itertools.count(1000)
        self.table = Transactions(lambda: next(self._ids))
        self.now_ms = 1_000_000

    def commit(self, change: Change | None) -> Transaction | None:
        if change is None:
            return None
        self.table.committed(change)
        return self.table.find(change.transactional_id)

    def init(self, expected: ProducerIdentity | None = None, timeout_ms: int = 60_000) -> ProducerIdentity:
        transaction = self.commit(self.table.init_producer_id("t", timeout_ms, expected, self.now_ms))
        assert transaction is not None
        if transaction.state is TransactionState.PREPARE_ABORT:
            raise BrokerError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return transaction.producer

    def add(self, producer: ProducerIdentity, *partitions: TopicPartition, level: ProtocolLevel = BUMPING) -> None:
        self.commit(self.table.add_partitions("t", producer, frozenset(partitions), level, self.now_ms))

    def end(self, producer: ProducerIdentity, commits: bool, level: ProtocolLevel = BUMPING) -> bool:
        """False if it was a retry."""
        return self.commit(self.table.end("t", producer, commits, level, self.now_ms)) is not None

    def complete(self) -> Transaction:
        transaction = self.commit(self.table.markers_written("t", self.now_ms))
        assert transaction is not None
        return transaction

    @property
    def state(self) -> Transaction:
        found = self.table.find("t")
        assert found is not None
        return found

    def force(self, **changes: object) -> None:
        self.table.restore("t", replace(self.state, **changes))  # type: ignore[arg-type]


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


def refused(code: ErrorCode, call: object, *args: object, **kwargs: object) -> None:
    assert callable(call)
    with pytest.raises(BrokerError) as caught:
        call(*args, **kwargs)
    assert caught.value.code == code


def test_a_new_transactional_id_gets_a_new_producer_id_with_epoch_0(coordinator: Coordinator) -> None:
    assert coordinator.init() == (1000, 0)
    assert coordinator.state.state is TransactionState.EMPTY
    assert coordinator.state.partitions == frozenset()


def test_a_second_producer_gets_the_next_epoch_and_fences_the_first(coordinator: Coordinator) -> None:
    first = coordinator.init()
    second = coordinator.init()
    assert second == (first.producer_id, 1)
    refused(ErrorCode.PRODUCER_FENCED, coordinator.add, first, A0)
    refused(ErrorCode.PRODUCER_FENCED, coordinator.end, first, True)
    refused(ErrorCode.PRODUCER_FENCED, coordinator.end, first, True, CLASSIC)
    refused(ErrorCode.PRODUCER_FENCED, coordinator.table.verify_partition, "t", first, A0)


def test_an_unknown_transactional_id_and_a_foreign_producer_id_are_unmapped(coordinator: Coordinator) -> None:
    code = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    stranger = ProducerIdentity(77, 0)
    for _ in range(2):
        refused(code, coordinator.add, stranger, A0)
        refused(code, coordinator.end, stranger, True)
        refused(code, coordinator.end, stranger, True, CLASSIC)
        refused(code, coordinator.table.verify_partition, "t", stranger, A0)
        coordinator.init()


def test_an_open_transaction_of_a_predecessor_is_aborted_first(coordinator: Coordinator) -> None:
    first = coordinator.init()
    coordinator.add(first, A0, B0)
    refused(ErrorCode.CONCURRENT_TRANSACTIONS, coordinator.init)
    assert coordinator.state.state is TransactionState.PREPARE_ABORT
    assert coordinator.state.partitions == {A0, B0}
    refused(ErrorCode.CONCURRENT_TRANSACTIONS, coordinator.init)
    refused(ErrorCode.INVALID_TXN_STATE, coordinator.end, first, True)
    assert coordinator.complete().state is TransactionState.COMPLETE_ABORT
    refused(ErrorCode.INVALID_TXN_STATE, coordinator.end, first, True)
    refused(ErrorCode.PRODUCER_FENCED, coordinator.add, first, A0)
    second = coordinator.init()
    assert second == (first.producer_id, first.epoch + 2)
    refused(ErrorCode.PRODUCER_FENCED, coordinator.end, first, False)
    refused(ErrorCode.PRODUCER_FENCED, coordinator.add, first, A0)


def test_partitions_gather_and_the_clock_starts_with_the_first(coordinator: Coordinator) -> None:
    producer = coordinator.init()
    coordinator.add(producer, A0)
    began = coordinator.now_ms
    coordinator.now_ms += 500
    coordinator.add(producer, A1, B0)
    assert coordinator.state.partitions == {A0, A1, B0}
    assert coordinator.state.start_ms == began
    assert coordinator.table.add_partitions("t", producer, frozenset({A0}), BUMPING, coordinator.now_ms) is None


def test_verification_knows_what_is_in_the_transaction(coordinator: Coordinator) -> None:
    producer = coordinator.init()
    refused(ErrorCode.TRANSACTION_ABORTABLE, coordinator.table.verify_partition, "t", producer, A0)
    coordinator.add(producer, A0, level=CLASSIC)
    coordinator.table.verify_partition("t", producer, A0)
    refused(ErrorCode.TRANSACTION_ABORTABLE, coordinator.table.verify_partition, "t", producer, A1)
    coordinator.end(producer, True, CLASSIC)
    refused(ErrorCode.CONCURRENT_TRANSACTIONS, coordinator.table.verify_partition, "t", producer, A0)
    coordinator.complete()
    refused(ErrorCode.TRANSACTION_ABORTABLE, coordinator.table.verify_partition, "t", producer, A0)


@pytest.mark.parametrize("commits", [True, False])
def test_a_classic_end_keeps_the_epoch(coordinator: Coordinator, commits: bool) -> None:
    producer = coordinator.init()
    coordinator.add(producer, A0, level=CLASSIC)
    assert coordinator.end(producer, commits, CLASSIC)
    assert coordinator.state.commits is commits
    refused(ErrorCode.CONCURRENT_TRANSACTIONS, coordinator.end, producer, commits, CLASSIC)
    refused(ErrorCode.INVALID_TXN_STATE, coordinator.end, producer, not commits, CLASSIC)
    refused(ErrorCode.CONCURRENT_TRANSACTIONS, coordinator.add, producer, A1)
    completed = coordinator.complete()
    assert completed.producer == producer
    assert completed.partitions == frozenset()
    assert not coordinator.end(producer, commits, CLASSIC)
    refused(ErrorCode.INVALID_TXN_STATE, coordinator.end, producer, not commits, CLASSIC)


def test_a_classic_end_needs_a_transaction(coordinator: Coordinator) -> None:
    producer = coordinator.init()
    refused(ErrorCode.INVALID_TXN_STATE, coordinator.end, producer, True, CLASSIC)
    refused(ErrorCode.INVALID_TXN_STATE, coordinator.end, producer, False, CLASSIC)


@pytest.mark.parametrize("commits", [True, False])
def test_an_end_with_a_bump_gives_the_next_epoch_and_recognises_its_repetition(
    coordinator: Coordinator, commits: bool
) -> None:
    producer = coordinator.init()
    coordinator.add(producer, A0)
    assert coordinator.end(producer, commits)
    assert coordinator.state.producer == (producer.producer_id, producer.epoch + 1)
    refused(ErrorCode.CONCURRENT_TRANSACTIONS, coordinator.end, producer, commits)
    refused(ErrorCode.INVALID_TXN_STATE, coordinator.end, producer, not commits)
    refused(ErrorCode.PRODUCER_FENCED, coordinator.end, coordinator.state.producer, commits)
    completed = coordinator.complete()
    assert not coordinator.end(producer, commits)
    refused(ErrorCode.INVALID_TXN_STATE, coordinator.end, producer, not commits)
    refused(ErrorCode.INVALID_TXN_STATE, coordinator.end, completed.producer, True)
    refused(ErrorCode.PRODUCER_FENCED, coordinator.add, producer, A0)
    # An abort under the new epoch is about the next transaction, into which nothing has come yet.
    assert coordinator.end(completed.producer, False)
    assert coordinator.state.producer.epoch == completed.epoch + 1
    assert coordinator.state.partitions == frozenset()


def test_an_empty_id_may_be_aborted_but_not_committed(coordinator: Coordinator) -> None:
    producer = coordinator.init()
    refused(ErrorCode.INVALID_TXN_STATE, coordinator.end, producer, True)
    assert coordinator.end(producer, False)
    assert coordinator.complete().producer == (producer.producer_id, 1)
    assert coordinator.init() == (producer.producer_id, 2)
    refused(ErrorCode.PRODUCER_FENCED, coordinator.end, ProducerIdentity(producer.producer_id, 1), False)


def test_when_epochs_run_out_at_an_end_the_producer_gets_a_new_id(coordinator: Coordinator) -> None:
    old = coordinator.init()
    coordinator.force(epoch=PRODUCER_EPOCH_MAX - 1)
    last = ProducerIdentity(old.producer_id, PRODUCER_EPOCH_MAX - 1)
    coordinator.add(last, A0)
    assert coordinator.end(last, True)
    assert coordinator.state.producer == (old.producer_id, PRODUCER_EPOCH_MAX)  # what the markers carry
    refused(ErrorCode.CONCURRENT_TRANSACTIONS, coordinator.end, last, True)
    completed = coordinator.complete()
    assert completed.producer == (1001, 0)
    assert not coordinator.end(last, True)
    coordinator.add(completed.producer, A0)
    refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING, coordinator.end, last, True)


def test_when_epochs_run_out_a_new_session_gets_a_new_id(coordinator: Coordinator) -> None:
    coordinator.init()
    coordinator.force(epoch=PRODUCER_EPOCH_MAX - 1)
    assert coordinator.init() == (1001, 0)
    assert coordinator.state.previous_producer_id == 1000
    # Its own retry, after the answer was lost, is known by the exhausted epoch of the previous id.
    refused(ErrorCode.PRODUCER_FENCED, coordinator.init, ProducerIdentity(1000, PRODUCER_EPOCH_MAX - 1))


def test_a_producer_that_goes_on_after_running_out_of_epochs_may_repeat_itself(coordinator: Coordinator) -> None:
    coordinator.init()
    coordinator.force(epoch=PRODUCER_EPOCH_MAX - 1)
    expected = ProducerIdentity(1000, PRODUCER_EPOCH_MAX - 1)
    assert coordinator.init(expected) == (1001, 0)
    assert coordinator.init(expected) == (1001, 0)


def test_fencing_the_last_epoch_leaves_room_for_the_marker(coordinator: Coordinator) -> None:
    coordinator.init()
    last = ProducerIdentity(1000, PRODUCER_EPOCH_MAX - 1)
    coordinator.force(epoch=last.epoch)
    coordinator.add(last, A0)
    refused(ErrorCode.CONCURRENT_TRANSACTIONS, coordinator.init)
    assert coordinator.state.producer == (1000, PRODUCER_EPOCH_MAX)
    coordinator.complete()
    assert coordinator.init() == (1001, 0)


def test_a_producer_may_go_on_with_its_id_and_lose_the_answer(coordinator: Coordinator) -> None:
    first = coordinator.init()
    second = coordinator.init(expected=first)
    assert second == (first.producer_id, 1)
    assert coordinator.init(expected=first) == second
    third = coordinator.init(expected=second)
    assert third == (first.producer_id, 2)
    refused(ErrorCode.PRODUCER_FENCED, coordinator.init, first)
    coordinator.init()
    refused(ErrorCode.PRODUCER_FENCED, coordinator.init, third)
    refused(ErrorCode.PRODUCER_FENCED, coordinator.init, ProducerIdentity(77, 0))


def test_an_expired_id_may_go_on_with_a_new_producer_id(coordinator: Coordinator) -> None:
    assert coordinator.init(expected=ProducerIdentity(5, 3)) == (1000, 0)


def test_while_a_change_is_being_written_others_must_wait(coordinator: Coordinator) -> None:
    producer = coordinator.init()
    change = coordinator.table.add_partitions("t", producer, frozenset({A0}), BUMPING, 0)
    assert change is not None
    assert coordinator.state.partitions == frozenset()
    refused(ErrorCode.CONCURRENT_TRANSACTIONS, coordinator.add, producer, A1)
    refused(ErrorCode.CONCURRENT_TRANSACTIONS, coordinator.end, producer, True)
    refused(ErrorCode.CONCURRENT_TRANSACTIONS, coordinator.init)
    coordinator.table.refused(change)
    refused(ErrorCode.INVALID_TXN_STATE, coordinator.end, producer, True)
    coordinator.add(producer, A1)
    assert coordinator.state.partitions == {A1}


def test_a_coordinator_that_takes_over_counts_by_its_own_clock(coordinator: Coordinator) -> None:
    """Its predecessor's may be hours away: an open transaction would end at once, or hang for hours."""
    producer = coordinator.init()
    coordinator.add(producer, A0)
    for clock_ms in (0, coordinator.now_ms + 3_600_000):
        successor = Transactions(lambda: 0)
        successor.restore("t", coordinator.state)
        successor.take_over(clock_ms)
        assert successor.next_deadline_ms() == clock_ms + coordinator.state.timeout_ms
        assert successor.tick(clock_ms + 59_999) == []
        (change,) = successor.tick(clock_ms + 60_000)
        successor.committed(change)
        assert successor.next_deadline_ms() is None


def test_a_transaction_that_runs_out_of_time_is_aborted_and_its_producer_fenced(coordinator: Coordinator) -> None:
    producer = coordinator.init(timeout_ms=10_000)
    assert coordinator.table.next_deadline_ms() is None
    coordinator.add(producer, A0)
    deadline = coordinator.now_ms + 10_000
    assert coordinator.table.next_deadline_ms() == deadline
    assert coordinator.table.tick(deadline - 1) == []
    (change,) = coordinator.table.tick(deadline)
    assert coordinator.table.tick(deadline) == []
    coordinator.table.committed(change)
    assert coordinator.table.next_deadline_ms() is None
    assert coordinator.state.state is TransactionState.PREPARE_ABORT
    coordinator.complete()
    refused(ErrorCode.INVALID_TXN_STATE, coordinator.end, producer, True)
    refused(ErrorCode.PRODUCER_FENCED, coordinator.end, producer, False, CLASSIC)
    refused(ErrorCode.PRODUCER_FENCED, coordinator.add, producer, A0)
    assert not coordinator.end(producer, False), "its own abort comes too late, and changes nothing"
    assert coordinator.init(expected=producer) == (producer.producer_id, 1)


def test_unused_ids_expire_and_open_transactions_do_not(coordinator: Coordinator) -> None:
    producer = coordinator.init()
    later = coordinator.now_ms + 1000
    assert coordinator.table.expire(later, 1001) == []
    coordinator.add(producer, A0)
    assert coordinator.table.expire(later, 1000) == []
    coordinator.end(producer, True)
    assert coordinator.table.expire(later, 1000) == []
    coordinator.complete()
    (change,) = coordinator.table.expire(later, 1000)
    assert change.after is None
    coordinator.table.committed(change)
    assert coordinator.table.find("t") is None


def test_labels_are_those_of_kafkas_tools() -> None:
    assert [state.label for state in TransactionState] == [
        "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead",
        "PrepareEpochFence",
    ]  # fmt: skip
