"""Whether the batches of a transaction may be appended: their partitions must be in the producer's open transaction.

Asked by Produce and TxnOffsetCommit before they append (KIP-890). A client of the newer protocol lets a partition join
with its first write; an older one has added it before, and is only verified. Where another broker coordinates the
transaction, it is asked (`remote_admission.py`).

Owns: the question, and the answer in error codes that the client's version knows. The transaction's state is the
coordinator's.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.transactions.markers import Failures
from penstock.coordinator.transaction import ProtocolLevel
from penstock.core.ids import ProducerIdentity, TopicPartition
from penstock.protocol.error_codes import BrokerError, ErrorCode

if TYPE_CHECKING:
    from penstock.broker.node import Node

OnAdmitted = Callable[[Failures], None]


class Joining(IntEnum):
    """How the client expects its partitions to join the transaction, by the version that it speaks."""

    BEFORE_WITH_OLD_ERRORS = 0  # by AddPartitionsToTxn; Produce up to 10, TxnOffsetCommit up to 3
    BEFORE = 1  # likewise, and TRANSACTION_ABORTABLE is understood; Produce 11, TxnOffsetCommit 4
    WITH_THE_WRITE = 2  # KIP-890, part 2; Produce from 12, TxnOffsetCommit from 5


def admit(
    node: Node,
    transactional_id: str,
    producer: ProducerIdentity,
    partitions: frozenset[TopicPartition],
    joining: Joining,
    on_admitted: OnAdmitted,
) -> None:
    """Tells which partitions must not get their batch, and why: at once, or when they have joined."""
    if node.is_clustered:
        from penstock.broker.transactions.remote_admission import coordinator_elsewhere

        if coordinator_elsewhere(node, transactional_id) is not None:
            _ask_elsewhere(node, transactional_id, producer, partitions, joining, on_admitted)
            return
    # An earlier request of this round may have changed the transaction.
    node.appends.write()
    try:
        if joining is Joining.WITH_THE_WRITE:
            _join(node, transactional_id, producer, partitions, on_admitted)
            return
        failures: Failures = {}
        if node.config.transaction_partition_verification_enable:
            failures = node.transactions.verify_partitions(transactional_id, producer, partitions)
    except BrokerError as error:
        failures = dict.fromkeys(partitions, error.to_keep())
    on_admitted({partition: _for_client(error, joining) for partition, error in failures.items()})


def _ask_elsewhere(
    node: Node,
    transactional_id: str,
    producer: ProducerIdentity,
    partitions: frozenset[TopicPartition],
    joining: Joining,
    on_admitted: OnAdmitted,
) -> None:
    joins = joining is Joining.WITH_THE_WRITE
    if not joins and not node.config.transaction_partition_verification_enable:
        on_admitted({})
        return

    def answered(failures: Failures) -> None:
        on_admitted({partition: _for_client(error, joining) for partition, error in failures.items()})

    node.transactions.elsewhere.ask(transactional_id, producer, partitions, joins=joins, on_answered=answered)


def _join(
    node: Node,
    transactional_id: str,
    producer: ProducerIdentity,
    partitions: frozenset[TopicPartition],
    on_admitted: OnAdmitted,
) -> None:
    # A producer that has just begun may send two batches in a row. The second must neither overtake the first, nor be
    # refused because the first is still joining.
    again = partial(admit, node, transactional_id, producer, partitions, Joining.WITH_THE_WRITE, on_admitted)
    if node.transactions.after_pending_change(transactional_id, again):
        return

    def done(error: BrokerError | None) -> None:
        if error is None:
            on_admitted({})
        else:
            on_admitted(dict.fromkeys(partitions, _for_client(error, Joining.WITH_THE_WRITE)))

    node.transactions.add_partitions(transactional_id, producer, partitions, ProtocolLevel.EPOCH_PER_TRANSACTION, done)
    # The batch may only follow behind this record.
    node.appends.write()


def _for_client(error: BrokerError, joining: Joining) -> BrokerError:
    """The coordinator's error as a code that the client's version knows."""
    if error.code == ErrorCode.PRODUCER_FENCED:
        return BrokerError(ErrorCode.INVALID_PRODUCER_EPOCH, error.message)
    if error.code == ErrorCode.TRANSACTION_ABORTABLE and joining is Joining.BEFORE_WITH_OLD_ERRORS:
        return BrokerError(ErrorCode.INVALID_TXN_STATE, error.message)
    return error
