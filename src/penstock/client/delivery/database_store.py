"""Exactly once through a database: the handler's changes and the consumer's offsets in one database transaction.

Owns the offsets table and the ownership rule. `sqlite_store.py` and `postgres_store.py` hold the differences between
databases. It must never know what a handler writes.

Invariant: only the owner of a partition changes its offset. A consumer takes ownership and reads the offset in one
transaction: the previous owner, which may not know of the rebalance yet, finds its ownership gone when it commits, and
rolls back. So the order in which two consumers learn of a rebalance does not matter.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from penstock.client.records import Record, first_offsets, next_offsets
from penstock.core.errors import ClientError
from penstock.core.ids import TopicPartition
from penstock.core.mirrored_offsets import MirroredFrom

if TYPE_CHECKING:
    from penstock.client.consumer import Consumer
    from penstock.client.delivery.dead_letters import DeadLetterProducer
    from penstock.client.delivery.loop import Call, StoreSession
    from penstock.client.delivery.outbox import DeadLetterOutbox

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
_POSITIONS: Final = """
SELECT topic, partition_number, next_offset FROM penstock_offsets WHERE consumer_group = ?"""
_MOVE: Final = """
INSERT INTO penstock_offsets (consumer_group, topic, partition_number, next_offset, owner) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (consumer_group, topic, partition_number)
DO UPDATE SET next_offset = excluded.next_offset, owner = excluded.owner"""
_OFFSETS_TABLE: Final = "penstock_offsets"
_log = logging.getLogger("penstock.delivery")


class OwnershipLost(ClientError):
    """Another consumer of the group has taken a partition over; the batch was rolled back."""


class DatabaseStore(ABC):
    """A database for results and offsets. The handler receives its connection with an open transaction."""

    def open(self, consumer: Consumer, publisher: DeadLetterProducer) -> StoreSession:
        from penstock.client.delivery.outbox import DeadLetterOutbox

        with self.transaction() as connection:
            self.create_table(connection, _CREATE_OFFSETS)
            location = self.location(connection)
        outbox = DeadLetterOutbox(self, consumer, publisher)
        return OffsetsInDatabase(self, consumer, outbox, MirroredFrom("store", location))

    def positions(self, group: str) -> dict[TopicPartition, int | None]:
        """The stored positions of a group; None for a partition that a consumer owns and has read nothing of."""
        with self._failing_in_one_line(), self.transaction() as connection:
            if not self.has_table(connection, _OFFSETS_TABLE):
                return {}
            rows = self.execute(connection, _POSITIONS, (group,)).fetchall()
        return {TopicPartition(topic, partition): next_offset for topic, partition, next_offset in rows}

    def move(self, group: str, positions: Mapping[TopicPartition, int]) -> MirroredFrom:
        """Sets the positions of a group, in one transaction, and takes ownership from any consumer that still runs.

        Returns the mark for the group's committed offsets.
        """
        owner = f"moved by hand {uuid4().hex}"
        with self._failing_in_one_line(), self.transaction() as connection:
            self.create_table(connection, _CREATE_OFFSETS)
            for partition in sorted(positions):
                values = (group, partition.topic, partition.partition, positions[partition], owner)
                self.execute(connection, _MOVE, values)
            return MirroredFrom("store", self.location(connection))

    @contextmanager
    def _failing_in_one_line(self) -> Iterator[None]:
        """For callers outside a run, which do not know the database's own exceptions."""
        try:
            yield
        except self.database_errors() as failure:
            raise ClientError(f"the database of the store: {' '.join(str(failure).split())}") from failure

    @abstractmethod
    def database_errors(self) -> type[Exception]:
        """The base of the database driver's exceptions."""

    @abstractmethod
    def location(self, connection: Any) -> str:
        """The URL of the database, without credentials."""

    @abstractmethod
    def has_table(self, connection: Any, name: str) -> bool: ...

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Any]:
        """A connection with an open transaction. It commits at the end of the block, and rolls back on an exception."""

    @abstractmethod
    def close(self) -> None:
        """Closes the connection if the store opened it; the next transaction opens it again."""

    @abstractmethod
    def create_table(self, connection: Any, statement: str) -> None:
        """Must be safe when several consumers call it concurrently."""

    @abstractmethod
    def execute(self, connection: Any, statement: str, values: Sequence[object]) -> Any:
        """Runs a statement with `?` placeholders and returns the cursor."""


class OffsetsInDatabase:
    def __init__(
        self, store: DatabaseStore, consumer: Consumer, outbox: DeadLetterOutbox, mirrored_from: MirroredFrom
    ) -> None:
        self._store = store
        self._consumer = consumer
        self._outbox = outbox
        self.put_away = outbox.add
        self._group = consumer.group_id
        self._mark = mirrored_from.to_metadata()
        self._owners: dict[TopicPartition, str] = {}
        self._unmirrored: dict[TopicPartition, int] = {}

    def starting_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Takes ownership under a new name each time, so that a stale transaction of this process is fenced as well."""
        owner = uuid4().hex
        found: dict[TopicPartition, int] = {}
        with self._store.transaction() as connection:
            # Always in the same order, here and in `_advance`, so that two consumers cannot deadlock.
            for partition in sorted(partitions):
                place = (self._group, partition.topic, partition.partition)
                self._store.execute(connection, _TAKE_OVER, (*place, owner))
                (next_offset,) = self._store.execute(connection, _STORED, place).fetchone()
                if next_offset is not None:
                    found[partition] = next_offset
        self._owners.update(dict.fromkeys(partitions, owner))
        self._unmirrored = dict(found)
        self._outbox.partitions_changed()
        return found

    def idle(self) -> None:
        """The group's offsets may be older than the database, after a crash, or changed by another tool."""
        self._outbox.publish()
        unmirrored, self._unmirrored = self._unmirrored, {}
        owned = self._consumer.assignment()
        self._mirror({partition: offset for partition, offset in unmirrored.items() if partition in owned})

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
            self._take_back(records)
            return 0
        except BaseException:
            self._consumer.rewind(first_offsets(records))
            raise
        self._mirror(offsets)
        self._outbox.publish()
        return len(records)

    def _mirror(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Only for lag monitoring. The database decides where the next run continues, and the mark says so."""
        for partition in offsets:
            self._unmirrored.pop(partition, None)
        if offsets:
            with suppress(ClientError):
                self._consumer.commit_async(offsets, metadata=self._mark)

    def _advance(self, connection: Any, offsets: Mapping[TopicPartition, int]) -> None:
        for partition in sorted(offsets):
            owner = self._owners.get(partition, "")
            values = (offsets[partition], self._group, partition.topic, partition.partition, owner)
            if self._store.execute(connection, _ADVANCE, values).rowcount != 1:
                raise OwnershipLost(f"{partition} was taken over by another consumer of group '{self._group}'")

    def _take_back(self, records: Sequence[Record]) -> None:
        """Takes ownership again of the partitions that are still assigned.

        Either the group has revoked a partition, which the next poll reports, or a former owner that did not know of
        its loss took it over. Taking it back is safe in both cases.
        """
        begin = first_offsets(records)
        kept = [partition for partition in begin if partition in self._consumer.assignment()]
        self._consumer.rewind({**begin, **self.starting_offsets(kept)})
