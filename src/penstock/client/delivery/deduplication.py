"""Exactly once by deduplication: a unique index on (topic, partition, offset) in the database of the effects.

The alternative to stored offsets: the group's offsets are committed after the effect, as under at_least_once, and a
repeated record is found in the index and skipped. Choose it where the group's committed offsets must be authoritative
(`penstock group reset-offsets` works, and no record is applied twice). It costs one row per record.

Invariant: a record's row and its effect commit together. A consumer that lost its partitions without knowing it
conflicts in the same index, and waits there for the transaction that came first.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from penstock.client.delivery.database_store import DatabaseStore
from penstock.client.delivery.outbox import DeadLetterOutbox
from penstock.client.records import Record, first_offsets, next_offsets
from penstock.core.errors import CommitRefused
from penstock.core.ids import TopicPartition

if TYPE_CHECKING:
    from penstock.client.consumer import Consumer
    from penstock.client.delivery.dead_letters import DeadLetterProducer
    from penstock.client.delivery.loop import Call

_CREATE_APPLIED: Final = """
CREATE TABLE IF NOT EXISTS penstock_applied (
    consumer_group TEXT NOT NULL,
    topic TEXT NOT NULL,
    partition_number INTEGER NOT NULL,
    record_offset BIGINT NOT NULL,
    PRIMARY KEY (consumer_group, topic, partition_number, record_offset)
)"""
_APPLY: Final = """
INSERT INTO penstock_applied (consumer_group, topic, partition_number, record_offset) VALUES (?, ?, ?, ?)
ON CONFLICT DO NOTHING"""
_log = logging.getLogger("penstock.delivery")


class Deduplicated:
    """`store=Deduplicated(SQLiteStore("orders.db"))`: repeated records never reach the handler."""

    def __init__(self, database: DatabaseStore) -> None:
        self._database = database

    def open(self, consumer: Consumer, publisher: DeadLetterProducer) -> DeduplicatedSession:
        with self._database.transaction() as connection:
            self._database.create_table(connection, _CREATE_APPLIED)
        outbox = DeadLetterOutbox(self._database, consumer, publisher)
        return DeduplicatedSession(self._database, consumer, outbox)


class DeduplicatedSession:
    def __init__(self, database: DatabaseStore, consumer: Consumer, outbox: DeadLetterOutbox) -> None:
        self._database = database
        self._consumer = consumer
        self._outbox = outbox
        self.put_away = outbox.add
        self._group = consumer.group_id

    def starting_offsets(self, _partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        self._outbox.partitions_changed()
        return {}

    def idle(self) -> None:
        self._outbox.publish()

    def close(self) -> None:
        self._database.close()

    def deliver(self, records: Sequence[Record], call: Call) -> int:
        try:
            with self._database.transaction() as connection:
                new = [record for record in records if not self._already_applied(connection, record)]
                if new:
                    call(new, connection)
        except BaseException:
            self._consumer.rewind(first_offsets(records))
            raise
        try:
            self._consumer.commit(next_offsets(records))
        except CommitRefused as refusal:
            _log.info("a batch will be repeated and skipped: %s", refusal)
        self._outbox.publish()
        return len(new)

    def _already_applied(self, connection: Any, record: Record) -> bool:
        values = (self._group, record.topic, record.partition, record.offset)
        return bool(self._database.execute(connection, _APPLY, values).rowcount == 0)
