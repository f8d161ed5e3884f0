"""Exactly once for a handler that produces: its records and the consumer's offsets in one Kafka transaction.

Owns the transaction around a batch, and the retry after an abort. It must never know what the handler sends.

Invariant: a batch's offsets commit if and only if the records that the handler sent for it do. A consumer that is no
longer a group member cannot commit: the broker checks its generation in the transaction (KIP-447).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from penstock.client.delivery.dead_letters import ensure_topic, forward
from penstock.client.records import Record, first_offsets, next_offsets
from penstock.core.errors import CommitRefused, TransactionAborted
from penstock.core.ids import TopicPartition

if TYPE_CHECKING:
    from penstock.client.consumer import Consumer
    from penstock.client.delivery.dead_letters import DeadLetter, DeadLetterProducer
    from penstock.client.delivery.loop import Call
    from penstock.client.producer import Producer

_CONSECUTIVE_ABORTS_MAX: Final = 10
_log = logging.getLogger("penstock.delivery")


class KafkaTransaction:
    """The handler receives the producer with an open transaction: `def handler(record, producer): producer.send(...)`.

    The producer needs a `transactional.id` that is unique to each running instance and stays the same after a restart.
    """

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    def open(self, consumer: Consumer, _publisher: DeadLetterProducer) -> KafkaTransactionSession:
        # Before the first read: this ends the transaction of a crashed predecessor, and its offsets become the group's.
        self._producer.init_transactions()
        return KafkaTransactionSession(self._producer, consumer)


class KafkaTransactionSession:
    def __init__(self, producer: Producer, consumer: Consumer) -> None:
        self._producer = producer
        self._consumer = consumer
        self._consecutive_aborts = 0
        self._dead_letter_topics: set[str] = set()

    def starting_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The group's committed offsets, also after a run that did not learn the outcome of its last transaction."""
        committed = self._consumer.committed(partitions)
        return {partition: offset for partition, offset in committed.items() if offset is not None}

    def put_away(self, letters: Sequence[DeadLetter], /, *_transaction: Any) -> None:
        for topic in {letter.topic for letter in letters} - self._dead_letter_topics:
            ensure_topic(self._consumer.connection_config(), topic)
            self._dead_letter_topics.add(topic)
        for letter in letters:
            forward(self._producer, letter)

    def idle(self) -> None:
        """The group's offsets are the positions."""

    def close(self) -> None:
        """The caller owns the producer; it stays open."""

    def deliver(self, records: Sequence[Record], call: Call) -> int:
        try:
            # Taken before the handler runs: a consumer that rejoins meanwhile must not commit with its new membership.
            membership = self._consumer.group_metadata()
            with self._producer.transaction():
                call(records, self._producer)
                self._producer.send_offsets_to_transaction(next_offsets(records), membership)
        except (TransactionAborted, CommitRefused) as failure:
            self._consumer.rewind(first_offsets(records))
            self._consecutive_aborts += 1
            if self._consecutive_aborts >= _CONSECUTIVE_ABORTS_MAX:
                raise
            _log.warning("retrying a batch: %s", failure)
            return 0
        except BaseException:
            self._consumer.rewind(first_offsets(records))
            raise
        self._consecutive_aborts = 0
        return len(records)
