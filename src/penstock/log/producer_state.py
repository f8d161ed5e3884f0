"""Producer state: detects duplicates and sequence gaps, and tracks open transactions (KIP-98, KIP-890).

Owns: one entry per producer id with its last five batches and its open transaction; Kafka's rules for sequences, epochs
and markers; expiration; the rollback of staged batches.
Must never know: files; `producer_snapshot.py` writes and reads these entries.

Invariants: between `stage` and `commit` or `rollback`, entries include the staged batches, so that two batches of one
producer that arrive together are checked against each other. `transactions`, which readers use, includes only committed
ones.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.core.ids import PRODUCER_EPOCH_MAX
from penstock.log.transactions import Transactions
from penstock.protocol.control_records import TransactionMarker
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.protocol.record_batch import NO_SEQUENCE, SEQUENCE_MASK, TRANSACTIONAL_FLAG, BatchHeader

BATCHES_KEPT: Final = 5  # the maximum that a producer has in flight
NO_TRANSACTION: Final = -1
NO_COORDINATOR_EPOCH: Final = -1


class WrittenBatch(NamedTuple):
    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int


class ProducerEntry(NamedTuple):
    epoch: int
    batches: tuple[WrittenBatch, ...]  # oldest first
    last_seen_ms: int
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    current_transaction_first_offset: int = NO_TRANSACTION


_NO_ENTRY: Final = ProducerEntry(epoch=-1, batches=(), last_seen_ms=0)


class _TransactionStep(NamedTuple):
    """A transaction that a staged batch begins, or that a staged marker ends."""

    producer_id: int
    first_offset: int
    marker_offset: int = NO_TRANSACTION
    committed: bool = False


class ProducerState:
    __slots__ = ("_before_staging", "_staged_steps", "entries", "transactions")

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self.transactions = Transactions()
        self._before_staging: dict[int, ProducerEntry | None] = {}
        self._staged_steps: list[_TransactionStep] = []

    def check(self, header: BatchHeader) -> int | None:
        """None if the batch may be appended; its base offset if it is a duplicate. Raises BrokerError.

        An unknown producer id may start with any sequence: its earlier records may have been deleted. A new epoch
        starts with sequence 0. As in Kafka, a sequence before the remembered batches is out of order, because it is
        unknown whether it was written.
        """
        entry = self.entries.get(header.producer_id)
        if entry is None:
            return None
        first_sequence = header.base_sequence
        if header.producer_epoch == entry.epoch:
            last_sequence = header.last_sequence
            for batch in entry.batches:
                if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                    return batch.base_offset
            next_sequence = (entry.batches[-1].last_sequence + 1) & SEQUENCE_MASK if entry.batches else 0
        elif header.producer_epoch < entry.epoch:
            raise _old_epoch(header.producer_id, entry.epoch, header.producer_epoch)
        else:
            next_sequence = 0
        if first_sequence != next_sequence:
            raise BrokerError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} sent sequence {first_sequence}; {next_sequence} was expected",
            )
        if entry.current_transaction_first_offset != NO_TRANSACTION:
            _check_is_transactional(header)
        return None

    def check_unsequenced(self, header: BatchHeader) -> None:
        """Checks a batch that the broker writes on behalf of a producer, such as offsets in a transaction.

        It has no sequence and is never retried. Epoch and transaction are checked as usual.
        """
        entry = self.entries.get(header.producer_id)
        if entry is None:
            return
        if header.producer_epoch < entry.epoch:
            raise _old_epoch(header.producer_id, entry.epoch, header.producer_epoch)
        if entry.current_transaction_first_offset != NO_TRANSACTION:
            _check_is_transactional(header)

    def check_marker(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, *, epoch_must_be_new: bool = False
    ) -> None:
        """Raises BrokerError unless the coordinator may end the producer's transaction.

        With `epoch_must_be_new`, the coordinator bumps the epoch with every transaction (transaction.version 2): a
        marker of the current epoch is then a delayed one, unless no transaction is open (KIP-1228).
        """
        entry = self.entries.get(producer_id)
        if entry is None:
            return
        if producer_epoch < entry.epoch or (
            epoch_must_be_new
            and producer_epoch == entry.epoch != PRODUCER_EPOCH_MAX
            and entry.current_transaction_first_offset != NO_TRANSACTION
        ):
            raise _old_epoch(producer_id, entry.epoch, producer_epoch)
        if coordinator_epoch < entry.coordinator_epoch:
            raise BrokerError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"the last marker of producer {producer_id} has coordinator epoch {entry.coordinator_epoch}, "
                f"this one has {coordinator_epoch}",
            )

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether the producer has an open transaction in this epoch."""
        entry = self.entries.get(producer_id)
        return (
            entry is not None
            and entry.epoch == producer_epoch
            and entry.current_transaction_first_offset != NO_TRANSACTION
        )

    def stage(self, header: BatchHeader, base_offset: int, now_ms: int) -> None:
        """Adds a batch that is about to be written."""
        producer_id = header.producer_id
        if producer_id not in self._before_staging:
            self._before_staging[producer_id] = self.entries.get(producer_id)
        self._count(header, base_offset, now_ms)

    def stage_marker(self, header: BatchHeader, marker: TransactionMarker, base_offset: int, now_ms: int) -> None:
        """Adds a marker that is about to be written."""
        producer_id = header.producer_id
        if producer_id not in self._before_staging:
            self._before_staging[producer_id] = self.entries.get(producer_id)
        self._count_marker(header, marker, base_offset, now_ms)

    def commit(self) -> None:
        self._before_staging.clear()
        if self._staged_steps:
            self._take_steps()

    def rollback(self) -> None:
        """Discards everything staged since the last commit."""
        for producer_id, entry in self._before_staging.items():
            if entry is None:
                del self.entries[producer_id]
            else:
                self.entries[producer_id] = entry
        self._before_staging.clear()
        self._staged_steps.clear()

    def record(self, header: BatchHeader, marker: TransactionMarker | None, base_offset: int, now_ms: int) -> None:
        """Adds a batch of the log; `marker` is the content of a control batch."""
        if marker is not None:
            self._count_marker(header, marker, base_offset, now_ms)
        elif not header.is_control:
            self._count(header, base_offset, now_ms)
        self._take_steps()

    def restore(self, entries: dict[int, ProducerEntry]) -> None:
        """Starts from the entries of a snapshot."""
        self.entries = entries
        opened = [(entry.current_transaction_first_offset, producer_id) for producer_id, entry in entries.items()]
        for first_offset, producer_id in sorted(opened):
            if first_offset != NO_TRANSACTION:
                self.transactions.begin(producer_id, first_offset)

    def remove_expired(self, now_ms: int, expiration_ms: int) -> None:
        """Removes producers that wrote nothing for longer than `producer.id.expiration.ms`."""
        expired = [
            producer_id
            for producer_id, entry in self.entries.items()
            if now_ms - entry.last_seen_ms > expiration_ms
            and entry.current_transaction_first_offset == NO_TRANSACTION
            and producer_id not in self._before_staging
        ]
        for producer_id in expired:
            del self.entries[producer_id]

    def _count(self, header: BatchHeader, base_offset: int, now_ms: int) -> None:
        producer_id = header.producer_id
        epoch = header.producer_epoch
        known_epoch, batches, _, coordinator_epoch, first_in_transaction = self.entries.get(producer_id, _NO_ENTRY)
        if epoch != known_epoch:
            batches = ()
        first_sequence = header.base_sequence
        if first_sequence != NO_SEQUENCE:
            batch = WrittenBatch(
                first_sequence, header.last_sequence, base_offset, base_offset + header.last_offset_delta
            )
            batches = (*batches[1 - BATCHES_KEPT :], batch)
        if header.attributes & TRANSACTIONAL_FLAG and first_in_transaction == NO_TRANSACTION:
            first_in_transaction = base_offset
            self._staged_steps.append(_TransactionStep(producer_id, base_offset))
        self.entries[producer_id] = ProducerEntry(epoch, batches, now_ms, coordinator_epoch, first_in_transaction)

    def _count_marker(self, header: BatchHeader, marker: TransactionMarker, base_offset: int, now_ms: int) -> None:
        """A marker of a newer epoch also fences the old one: its delayed batches are refused (KIP-890)."""
        producer_id = header.producer_id
        epoch = header.producer_epoch
        known_epoch, batches, _, _, first_offset = self.entries.get(producer_id, _NO_ENTRY)
        if epoch != known_epoch:
            batches = ()
        if first_offset != NO_TRANSACTION:
            self._staged_steps.append(_TransactionStep(producer_id, first_offset, base_offset, marker.committed))
        self.entries[producer_id] = ProducerEntry(epoch, batches, now_ms, marker.coordinator_epoch)

    def _take_steps(self) -> None:
        for producer_id, first_offset, marker_offset, committed in self._staged_steps:
            if marker_offset == NO_TRANSACTION:
                self.transactions.begin(producer_id, first_offset)
            else:
                self.transactions.end(producer_id, first_offset, marker_offset, committed)
        self._staged_steps.clear()


def _old_epoch(producer_id: int, known: int, given: int) -> BrokerError:
    return BrokerError(
        ErrorCode.INVALID_PRODUCER_EPOCH, f"producer {producer_id} has epoch {known}, the batch has epoch {given}"
    )


def _check_is_transactional(header: BatchHeader) -> None:
    if not header.is_transactional:
        raise BrokerError(
            ErrorCode.INVALID_TXN_STATE,
            f"producer {header.producer_id} has an open transaction, and the batch is not transactional",
        )
