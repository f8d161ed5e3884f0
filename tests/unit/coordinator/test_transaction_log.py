"""Records of the transaction log: Kafka's format, and round trips."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.coordinator.records.transaction_log import record_of, tombstone_of, transaction_in
from penstock.coordinator.transaction import ProtocolLevel, Transaction, TransactionState
from penstock.core.errors import ProtocolError
from penstock.core.ids import TopicPartition

TRANSACTION = Transaction(
    transactional_id="copy",
    producer_id=4000,
    epoch=7,
    timeout_ms=60_000,
    state=TransactionState.PREPARE_COMMIT,
    partitions=frozenset({TopicPartition("b", 1), TopicPartition("a", 2), TopicPartition("a", 0)}),
    start_ms=1_700_000_000_000,
    last_update_ms=1_700_000_000_500,
    previous_producer_id=3999,
    next_producer_id=4001,
    level=ProtocolLevel.EPOCH_PER_TRANSACTION,
)


@pytest.mark.parametrize("state", list(TransactionState))
def test_a_transaction_comes_back_as_it_was_written(state: TransactionState) -> None:
    partitions = frozenset() if state is TransactionState.EMPTY else TRANSACTION.partitions
    transaction = replace(TRANSACTION, state=state, partitions=partitions)
    record = record_of(transaction)
    assert transaction_in(record.key, record.value) == ("copy", transaction)


def test_the_key_is_the_transactional_id_and_nothing_else() -> None:
    assert record_of(TRANSACTION).key == b"\x00\x00\x00\x04copy"
    assert tombstone_of("copy") == (b"\x00\x00\x00\x04copy", None)
    assert transaction_in(*tombstone_of("copy")) == ("copy", None)


def test_a_value_of_the_first_version_is_read() -> None:
    """As Kafka wrote it before its values became flexible."""
    value = (
        b"\x00\x00" + (5).to_bytes(8, "big") + b"\x00\x03" + (60_000).to_bytes(4, "big") + b"\x01"
        b"\x00\x00\x00\x01" + b"\x00\x01a" + b"\x00\x00\x00\x01" + b"\x00\x00\x00\x02"
        + (20).to_bytes(8, "big") + (10).to_bytes(8, "big")
    )  # fmt: skip
    _, transaction = transaction_in(b"\x00\x00\x00\x04copy", value)
    assert transaction == Transaction(
        transactional_id="copy",
        producer_id=5,
        epoch=3,
        timeout_ms=60_000,
        state=TransactionState.ONGOING,
        partitions=frozenset({TopicPartition("a", 2)}),
        start_ms=10,
        last_update_ms=20,
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\x00\x01\x00\x04copy", None),
        (b"\x00", None),
        (b"\x00\x00\x00\x09copy", None),
        (b"\x00\x00\x00\x04copy", b"\x00\x09"),
        (b"\x00\x00\x00\x04copy", b""),
        (b"\x00\x00\x00\x04copy", b"\x00\x00" + bytes(14) + b"\x63" + bytes(20)),
    ],
)
def test_what_cannot_be_a_record_of_this_log_is_refused(key: bytes, value: bytes | None) -> None:
    with pytest.raises(ProtocolError):
        transaction_in(key, value)
