"""The transactional ids of one partition of `__transaction_state`, and which requests their producers may make.

A request raises the BrokerError for its client, or returns a `Change` that takes effect when it is written. The caller
reports `committed` when the change is durable, or `refused` if the write failed. Until then, other requests for the
same transactional id fail with CONCURRENT_TRANSACTIONS. None instead of a Change means that nothing needs to change.

Owns: which request is allowed in which state, and the error otherwise. Errors are those of the newest clients; handlers
translate them for older ones.
Must never know: logs, partitions, connections, the clock. Time and producer ids are passed in.

Invariant: a transactional id has at most one open transaction and at most one pending Change.
Invariant: only the producer with the current id and epoch can change the transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from penstock.coordinator.transaction import ProtocolLevel, Transaction, TransactionState, is_exhausted
from penstock.core.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, PRODUCER_EPOCH_MAX, ProducerIdentity, TopicPartition
from penstock.protocol.error_codes import BrokerError, ErrorCode


@dataclass(frozen=True, slots=True)
class Change:
    """The state of a transactional id once the change is durable; None removes the id."""

    transactional_id: str
    after: Transaction | None


class Transactions:
    def __init__(self, allocate_producer_id: Callable[[], int]) -> None:
        self._allocate_producer_id = allocate_producer_id
        self._known: dict[str, Transaction] = {}
        self._open: dict[str, Transaction] = {}  # those in ONGOING, which have a deadline
        self._pending: dict[str, Change] = {}
        self._taken_over_ms: dict[str, int] = {}  # of those in `_open` that another coordinator began

    def __iter__(self) -> Iterator[Transaction]:
        return iter(tuple(self._known.values()))

    def find(self, transactional_id: str) -> Transaction | None:
        return self._known.get(transactional_id)

    def is_pending(self, transactional_id: str) -> bool:
        return transactional_id in self._pending

    # Durability

    def committed(self, change: Change) -> None:
        """The change is durable and takes effect."""
        self._settle(change)
        self.restore(change.transactional_id, change.after)

    def refused(self, change: Change) -> None:
        """The change could not be written and has no effect."""
        self._settle(change)

    def _settle(self, change: Change) -> None:
        settled = self._pending.pop(change.transactional_id)
        assert settled is change, "a change is settled once, before the next one is proposed"

    def restore(self, transactional_id: str, transaction: Transaction | None) -> None:
        """Applies a record of the log; a later record of the same id replaces an earlier one."""
        self._open.pop(transactional_id, None)
        if transaction is None or transaction.state is not TransactionState.ONGOING:
            self._taken_over_ms.pop(transactional_id, None)
        if transaction is None:
            self._known.pop(transactional_id, None)
            return
        self._known[transactional_id] = transaction
        if transaction.state is TransactionState.ONGOING:
            self._open[transactional_id] = transaction

    def take_over(self, now_ms: int) -> None:
        """The open transactions were begun by another coordinator, whose clock may be hours away: count from now."""
        self._taken_over_ms = dict.fromkeys(self._open, now_ms)

    def prepared(self) -> list[Transaction]:
        """Transactions whose outcome is decided but not complete: their markers must be written, possibly again."""
        return [transaction for transaction in self._known.values() if transaction.state.is_prepared]

    def _propose(self, after: Transaction) -> Change:
        change = self._pending[after.transactional_id] = Change(after.transactional_id, after)
        return change

    # Requests

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdentity | None, now_ms: int
    ) -> Change:
        """Begins a session, or continues it after an error (`expected`, KIP-360).

        An open transaction is aborted first: the Change leads to PREPARE_ABORT, and the client must retry.
        """
        self._check_not_pending(transactional_id)
        known = self._known.get(transactional_id)
        if known is None:
            # The id has expired: its former producer may continue with a new one.
            return self._propose(Transaction.begin(transactional_id, self._allocate_producer_id(), timeout_ms, now_ms))
        if expected is not None and not _may_continue(known, expected):
            raise _fenced(known, expected)
        if known.state.is_prepared:
            raise _concurrent(known)
        if known.state is TransactionState.ONGOING:
            return self._propose(known.fenced(now_ms))
        if is_exhausted(known.epoch) and (expected is None or expected.epoch == known.epoch):
            last_epoch = NO_PRODUCER_EPOCH if expected is None else known.epoch
            producer_id = self._allocate_producer_id()
            return self._propose(known.with_producer_id(producer_id, last_epoch, timeout_ms, now_ms))
        if expected is None:
            epoch, last_epoch = known.epoch + 1, int(NO_PRODUCER_EPOCH)
        elif expected.epoch == known.epoch:
            epoch, last_epoch = known.epoch + 1, known.epoch
        elif expected.epoch == known.last_epoch:
            # A retry whose response was lost. `last_epoch` exists, so no other producer came in between.
            epoch, last_epoch = known.epoch, known.last_epoch
        else:
            raise _fenced(known, expected)
        return self._propose(known.with_epoch(epoch, last_epoch, timeout_ms, now_ms))

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: frozenset[TopicPartition],
        level: ProtocolLevel,
        now_ms: int,
    ) -> Change | None:
        """Opens a transaction if none is open. None if it already contains all of the partitions."""
        known = self._known_producer(transactional_id, producer)
        self._check_not_pending(transactional_id)
        if known.state.is_prepared:
            raise _concurrent(known)
        if known.state is TransactionState.ONGOING and partitions <= known.partitions:
            return None
        return self._propose(known.with_partitions(partitions, level, now_ms))

    def verify_partition(self, transactional_id: str, producer: ProducerIdentity, partition: TopicPartition) -> None:
        """Raises unless the partition is in the producer's open transaction (KIP-890, part 1)."""
        known = self._known_producer(transactional_id, producer)
        if known.state.is_prepared:
            raise _concurrent(known)
        if partition not in known.partitions:
            raise BrokerError(
                ErrorCode.TRANSACTION_ABORTABLE,
                f"{partition.topic}-{partition.partition} is not in the open transaction of {transactional_id}.",
            )

    def end(
        self, transactional_id: str, producer: ProducerIdentity, commits: bool, level: ProtocolLevel, now_ms: int
    ) -> Change | None:
        """Decides the outcome. None if this is a retry, and the outcome was already decided."""
        if level is ProtocolLevel.CLASSIC:
            return self._end_classic(transactional_id, producer, commits, now_ms)
        known = self._known.get(transactional_id)
        if known is None:
            raise _unmapped(transactional_id)
        repeated = _repeats_end(known, producer)
        if producer.producer_id != known.producer_id and not repeated:
            raise _unmapped(transactional_id)
        if known.state in (TransactionState.EMPTY, TransactionState.ONGOING):
            is_valid = producer.epoch == known.epoch
        else:
            is_valid = repeated or (known.state.is_at_rest and producer.epoch == known.epoch)
        if not is_valid:
            raise _fenced(known, producer)
        self._check_not_pending(transactional_id)
        if known.state.is_prepared:
            raise _concurrent(known) if commits == known.commits else _wrong_state(known, commits)
        if known.state is TransactionState.ONGOING:
            return self._propose_end(known, commits, now_ms)
        if repeated:
            if commits == known.commits:
                return None
            raise _wrong_state(known, commits)
        if commits:
            raise _wrong_state(known, commits)
        # The transaction is empty, but batches may be in flight: the new epoch fences them.
        return self._propose_end(known, commits, now_ms)

    def _propose_end(self, known: Transaction, commits: bool, now_ms: int) -> Change:
        next_producer_id = self._allocate_producer_id() if is_exhausted(known.epoch) else NO_PRODUCER_ID
        return self._propose(known.prepared(commits, ProtocolLevel.EPOCH_PER_TRANSACTION, next_producer_id, now_ms))

    def _end_classic(
        self, transactional_id: str, producer: ProducerIdentity, commits: bool, now_ms: int
    ) -> Change | None:
        known = self._known_producer(transactional_id, producer)
        self._check_not_pending(transactional_id)
        if known.state is TransactionState.ONGOING:
            return self._propose(known.prepared(commits, ProtocolLevel.CLASSIC, NO_PRODUCER_ID, now_ms))
        if known.state is TransactionState.EMPTY or commits != known.commits:
            raise _wrong_state(known, commits)
        if known.state.is_prepared:
            raise _concurrent(known)
        return None

    # Transitions without a request

    def markers_written(self, transactional_id: str, now_ms: int) -> Change:
        """Every partition of the prepared transaction has its marker or was deleted."""
        assert transactional_id not in self._pending
        return self._propose(self._known[transactional_id].completed(now_ms))

    def next_deadline_ms(self) -> int | None:
        """When to call `tick`. A pending change may move it."""
        return min(
            (self._deadline_ms(open_) for open_ in self._open.values() if open_.transactional_id not in self._pending),
            default=None,
        )

    def tick(self, now_ms: int) -> list[Change]:
        """Aborts the transactions that timed out, and fences their producers."""
        return [
            self._propose(open_.fenced(now_ms))
            for open_ in tuple(self._open.values())
            if self._deadline_ms(open_) <= now_ms and open_.transactional_id not in self._pending
        ]

    def _deadline_ms(self, open_: Transaction) -> int:
        return self._taken_over_ms.get(open_.transactional_id, open_.start_ms) + open_.timeout_ms

    def expire(self, now_ms: int, expiration_ms: int) -> list[Change]:
        """Removes the transactional ids that were not used for `transactional.id.expiration.ms`."""
        changes = []
        for known in self._known.values():
            unused_ms = now_ms - known.last_update_ms
            if known.state.is_at_rest and unused_ms >= expiration_ms and known.transactional_id not in self._pending:
                change = self._pending[known.transactional_id] = Change(known.transactional_id, None)
                changes.append(change)
        return changes

    # Checks

    def _known_producer(self, transactional_id: str, producer: ProducerIdentity) -> Transaction:
        known = self._known.get(transactional_id)
        if known is None or known.producer_id != producer.producer_id:
            raise _unmapped(transactional_id)
        if known.epoch != producer.epoch:
            raise _fenced(known, producer)
        return known

    def _check_not_pending(self, transactional_id: str) -> None:
        if transactional_id in self._pending:
            raise BrokerError(
                ErrorCode.CONCURRENT_TRANSACTIONS, f"An earlier request of {transactional_id} is still being written."
            )


def _may_continue(known: Transaction, expected: ProducerIdentity) -> bool:
    """Whether this is the current producer, or one that missed the response with its new identity."""
    if expected.producer_id == known.producer_id:
        return True
    return expected.producer_id == known.previous_producer_id and is_exhausted(expected.epoch)


def _repeats_end(known: Transaction, producer: ProducerIdentity) -> bool:
    """Whether an EndTxn carries the epoch before the bump that ended the last transaction."""
    if producer.producer_id == known.producer_id:
        return known.epoch == producer.epoch + 1
    return (
        producer.producer_id == known.previous_producer_id
        and producer.epoch == PRODUCER_EPOCH_MAX - 1
        and known.epoch == 0
    )


def _unmapped(transactional_id: str) -> BrokerError:
    return BrokerError(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        f"The producer id does not match the transactional id {transactional_id}.",
    )


def _fenced(known: Transaction, producer: ProducerIdentity) -> BrokerError:
    return BrokerError(
        ErrorCode.PRODUCER_FENCED,
        f"{known.transactional_id} has epoch {known.epoch} of producer {known.producer_id}, "
        f"not epoch {producer.epoch} of producer {producer.producer_id}.",
    )


def _concurrent(known: Transaction) -> BrokerError:
    return BrokerError(
        ErrorCode.CONCURRENT_TRANSACTIONS, f"The last transaction of {known.transactional_id} is still being completed."
    )


def _wrong_state(known: Transaction, commits: bool) -> BrokerError:
    asked = "committed" if commits else "aborted"
    return BrokerError(
        ErrorCode.INVALID_TXN_STATE,
        f"The transaction of {known.transactional_id} is in state {known.state.label} and cannot be {asked}.",
    )
