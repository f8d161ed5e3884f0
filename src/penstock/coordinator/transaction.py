"""What is known of one transactional id, and how each of its states follows from the one before (KIP-98, KIP-890).

Owns: the states, the epochs of a producer, and the arithmetic of bumping them. A `Transaction` is a value: every
transition returns a new one, so that the old one still stands if the new one cannot be written down.
Must never know: who asked, what is durable, where markers go. `transactions.py` decides which transition is allowed.

Invariant: an epoch only grows; when there is no room left, the producer id changes and epochs begin again at 0.
Invariant: between a Prepare state and its Complete state the partitions and the outcome do not change.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from penstock.coordinator.topic_pattern import TopicPattern
from penstock.core.ids import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    PRODUCER_EPOCH_MAX,
    ProducerIdentity,
    TopicPartition,
)

NO_START: Final = -1


class TransactionState(IntEnum):
    """The number is what the transaction log holds; `label` is what tools show."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    # Never entered here: an expired id is removed with its record, and a fencing goes straight to PREPARE_ABORT. Both
    # have a number and a label all the same, because tools may ask for them.
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        return self.name.replace("_", " ").title().replace(" ", "")

    @property
    def is_prepared(self) -> bool:
        """The outcome is decided, and the markers may not all be written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_at_rest(self) -> bool:
        """No transaction is open."""
        return self in (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


STATES_BY_LABEL: Final = {state.label: state for state in TransactionState}


class ProtocolLevel(IntEnum):
    """`transaction.version`: how the client and the coordinator speak about a transaction."""

    CLASSIC = 0
    EPOCH_PER_TRANSACTION = 2  # KIP-890: partitions join with their first batch, the epoch is bumped at every end


def is_exhausted(epoch: int) -> bool:
    """No producer gets the very last epoch: it is what fences the one before it."""
    return epoch >= PRODUCER_EPOCH_MAX - 1


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transactional id: its producer, and its current or last transaction."""

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition]
    start_ms: int
    last_update_ms: int
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    # The epoch before the last bump, while it was bumped for the same producer: what a repeated request may still
    # carry. It is not in the log, as in Kafka, so a repetition across a restart is fenced.
    last_epoch: int = NO_PRODUCER_EPOCH
    level: ProtocolLevel = ProtocolLevel.CLASSIC

    @property
    def producer(self) -> ProducerIdentity:
        return ProducerIdentity(self.producer_id, self.epoch)

    @property
    def deadline_ms(self) -> int | None:
        """When an open transaction has to be aborted; None where none is open."""
        return self.start_ms + self.timeout_ms if self.state is TransactionState.ONGOING else None

    @property
    def commits(self) -> bool:
        """The outcome of a prepared or completed transaction."""
        return self.state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)

    # InitProducerId

    @classmethod
    def begin(cls, transactional_id: str, producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
        return cls(
            transactional_id=transactional_id,
            producer_id=producer_id,
            epoch=0,
            timeout_ms=timeout_ms,
            state=TransactionState.EMPTY,
            partitions=frozenset(),
            start_ms=NO_START,
            last_update_ms=now_ms,
        )

    def with_epoch(self, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int) -> Transaction:
        """The same producer id for a new session, or for a producer that goes on after an error."""
        return self._at_rest_again(self.producer_id, epoch, last_epoch, timeout_ms, now_ms)

    def with_producer_id(self, producer_id: int, last_epoch: int, timeout_ms: int, now_ms: int) -> Transaction:
        """All epochs of the old id are used up."""
        return self._at_rest_again(producer_id, 0, last_epoch, timeout_ms, now_ms)

    def _at_rest_again(
        self, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int
    ) -> Transaction:
        assert self.state.is_at_rest
        return replace(
            self,
            producer_id=producer_id,
            previous_producer_id=self.producer_id,
            epoch=epoch,
            last_epoch=last_epoch,
            timeout_ms=timeout_ms,
            state=TransactionState.EMPTY,
            partitions=frozenset(),
            start_ms=NO_START,
            last_update_ms=now_ms,
        )

    # The course of a transaction

    def with_partitions(self, added: frozenset[TopicPartition], level: ProtocolLevel, now_ms: int) -> Transaction:
        assert not self.state.is_prepared
        return replace(
            self,
            previous_producer_id=self.producer_id,
            state=TransactionState.ONGOING,
            partitions=self.partitions | added,
            start_ms=now_ms if self.state.is_at_rest else self.start_ms,
            last_update_ms=now_ms,
            level=level,
        )

    def prepared(self, commits: bool, level: ProtocolLevel, next_producer_id: int, now_ms: int) -> Transaction:
        """The decision. From KIP-890 on the markers carry the next epoch, and so fence everything that comes late."""
        epoch, last_epoch = self.epoch, self.last_epoch
        if level is ProtocolLevel.EPOCH_PER_TRANSACTION:
            epoch, last_epoch = min(self.epoch + 1, PRODUCER_EPOCH_MAX), self.epoch
        return replace(
            self,
            previous_producer_id=self.producer_id,
            next_producer_id=next_producer_id,
            epoch=epoch,
            last_epoch=last_epoch,
            state=TransactionState.PREPARE_COMMIT if commits else TransactionState.PREPARE_ABORT,
            # A client may abort a transaction into which nothing came; it has to begin some time.
            start_ms=now_ms if self.state.is_at_rest else self.start_ms,
            last_update_ms=now_ms,
            level=level,
        )

    def fenced(self, now_ms: int) -> Transaction:
        """Aborts an open transaction over its producer's head, whichever protocol that speaks: its epoch is bumped.

        Its own abort, should it come, is then taken for one that was made before, and the producer may go on.
        """
        assert self.state is TransactionState.ONGOING
        return self.prepared(False, ProtocolLevel.EPOCH_PER_TRANSACTION, NO_PRODUCER_ID, now_ms)

    def completed(self, now_ms: int) -> Transaction:
        """Every marker is written."""
        assert self.state.is_prepared
        rotates = self.level is ProtocolLevel.EPOCH_PER_TRANSACTION and self.next_producer_id != NO_PRODUCER_ID
        return replace(
            self,
            producer_id=self.next_producer_id if rotates else self.producer_id,
            previous_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            epoch=0 if rotates else self.epoch,
            state=TransactionState.COMPLETE_COMMIT if self.commits else TransactionState.COMPLETE_ABORT,
            partitions=frozenset(),
            last_update_ms=now_ms,
        )


class TransactionFilter:
    """The filters of ListTransactions: all that are set must match. Raises BrokerError for an invalid pattern."""

    def __init__(
        self,
        state_labels: Collection[str] = (),
        producer_ids: Collection[int] = (),
        running_longer_than_ms: int = -1,
        id_pattern: str | None = None,
    ) -> None:
        self._by_state = bool(state_labels)
        self._states = {STATES_BY_LABEL[label] for label in state_labels if label in STATES_BY_LABEL}
        self.unknown_states = [label for label in dict.fromkeys(state_labels) if label not in STATES_BY_LABEL]
        self._producer_ids = frozenset(producer_ids)
        self._running_longer_than_ms = running_longer_than_ms
        self._pattern = TopicPattern(id_pattern) if id_pattern else None

    def matches(self, transaction: Transaction, now_ms: int) -> bool:
        if self._by_state and transaction.state not in self._states:
            return False
        if self._producer_ids and transaction.producer_id not in self._producer_ids:
            return False
        if self._running_longer_than_ms >= 0 and now_ms - transaction.start_ms <= self._running_longer_than_ms:
            return False
        return self._pattern is None or self._pattern.matches(transaction.transactional_id)
