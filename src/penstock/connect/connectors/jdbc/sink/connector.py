"""The JDBC sink: topics to tables of PostgreSQL, MariaDB, MySQL and SQLite.

With exactly_once the position is in the database itself (`ledger.py`): tasks stage rows, and `commit` moves them into
their tables and records the offsets in one transaction. A start claims the ledger for its run; commits of earlier runs
are refused from then on, by a check inside their transaction.

Owns the order of these steps on the driver.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar
from uuid import uuid4

from penstock.connect.config.definition import ConfigDef, ConfigException
from penstock.connect.connector import (
    Batch,
    BatchRefused,
    ConnectError,
    RetriableError,
    SinkConnector,
    SinkWriter,
)
from penstock.connect.connectors.jdbc.addresses import Address
from penstock.connect.connectors.jdbc.failures import of_connector, retrying, translated
from penstock.connect.connectors.jdbc.sink.definition import DEFINITION, SinkSettings, settings
from penstock.connect.connectors.jdbc.sink.ledger import Ledger
from penstock.connect.connectors.jdbc.sink.moves import TaskMoves, apply
from penstock.connect.connectors.jdbc.sink.refusals import apply_numbered
from penstock.connect.connectors.jdbc.sink.writer import JdbcSinkWriter
from penstock.connect.data.records import Failure
from penstock.core.guarantee import Guarantee
from penstock.core.ids import TopicPartition
from penstock.pipeline import crash_points
from penstock.pipeline.sinks.table.database import Database
from penstock.pipeline.sinks.table.errors import DatabaseAccessDenied, RowRefused, TableSinkError


class JdbcSink(SinkConnector):
    definition: ClassVar[ConfigDef] = DEFINITION
    version: ClassVar[str] = "1"
    guarantees: ClassVar[Mapping[Guarantee, str]] = {
        "at_most_once": "",
        "at_least_once": "",
        "exactly_once": "the user may create tables: the ledger, and staging; tables of MariaDB are InnoDB's",
    }

    def __init__(self, name: str, config: Mapping[str, str]) -> None:
        super().__init__(name, config)
        self.settings = self.settings_of(config)
        self.run = uuid4().hex
        self._ledger = Ledger(self.settings.address.dialect, name)
        self._database: Database | None = None
        self._introduced: Database | None = None
        self._finds_refused = False  # the batch is run again, because the database has refused some of its rows

    @classmethod
    def settings_of(cls, config: Mapping[str, str]) -> SinkSettings:
        return settings(config)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_database": None, "_introduced": None}  # a task opens its own

    @classmethod
    def check(cls, config: Mapping[str, str]) -> Sequence[ConfigException]:
        try:
            made = cls.settings_of(config)
        except ConfigException as mistake:
            return (mistake,)
        return check_connection(made.address, made.timezone) + check_tables(made, config.get("topics", ""))

    # On the driver

    @property
    def _has_ledger(self) -> bool:
        return self.settings.guarantee == "exactly_once"

    def start(self) -> None:
        with translated():
            database = self._connected()
            if self._has_ledger:
                self._ledger.create(database)
                self.settings.address.dialect.take_over(database, self._session_name, self.run)
                self._introduced = database
                self._ledger.claim(database, self.run)
                self._discard_all(database)

    def stop(self) -> None:
        if self._database is not None:
            self._database.close()
        self._database = self._introduced = None

    def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        """All that the ledger has, if no partitions are named. It needs no `start`, and fences nothing."""
        if not self._has_ledger:
            return None
        with translated():
            database = self._connected()
            found = self._ledger.positions(database) if self._ledger.exists(database) else {}
        return {each: offset for each, offset in found.items() if not partitions or each in partitions}

    def set_positions(self, positions: Mapping[TopicPartition, int | None]) -> None:
        if not self._has_ledger:
            super().set_positions(positions)
        with translated():
            database = self._connected()
            self._ledger.create(database)
            self._ledger.change(database, uuid4().hex, positions)

    def commit(self, results: Sequence[Any], batch: Batch) -> None:
        """May be repeated: a batch that the ledger holds is not written again."""
        if not self._has_ledger:
            return
        outputs = sorted((result for result in results if isinstance(result, TaskMoves)), key=lambda each: each.task)
        try:
            with translated():
                retrying(lambda: self._commit(outputs, batch), self.settings.retries_max, self.settings.backoff_ms)
            self._finds_refused = False
        except BatchRefused:
            self._finds_refused = True
            self._discard(outputs)
            raise
        self._discard(outputs)

    def _commit(self, outputs: Sequence[TaskMoves], batch: Batch) -> None:
        try:
            database = self._connected()
            if self._introduced is not database:
                self.settings.address.dialect.introduce(database, self._session_name, self.run)
                self._introduced = database
            with database.transaction():
                self._ledger.lock(database, self.run)
                if self._is_recorded(database, batch):
                    return
                for output in outputs:
                    self._apply(database, output, batch)
                crash_points.reached("connect.jdbc.before_ledger")
                self._ledger.record(database, batch.end_offsets)
                crash_points.reached("connect.jdbc.before_commit")
            crash_points.reached("connect.jdbc.after_commit")
        except RowRefused as refusal:
            if not self.settings.tolerates_refusals or self._finds_refused:
                raise
            raise BatchRefused(refusal.reason) from None
        except BaseException:
            self.stop()  # the connection has failed, or a transaction may still be open on it
            raise

    def _apply(self, database: Database, output: TaskMoves, batch: Batch) -> None:
        failures: list[Failure] = []
        for move in output.moves:
            if move.is_numbered:
                failures += apply_numbered(self.settings, database, move)
            else:
                apply(self.settings, database, move)
        if failures:
            batch.refuse(output.task, failures)

    def _is_recorded(self, database: Database, batch: Batch) -> bool:
        there = self._ledger.positions(database)
        passed = [partition for partition, (start, _) in batch.ranges.items() if there.get(partition, 0) > start]
        if not passed:
            return False
        if all(there.get(partition, 0) >= end for partition, (_, end) in batch.ranges.items()):
            return True
        raise RetriableError(
            f"the ledger of connector '{self.name}' is at offset {there[passed[0]]} of {passed[0]}, and the batch"
            " begins before; the connector starts again from the ledger"
        )

    def _connected(self) -> Database:
        if self._database is None:
            address = self.settings.address
            self._database = address.dialect.connect(address.url, self.settings.timezone)
        return self._database

    @property
    def _session_name(self) -> str:
        return f"penstock connect {zlib.crc32(self.name.encode()):08x}"

    # Staging

    @property
    def _staging_prefix(self) -> str:
        return f"penstock_staging_{zlib.crc32(self.name.encode()):08x}_"

    def _discard(self, outputs: Sequence[TaskMoves]) -> None:
        """What cannot be removed now is removed at the next start."""
        address = self.settings.address
        with suppress(TableSinkError):
            for move in (move for output in outputs for move in output.moves):
                if move.staged is not None:
                    address.dialect.discard(self._connected(), address.url, move.staged)

    def _discard_all(self, database: Database) -> None:
        address = self.settings.address
        address.dialect.discard_all(database, address.url, self._staging_prefix)

    # In a task

    def open_writer(self, task: int, guarantee: Guarantee) -> SinkWriter:
        return JdbcSinkWriter(
            self.name, self.settings, task, guarantee, self._staging_prefix, finds_refused=self._finds_refused
        )


def check_connection(address: Address, timezone: str) -> tuple[ConfigException, ...]:
    """That the database answers and accepts the user, in one line with the property."""
    try:
        address.dialect.check_reachable(address.url, timezone)
    except TableSinkError as error:
        key = "connection.password" if isinstance(error, DatabaseAccessDenied) else "connection.url"
        why = of_connector(error)
        remedy = "; start it, or correct connection.url" if isinstance(why, RetriableError) else ""
        return (ConfigException(f"Invalid value for configuration {key}: {why}{remedy}", key),)
    return ()


def check_tables(settings: SinkSettings, topics: str) -> tuple[ConfigException, ...]:
    """That tables of topics which are named exist, unless they are created."""
    if settings.creates or not settings.address.dialect.base.is_there(settings.address.url):
        return ()
    dialect = settings.address.dialect
    found: list[ConfigException] = []
    try:
        database = dialect.connect(settings.address.url, settings.timezone)
    except TableSinkError:
        return ()  # `check_connection` tells
    try:
        for topic in filter(None, (each.strip() for each in topics.split(","))):
            table = settings.table(topic)
            if dialect.columns(database, table) is None:
                text = (
                    f"Invalid value {settings.table_format} for configuration table.name.format: table {table} does not"
                    " exist; create it, correct the name, or set auto.create=true"
                )
                found.append(ConfigException(text, "table.name.format"))
    except (TableSinkError, ConnectError) as error:
        found.append(ConfigException(f"Invalid value for configuration connection.url: {error}", "connection.url"))
    finally:
        database.close()
    return tuple(found)
