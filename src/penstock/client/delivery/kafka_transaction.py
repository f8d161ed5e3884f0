"""Exactly once for a handler that produces: its records and the consumer's offsets in one Kafka transaction.

Owns the transaction around a batch, and trying again after one that had to be aborted. It must never know what the
handler sends.

Invariant: a batch's offsets commit if and only if what the handler sent for it does. A member that the group has put
out cannot commit: the broker compares its generation, inside the transaction (KIP-447).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from penstock.client.records import Record, first_offsets, next_offsets
from penstock.core.errors import CommitRefused, TransactionAborted
from penstock.core.ids import TopicPartition

if TYPE_CHECKING:
    from penstock.client.consumer import Consumer
    from penstock.client.delivery.loop import Call
    from penstock.client.producer import Producer

_ATTEMPTS_IN_A_ROW_MAX: Final = 10
_log = logging.getLogger("penstock.delivery")


class KafkaTransaction:
    """The handler gets the producer, in a transaction: `def handler(record, producer): producer.send(...)`.

    The producer has a `transactional.id`, one of its own for each running instance, and the same again after a restart.
    """

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    def open(self, consumer: Consumer) -> KafkaTransactionSession:
        # Before the first read: what a predecessor left open is settled, and its offsets are the group's.
        self._producer.init_transactions()
        return KafkaTransactionSession(self._producer, consumer)


class KafkaTransactionSession:
    def __init__(self, producer: Producer, consumer: Consumer) -> None:
        self._producer = producer
        self._consumer = consumer
        self._aborted_in_a_row = 0

    def starting_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """What the group has committed, also where an earlier run could not learn how its last transaction ended."""
        committed = self._consumer.committed(partitions)
        return {partition: offset for partition, offset in committed.items() if offset is not None}

    def close(self) -> None:
        """The producer is the caller's, and stays open."""

    def deliver(self, records: Sequence[Record], call: Call) -> int:
        try:
            # Now, not at the end: a member that is put out while the handler works must not show its next membership.
            membership = self._consumer.group_metadata()
            with self._producer.transaction():
                call(records, self._producer)
                self._producer.send_offsets_to_transaction(next_offsets(records), membership)
        except (TransactionAborted, CommitRefused) as failure:
            self._consumer.rewind(first_offsets(records))
            self._aborted_in_a_row += 1
            if self._aborted_in_a_row >= _ATTEMPTS_IN_A_ROW_MAX:
                raise
            _log.warning("a batch is tried again: %s", failure)
            return 0
        except BaseException:
            self._consumer.rewind(first_offsets(records))
            raise
        self._aborted_in_a_row = 0
        return len(records)
