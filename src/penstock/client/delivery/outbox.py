"""Dead letters of a run with a database: kept in the transaction of their batch, published when it has committed.

A database and a topic have no common transaction, so a letter is first a row, which commits or rolls back with the
effect and the offset. A crash between publishing and removing the row publishes the letter twice.

Invariant: a letter is published only after its batch has committed, and by the consumer that owns its partition.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from penstock.client.delivery.dead_letters import DeadLetter, DeadLetterProducer
from penstock.core.errors import ClientError

if TYPE_CHECKING:
    from penstock.client.consumer import Consumer
    from penstock.client.delivery.database_store import DatabaseStore

_CREATE: Final = """
CREATE TABLE IF NOT EXISTS penstock_consumer_dead_letters (
    consumer_group TEXT NOT NULL,
    topic TEXT NOT NULL,
    partition_number INTEGER NOT NULL,
    record_offset BIGINT NOT NULL,
    letter TEXT NOT NULL,
    PRIMARY KEY (consumer_group, topic, partition_number, record_offset)
)"""
_ADD: Final = """
INSERT INTO penstock_consumer_dead_letters (consumer_group, topic, partition_number, record_offset, letter)
VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"""
_WAITING: Final = """
SELECT letter FROM penstock_consumer_dead_letters WHERE consumer_group = ?
ORDER BY topic, partition_number, record_offset"""
_REMOVE: Final = """
DELETE FROM penstock_consumer_dead_letters
WHERE consumer_group = ? AND topic = ? AND partition_number = ? AND record_offset = ?"""
_TABLE: Final = "penstock_consumer_dead_letters"
_log = logging.getLogger("penstock.delivery")


class DeadLetterOutbox:
    def __init__(self, store: DatabaseStore, consumer: Consumer, publisher: DeadLetterProducer) -> None:
        self._store = store
        self._consumer = consumer
        self._group = consumer.group_id
        self._publisher = publisher
        self._has_table = False
        # Letters of an earlier run may be waiting.
        self._may_be_waiting = True

    def partitions_changed(self) -> None:
        """Their former owner may have left letters behind."""
        self._may_be_waiting = True

    def add(self, letters: Sequence[DeadLetter], /, *transaction: Any) -> None:
        (connection,) = transaction
        if letters and not self._has_table:
            self._store.create_table(connection, _CREATE)
        for letter in letters:
            values = (self._group, *letter.source, letter.offset, letter.to_json())
            self._store.execute(connection, _ADD, values)
            self._may_be_waiting = True

    def publish(self) -> None:
        """Publishes the letters of the partitions that this consumer owns; if that fails, a later call tries again."""
        owned = self._consumer.assignment()
        if not self._may_be_waiting or not owned:
            return
        with self._store.transaction() as connection:
            self._has_table = self._store.has_table(connection, _TABLE)
            rows = self._store.execute(connection, _WAITING, (self._group,)).fetchall() if self._has_table else []
        letters = [letter for (text,) in rows if (letter := DeadLetter.from_json(text)).source in owned]
        if letters:
            try:
                self._publisher.publish(letters)
            except ClientError as failure:
                _log.warning("%d dead letters stay in the database for now: %s", len(letters), failure)
                return
            with self._store.transaction() as connection:
                for letter in letters:
                    self._store.execute(connection, _REMOVE, (self._group, *letter.source, letter.offset))
        self._may_be_waiting = False
