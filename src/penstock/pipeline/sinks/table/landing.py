"""Tables of a server: staged by tasks side by side, or taken by one session while the tasks run.

On a cluster tasks load a staging table side by side, and one statement moves it. Where one session has all rows of a
batch, they land without it: in the table itself, or in a table of the session, from where the same statement moves
them. What the row receiver needs of a table is here, too.

Owns the way of rows into the transaction of a batch. What statements a database needs for it is in its dialect.
"""

from __future__ import annotations

import zlib
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.pipeline.sinks.table.column_types import Column
from penstock.pipeline.sinks.table.database import Database
from penstock.pipeline.sinks.table.numbered_rows import numbered, of_tasks, staging_schema
from penstock.pipeline.sinks.table.store import TableStore, require_all
from penstock.pipeline.sinks.table.task_output import Portion, Relation, TaskOutput, inline_batches


@dataclass(frozen=True, slots=True)
class Landing:
    """The table that bulk load fills: the target itself, or a table of the session, whose rows are numbered."""

    table: str
    columns: Any  # as Arrow's schema
    schema: str | None = None
    in_session: bool = False

    def arranged(self, batches: Iterator[Any], task: int) -> Iterator[Any]:
        return numbered(batches, task) if self.in_session else batches


class LandingStore(TableStore):
    # In a task

    def stage_portion(
        self, database: Database, relation: Relation, output: TaskOutput, batches: Iterator[Any]
    ) -> Portion:
        name = self.names.staging(output.attempt, relation.name)
        with database.transaction():
            rows = database.ingest(
                name, (staging_schema(relation), numbered(batches, output.task)), schema=self.names.schema
            )
        return Portion(rows)

    # In a transaction

    def load(self, database: Database, relation: Relation, outputs: Sequence[TaskOutput]) -> str:
        return f"({self._loaded(database, relation, outputs)}) staged ORDER BY o"

    def _loaded(self, database: Database, relation: Relation, outputs: Sequence[TaskOutput]) -> str:
        """A query for all rows of these outputs."""
        inline = [output for output in outputs if output.portion(relation).inline]
        batches = (
            batch for output in inline for batch in numbered(inline_batches(output.portion(relation)), output.task)
        )
        if not any(output.portion(relation).is_staged for output in outputs):
            name = self._session_table(database, relation)
            database.ingest(name, (staging_schema(relation), batches), temporary=True)
            return self.session_rows(name)
        name = self.names.staging(outputs[0].attempt, relation.name)
        if inline:
            database.ingest(name, (staging_schema(relation), batches), schema=self.names.schema)
        query = f"SELECT * FROM {self.names.qualified(name)} WHERE {of_tasks(outputs)}"  # noqa: S608
        ((found,),) = database.query(f"SELECT count(*) FROM ({query}) counted")  # noqa: S608
        require_all(found, relation, outputs)
        return query

    def move_rows(self, database: Database, outputs: Sequence[TaskOutput]) -> None:
        if any(output.rows.is_staged for output in outputs):
            self.insert(database, self._loaded(database, self.rows, outputs))
            return
        landing = self.landing(database)
        batches = (batch for output in outputs for batch in landing.arranged(inline_batches(output.rows), output.task))
        self.settle(database, landing, self.land(database, landing, batches), outputs)

    def _session_table(self, database: Database, relation: Relation) -> str:
        columns = self.staging_columns(relation)
        name = f"penstock_{relation.name}_{zlib.crc32(columns.encode()):08x}"
        self.create_session_table(database, name, columns)
        return name

    def staging_columns(self, relation: Relation) -> str:
        columns = [f"c{number} {self.staged_type(column)}" for number, column in enumerate(relation.columns)]
        return ", ".join([*columns, "o bigint"])

    def staged_type(self, column: Column) -> str:
        """JSON arrives as text, which the database parses on its way into the target."""
        return self.dialect.declared("string" if column.type.spark == "json" else column.type.spark)

    # Rows that one session has all

    def landing(self, database: Database) -> Landing:
        """Inside a transaction: where rows are to be sent."""
        if self.target.mode == "append" and self.takes_rows_as_they_are(database):
            return Landing(self.names.table, self.rows.schema, schema=self.names.schema)
        return Landing(self._session_table(database, self.rows), staging_schema(self.rows), in_session=True)

    def land(self, database: Database, landing: Landing, batches: Iterator[Any]) -> int:
        """Loads batches that were arranged for the landing, until they end. The number of their rows."""
        return database.ingest(
            landing.table, (landing.columns, batches), schema=landing.schema, temporary=landing.in_session
        )

    def settle(self, database: Database, landing: Landing, landed: int, outputs: Sequence[TaskOutput]) -> None:
        """Puts landed rows into the target, if they are not there yet. Raises StagingLost unless all have landed."""
        require_all(landed, self.rows, outputs)
        if landing.in_session:
            self.insert(database, self.session_rows(landing.table))

    def discard_staging(self, database: Database, attempts: set[str] | None) -> None:
        for name in self.staging_tables(database):
            if attempts is None or any(name.startswith(self.names.staging(attempt, "")) for attempt in attempts):
                database.execute(f"DROP TABLE IF EXISTS {self.names.qualified(name)}")

    # What each database does in its own way

    @abstractmethod
    def introduce(self, database: Database) -> None:
        """Gives the session a name, by which a run that takes over finds and ends it."""

    @abstractmethod
    def create_session_table(self, database: Database, name: str, columns: str) -> None:
        """Inside a transaction, which it does not end: a table of the session, which is empty, if need be again."""

    @abstractmethod
    def session_rows(self, name: str) -> str:
        """A query for all rows of a table of the session."""

    @abstractmethod
    def takes_rows_as_they_are(self, database: Database) -> bool:
        """Whether bulk load may fill the target itself."""

    @abstractmethod
    def insert(self, database: Database, loaded: str) -> None:
        """Inside a transaction: rows of the query `loaded` into the target, as `move_rows` says."""

    @abstractmethod
    def staging_tables(self, database: Database) -> list[str]:
        """Those of this pipeline, not qualified."""
