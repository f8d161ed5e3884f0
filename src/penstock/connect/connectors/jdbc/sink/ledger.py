"""The ledger of exactly-once sinks: two tables in the database that the sink writes.

`penstock_connectors` has a row for each connector: the run that may commit. `penstock_connector_offsets` has a row for
each partition: the next offset. A commit locks the connector's row, finds that its run still owns it, and changes the
offsets in the transaction that moves the rows. A start puts its own run there first, so a commit of an earlier run
either ends before, and the start reads its offsets, or is refused.

Owns those rows. It must not know what a batch holds.

Invariant: offsets change only in a transaction that has locked the connector's row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from penstock.connect.connectors.jdbc.dialects.dialect import JdbcDialect
from penstock.connect.connectors.jdbc.table_names import TableName
from penstock.core.ids import TopicPartition
from penstock.pipeline.sinks.table.database import Database
from penstock.pipeline.sinks.table.errors import Fenced, TableRefused

CONNECTORS: Final = "penstock_connectors"
OFFSETS: Final = "penstock_connector_offsets"
_ROWS_OF_A_STATEMENT: Final = 500
_CREATE_CONNECTORS: Final = """
CREATE TABLE IF NOT EXISTS {table} (
    connector {key} NOT NULL PRIMARY KEY,
    run {key} NOT NULL,
    claimed_at {clock}
){options}"""
_CREATE_OFFSETS: Final = """
CREATE TABLE IF NOT EXISTS {table} (
    connector {key} NOT NULL,
    topic {key} NOT NULL,
    kafka_partition BIGINT NOT NULL,
    next_offset BIGINT NOT NULL,
    committed_at {clock},
    PRIMARY KEY (connector, topic, kafka_partition)
){options}"""


class Ledger:
    def __init__(self, dialect: JdbcDialect, connector: str) -> None:
        self._dialect = dialect
        self._base = dialect.base
        self._connector = connector
        self._connectors = self._base.quoted(CONNECTORS)
        self._offsets = self._base.quoted(OFFSETS)

    def create(self, database: Database) -> None:
        with database.creating():
            for statement, table in ((_CREATE_CONNECTORS, self._connectors), (_CREATE_OFFSETS, self._offsets)):
                database.execute(
                    statement.format(
                        table=table,
                        key=self._base.key_text,
                        clock=self._base.clock_type,
                        options=self._base.table_options,
                    )
                )

    def exists(self, database: Database) -> bool:
        return self._dialect.table_kind(database, TableName(OFFSETS)) is not None

    def claim(self, database: Database, run: str) -> None:
        """From now on no other run commits."""
        with database.transaction():
            self._put_run(database, run)

    def _put_run(self, database: Database, run: str) -> None:
        conflict = self._base.on_conflict(["connector"], ["run", "claimed_at"])
        database.execute(
            f"INSERT INTO {self._connectors} (connector, run, claimed_at) VALUES (?, ?, CURRENT_TIMESTAMP) {conflict}",  # noqa: S608
            (self._connector, run),
        )

    def lock(self, database: Database, run: str) -> None:
        """Inside a transaction, as its first statement. Raises Fenced if the connector belongs to another run."""
        found = database.query(
            f"SELECT run FROM {self._connectors} WHERE connector = ?{self._base.row_lock}",  # noqa: S608
            (self._connector,),
        )
        if not found:
            raise TableRefused(f"table {CONNECTORS} has no row of connector '{self._connector}' any more")
        if found[0][0] != run:
            raise Fenced(f"another run of connector '{self._connector}' has taken over; this one ends")

    def positions(self, database: Database) -> dict[TopicPartition, int]:
        found = database.query(
            f"SELECT topic, kafka_partition, next_offset FROM {self._offsets} WHERE connector = ?",  # noqa: S608
            (self._connector,),
        )
        return {TopicPartition(topic, partition): int(offset) for topic, partition, offset in found}

    def record(self, database: Database, positions: Mapping[TopicPartition, int]) -> None:
        """Inside a transaction that has locked the connector's row."""
        conflict = self._base.on_conflict(["connector", "topic", "kafka_partition"], ["next_offset", "committed_at"])
        for some in _chunks(list(positions.items())):
            rows = ", ".join(["(?, ?, ?, ?, CURRENT_TIMESTAMP)"] * len(some))
            values = [value for each, offset in some for value in (self._connector, *each, offset)]
            database.execute(
                f"INSERT INTO {self._offsets} (connector, topic, kafka_partition, next_offset, committed_at)"  # noqa: S608
                f" VALUES {rows} {conflict}",
                values,
            )

    def change(self, database: Database, run: str, positions: Mapping[TopicPartition, int | None]) -> None:
        """By a person. The run is a new one, so that a run which still ends cannot commit over it."""
        with database.transaction():
            self._put_run(database, run)
            self.record(database, {each: offset for each, offset in positions.items() if offset is not None})
            self._remove(database, [each for each, offset in positions.items() if offset is None])

    def _remove(self, database: Database, partitions: Sequence[TopicPartition]) -> None:
        for each in partitions:
            database.execute(
                f"DELETE FROM {self._offsets} WHERE connector = ? AND topic = ? AND kafka_partition = ?",  # noqa: S608
                (self._connector, each.topic, each.partition),
            )


def _chunks(positions: list[tuple[TopicPartition, int]]) -> Iterator[list[tuple[TopicPartition, int]]]:
    for start in range(0, len(positions), _ROWS_OF_A_STATEMENT):
        yield positions[start : start + _ROWS_OF_A_STATEMENT]
