"""The records of `__transaction_state`: one per transactional id; the last one is valid."""

from __future__ import annotations

from typing import Final

from penstock.coordinator.records.codec import CoordinatorRecord, RecordKind, kind_number
from penstock.coordinator.transaction import ProtocolLevel, Transaction, TransactionState
from penstock.core.errors import ProtocolError
from penstock.core.ids import TopicPartition
from penstock.protocol.schema import INT8, INT16, INT32, INT64, STRING, Message, Struct, array_of, wire


class TransactionLogKey(Message, versions=(0, 0)):
    transactional_id: str = wire(STRING)


class PartitionsSchema(Struct):
    topic: str = wire(STRING)
    partition_ids: list[int] = array_of(INT32)


class TransactionLogValue(Message, versions=(0, 1), flexible_since=1):
    producer_id: int = wire(INT64)
    previous_producer_id: int = wire(INT64, since=1, tag=0, default=-1)
    next_producer_id: int = wire(INT64, since=1, tag=1, default=-1)
    producer_epoch: int = wire(INT16)
    next_producer_epoch: int = wire(INT16, since=1, tag=3, default=-1)
    transaction_timeout_ms: int = wire(INT32)
    transaction_status: int = wire(INT8)
    transaction_partitions: list[PartitionsSchema] | None = array_of(PartitionsSchema, nullable_since=0)
    transaction_last_update_timestamp_ms: int = wire(INT64)
    transaction_start_timestamp_ms: int = wire(INT64)
    client_transaction_version: int = wire(INT16, since=1, tag=2)


TRANSACTION_LOG: Final = RecordKind(0, TransactionLogKey, TransactionLogValue, value_version=1)


def record_of(transaction: Transaction) -> CoordinatorRecord:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        by_topic.setdefault(topic, []).append(partition)
    partitions = [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in by_topic.items()]
    return TRANSACTION_LOG.record(
        TransactionLogKey(transactional_id=transaction.transactional_id),
        TransactionLogValue(
            producer_id=transaction.producer_id,
            previous_producer_id=transaction.previous_producer_id,
            next_producer_id=transaction.next_producer_id,
            producer_epoch=transaction.epoch,
            transaction_timeout_ms=transaction.timeout_ms,
            transaction_status=transaction.state,
            transaction_partitions=None if transaction.state is TransactionState.EMPTY else partitions,
            transaction_last_update_timestamp_ms=transaction.last_update_ms,
            transaction_start_timestamp_ms=transaction.start_ms,
            client_transaction_version=transaction.level,
        ),
    )


def tombstone_of(transactional_id: str) -> CoordinatorRecord:
    return TRANSACTION_LOG.tombstone(TransactionLogKey(transactional_id=transactional_id))


def transaction_in(key: bytes, value: bytes | None) -> tuple[str, Transaction | None]:
    """The transactional id of a record, and its state; None for a tombstone."""
    if kind_number(key) != TRANSACTION_LOG.number:
        raise ProtocolError(f"record type {kind_number(key)} does not belong to the transaction log")
    transactional_id = TRANSACTION_LOG.read_key(key).transactional_id
    if value is None:
        return transactional_id, None
    stored = TRANSACTION_LOG.read_value(value)
    try:
        state = TransactionState(stored.transaction_status)
    except ValueError as error:
        raise ProtocolError(
            f"{transactional_id}: the transaction state {stored.transaction_status} does not exist"
        ) from error
    return transactional_id, Transaction(
        transactional_id=transactional_id,
        producer_id=stored.producer_id,
        epoch=stored.producer_epoch,
        timeout_ms=stored.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            TopicPartition(group.topic, partition)
            for group in stored.transaction_partitions or ()
            for partition in group.partition_ids
        ),
        start_ms=stored.transaction_start_timestamp_ms,
        last_update_ms=stored.transaction_last_update_timestamp_ms,
        previous_producer_id=stored.previous_producer_id,
        next_producer_id=stored.next_producer_id,
        level=(
            ProtocolLevel.EPOCH_PER_TRANSACTION
            if stored.client_transaction_version >= ProtocolLevel.EPOCH_PER_TRANSACTION
            else ProtocolLevel.CLASSIC
        ),
    )
