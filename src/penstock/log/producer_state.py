"""Idempotence: what each producer wrote last, so that a retry is recognised and a gap refused (KIP-98).

Owns: one entry per producer id with its last five batches, Kafka's rules for sequences and epochs, expiry, and undoing
what was staged but never written.
Must never know: files; `producer_snapshot.py` writes and reads these entries.

Invariant: between `stage` and `commit` or `rollback`, entries already count the staged batches, so that two batches of
one producer that arrive together are checked against each other.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.protocol.record_batch import BatchHeader

BATCHES_KEPT: Final = 5  # as many as a producer may have in flight
NO_TRANSACTION: Final = -1
NO_COORDINATOR_EPOCH: Final = -1

_SEQUENCE_MASK: Final = 0x7FFFFFFF


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


class ProducerState:
    __slots__ = ("_before_staging", "entries")

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self._before_staging: dict[int, ProducerEntry | None] = {}

    def check(self, header: BatchHeader) -> int | None:
        """None if the batch may be appended; the base offset it was given if it was appended before.

        A producer id that is not known here may begin with any sequence: its earlier records may have been deleted. An
        epoch newer than the known one begins with sequence 0. A sequence older than the batches kept here is out of
        order, as in Kafka, because nothing tells whether it had been written.
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
            next_sequence = (entry.batches[-1].last_sequence + 1) & _SEQUENCE_MASK if entry.batches else 0
        elif header.producer_epoch < entry.epoch:
            raise BrokerError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id} has epoch {entry.epoch}, the batch is of epoch {header.producer_epoch}",
            )
        else:
            next_sequence = 0
        if first_sequence != next_sequence:
            raise BrokerError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} sent sequence {first_sequence}, {next_sequence} must follow",
            )
        return None

    def stage(self, header: BatchHeader, base_offset: int, now_ms: int) -> None:
        """Counts a batch that is about to be written."""
        producer_id = header.producer_id
        if producer_id not in self._before_staging:
            self._before_staging[producer_id] = self.entries.get(producer_id)
        self.record(header, base_offset, now_ms)

    def commit(self) -> None:
        self._before_staging.clear()

    def rollback(self) -> None:
        """Forgets everything staged since the last commit."""
        for producer_id, entry in self._before_staging.items():
            if entry is None:
                del self.entries[producer_id]
            else:
                self.entries[producer_id] = entry
        self._before_staging.clear()

    def record(self, header: BatchHeader, base_offset: int, now_ms: int) -> None:
        """Counts a batch that is in the log."""
        batch = WrittenBatch(
            header.base_sequence, header.last_sequence, base_offset, base_offset + header.last_offset_delta
        )
        entry = self.entries.get(header.producer_id)
        if entry is not None and entry.epoch == header.producer_epoch:
            batches = (*entry.batches[1 - BATCHES_KEPT :], batch)
            coordinator_epoch = entry.coordinator_epoch
        else:
            batches = (batch,)
            coordinator_epoch = NO_COORDINATOR_EPOCH
        self.entries[header.producer_id] = ProducerEntry(header.producer_epoch, batches, now_ms, coordinator_epoch)

    def remove_expired(self, now_ms: int, expiration_ms: int) -> None:
        """Forgets producers that wrote nothing for longer than `producer.id.expiration.ms`."""
        expired = [
            producer_id
            for producer_id, entry in self.entries.items()
            if now_ms - entry.last_seen_ms > expiration_ms
            and entry.current_transaction_first_offset == NO_TRANSACTION
            and producer_id not in self._before_staging
        ]
        for producer_id in expired:
            del self.entries[producer_id]
