"""The state of one transactional id, and its transitions (KIP-98, KIP-890).

Owns: the states, the producer epochs and how they are bumped, and the filters of ListTransactions. A `Transaction` is a
value: a transition returns a new one, and the old one stays valid if the new one cannot be written.
Must never know: requests, durability, where markers go. `transactions.py` decides which transition is allowed.

Invariant: an epoch only grows; when epochs are exhausted, a new producer id starts at epoch 0.
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
    """The numbers are those of the transaction log; `label` is the name in tools."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    # Never entered: an expired id is removed with its record, and fencing goes directly to PREPARE_ABORT. They exist
    # because tools may filter by them.
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        return self.name.replace("_", " ").title().replace(" ", "")

    @property
    def is_prepared(self) -> bool:
        """The outcome is decided; some markers may not be written yet."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_at_rest(self) -> bool:
        """No transaction is open."""
        return self in (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


STATES_BY_LABEL: Final = {state.label: state for state in TransactionState}


class ProtocolLevel(IntEnum):
    """The feature level `transaction.version` that the client uses."""

    CLASSIC = 0
    EPOCH_PER_TRANSACTION = 2  # KIP-890: the first batch adds a partition, every end bumps the epoch


def is_exhausted(epoch: int) -> bool:
    """The last epoch is never given to a producer: it is reserved for fencing the one before it."""
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
    # The epoch before the last bump for the same producer, which a retried request may still carry. As in Kafka it is
    # not in the log, so a retry across a restart is fenced.
    last_epoch: int = NO_PRODUCER_EPOCH
    level: ProtocolLevel = ProtocolLevel.CLASSIC

    @property
    def producer(self) -> ProducerIdentity:
        return ProducerIdentity(self.producer_id, self.epoch)

    @property
    def deadline_ms(self) -> int | None:
        """When the open transaction times out; None if none is open."""
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
        """Bumps the epoch for a new session, or for a producer that recovers from an error (KIP-360)."""
        return self._at_rest_again(self.producer_id, epoch, last_epoch, timeout_ms, now_ms)

    def with_producer_id(self, producer_id: int, last_epoch: int, timeout_ms: int, now_ms: int) -> Transaction:
        """Changes the producer id, because the epochs of the old one are exhausted."""
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

    # Transitions of a transaction

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
        """The outcome is decided. Since KIP-890 the markers carry the next epoch, which fences delayed batches."""
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
            # A client may abort an empty transaction, which needs a start time.
            start_ms=now_ms if self.state.is_at_rest else self.start_ms,
            last_update_ms=now_ms,
            level=level,
        )

    def fenced(self, now_ms: int) -> Transaction:
        """Aborts the open transaction on behalf of the coordinator and bumps the epoch, at any feature level.

        If the producer itself aborts later, that counts as a retry of this abort, and the producer can continue.
        """
        assert self.state is TransactionState.ONGOING
        return self.prepared(False, ProtocolLevel.EPOCH_PER_TRANSACTION, NO_PRODUCER_ID, now_ms)

    def completed(self, now_ms: int) -> Transaction:
        """All markers are written."""
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
