"""Exactly once through a database: the handler's changes and the consumer's offsets in one database transaction.

Owns the table of offsets and the rule of ownership. What differs between databases is in `sqlite_store.py` and
`postgres_store.py`. It must never know what a handler writes.

Invariant: the offset of a partition moves only in a transaction of its owner. Taking a partition over and reading its
offset are one transaction: a consumer that was put out of the group, and does not know it yet, finds its ownership gone
when it wants to commit, and is rolled back. So it does not matter in which order two consumers learn of a rebalance.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from penstock.client.records import Record, first_offsets, next_offsets
from penstock.core.errors import ClientError
from penstock.core.ids import TopicPartition

if TYPE_CHECKING:
    from penstock.client.consumer import Consumer
    from penstock.client.delivery.loop import Call, StoreSession

_CREATE_OFFSETS: Final = """
CREATE TABLE IF NOT EXISTS penstock_offsets (
    consumer_group TEXT NOT NULL,
    topic TEXT NOT NULL,
    partition_number INTEGER NOT NULL,
    next_offset BIGINT,
    owner TEXT NOT NULL,
    PRIMARY KEY (consumer_group, topic, partition_number)
)"""
_TAKE_OVER: Final = """
INSERT INTO penstock_offsets (consumer_group, topic, partition_number, next_offset, owner) VALUES (?, ?, ?, NULL, ?)
ON CONFLICT (consumer_group, topic, partition_number) DO UPDATE SET owner = excluded.owner"""
_STORED: Final = """
SELECT next_offset FROM penstock_offsets WHERE consumer_group = ? AND topic = ? AND partition_number = ?"""
_ADVANCE: Final = """
UPDATE penstock_offsets SET next_offset = ?
WHERE consumer_group = ? AND topic = ? AND partition_number = ? AND owner = ?"""
_log = logging.getLogger("penstock.delivery")


class OwnershipLost(ClientError):
    """Another consumer of the group has taken a partition over; nothing of the batch was kept."""


class DatabaseStore(ABC):
    """A database that keeps results and offsets. The handler gets its connection, with a transaction open."""

    def open(self, consumer: Consumer) -> StoreSession:
        with self.transaction() as connection:
            self.create_table(connection, _CREATE_OFFSETS)
        return OffsetsInDatabase(self, consumer)

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Any]:
        """A connection with a transaction open, which commits at the end of the block and rolls back if it raises."""

    @abstractmethod
    def close(self) -> None:
        """Closes the connection if the store has opened it itself; another transaction opens it again."""

    @abstractmethod
    def create_table(self, connection: Any, statement: str) -> None:
        """Several consumers may do this at the same moment."""

    @abstractmethod
    def execute(self, connection: Any, statement: str, values: Sequence[object]) -> Any:
        """Runs a statement, with `?` for its values, and returns the cursor."""


class OffsetsInDatabase:
    def __init__(self, store: DatabaseStore, consumer: Consumer) -> None:
        self._store = store
        self._consumer = consumer
        self._group = consumer.group_id
        self._owned_as: dict[TopicPartition, str] = {}

    def starting_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """A new name for every takeover, so that what is left of our own past is as strange as anybody else's."""
        owner = uuid4().hex
        found: dict[TopicPartition, int] = {}
        with self._store.transaction() as connection:
            # In order, here and when committing, so that two consumers never wait for each other.
            for partition in sorted(partitions):
                place = (self._group, partition.topic, partition.partition)
                self._store.execute(connection, _TAKE_OVER, (*place, owner))
                (next_offset,) = self._store.execute(connection, _STORED, place).fetchone()
                if next_offset is not None:
                    found[partition] = next_offset
        self._owned_as.update(dict.fromkeys(partitions, owner))
        return found

    def close(self) -> None:
        self._store.close()

    def deliver(self, records: Sequence[Record], call: Call) -> int:
        offsets = next_offsets(records)
        try:
            with self._store.transaction() as connection:
                call(records, connection)
                self._advance(connection, offsets)
        except OwnershipLost as loss:
            _log.info("a batch was rolled back: %s", loss)
            self._begin_again(records)
            return 0
        except BaseException:
            self._consumer.rewind(first_offsets(records))
            raise
        # For those who look at the group's lag. The database alone decides where to go on.
        with suppress(ClientError):
            self._consumer.commit_async(offsets)
        return len(records)

    def _advance(self, connection: Any, offsets: Mapping[TopicPartition, int]) -> None:
        for partition in sorted(offsets):
            owner = self._owned_as.get(partition, "")
            values = (offsets[partition], self._group, partition.topic, partition.partition, owner)
            if self._store.execute(connection, _ADVANCE, values).rowcount != 1:
                raise OwnershipLost(f"{partition} was taken over by another consumer of group '{self._group}'")

    def _begin_again(self, records: Sequence[Record]) -> None:
        """Either the group has given the partition away, and the next poll says so; or somebody who had lost it did not
        know yet, and it is ours to take back. Doing so is safe in both cases."""
        begin = first_offsets(records)
        kept = [partition for partition in begin if partition in self._consumer.assignment()]
        self._consumer.rewind({**begin, **self.starting_offsets(kept)})
