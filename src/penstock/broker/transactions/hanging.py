"""Transactions that are open in a partition and unknown to their coordinator: a starting broker ends them.

The order of writes leaves none behind, not even when the process is killed. A power failure may: the transaction log's
last records can be lost while the partition's are not. Readers of committed records would then wait without end.

Only for a broker that coordinates every transaction itself: in a cluster another broker may know the transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.broker.transactions.markers import TransactionEnd, write_markers
from penstock.coordinator.transaction import ProtocolLevel, Transaction
from penstock.core.ids import ProducerIdentity, TopicPartition

if TYPE_CHECKING:
    from penstock.broker.node import Node

logger = logging.getLogger(__name__)


def end_hanging_transactions(node: Node, transactions: Iterable[Transaction]) -> None:
    """`transactions` is all that is known. What is not in it is aborted; a commit that it tells of is repeated."""
    by_producer = {transaction.producer_id: transaction for transaction in transactions}
    for partition in tuple(node.topics.led()):
        state = partition.log.producer_state
        place = TopicPartition(partition.topic_name, partition.index)
        for producer_id in tuple(state.transactions.open.values()):
            entry = state.entries[producer_id]
            known = by_producer.get(producer_id)
            if known is not None and place in known.partitions:
                continue
            committed = known is not None and _committed_in(known, entry.epoch)
            logger.warning(
                "%s: the transaction of producer %d is unknown to its coordinator and is %s",
                partition,
                producer_id,
                "committed" if committed else "aborted",
            )
            end = TransactionEnd(
                ProducerIdentity(producer_id, entry.epoch),
                committed,
                max(entry.coordinator_epoch, 0),
                epoch_must_be_new=False,
            )
            write_markers(node, end, [place], lambda failures: None)


def _committed_in(known: Transaction, epoch: int) -> bool:
    """Whether the producer's last transaction was one of this epoch, and was committed."""
    bumps = known.level is ProtocolLevel.EPOCH_PER_TRANSACTION
    return known.state.is_at_rest and known.commits and known.epoch == epoch + bumps
