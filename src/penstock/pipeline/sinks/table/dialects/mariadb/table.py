"""A table of MariaDB or MySQL. On a cluster tasks load a staging table side by side; one INSERT .. SELECT moves it.

Where one session has all rows of a batch, they land without it: in the table itself, or for an upsert in a temporary
table of the session, from where INSERT .. SELECT moves them.

Invariant: rows reach the target only inside the transaction that also changes the ledger, so the target is InnoDB's.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

from penstock.pipeline.sinks.table.column_types import Column
from penstock.pipeline.sinks.table.database import Database
from penstock.pipeline.sinks.table.dialects.mariadb.database import MariaDbDatabase
from penstock.pipeline.sinks.table.dialects.mariadb.types import ExistingColumn, fits
from penstock.pipeline.sinks.table.errors import TableRefused
from penstock.pipeline.sinks.table.landing import Landing, LandingStore
from penstock.pipeline.sinks.table.numbered_rows import numbered, of_tasks, staging_schema
from penstock.pipeline.sinks.table.store import require_all
from penstock.pipeline.sinks.table.task_output import Portion, Relation, TaskOutput, inline_batches

_KEY_TYPES: Final = {"string": "varchar(255)", "binary": "varbinary(255)"}  # an index takes no longer ones
_SESSION_NAME_S: Final = 10
_COLUMNS: Final = """
SELECT column_name, column_type, data_type, numeric_precision, numeric_scale, datetime_precision, collation_name,
       is_nullable = 'NO' AND column_default IS NULL AND extra NOT LIKE '%auto_increment%'
           AND extra NOT LIKE '%GENERATED%',
       extra LIKE '%VIRTUAL%' OR extra LIKE '%STORED%' OR extra LIKE '%PERSISTENT%',
       extra LIKE '%auto_increment%'
FROM information_schema.columns WHERE {where} ORDER BY ordinal_position"""
_UNIQUE_INDEXES: Final = """
SELECT index_name, GROUP_CONCAT(LOWER(column_name) ORDER BY column_name SEPARATOR '\x01'),
       MAX(sub_part IS NOT NULL OR column_name IS NULL)
FROM information_schema.statistics WHERE {where} AND non_unique = 0 GROUP BY index_name"""


class MariaDbTable(LandingStore):
    # In a task

    def create_staging(self, database: Database, relation: Relation, output: TaskOutput) -> None:
        name = self.names.qualified(self.names.staging(output.attempt, relation.name))
        columns = self._staging_columns(relation)
        database.execute(f"CREATE TABLE IF NOT EXISTS {name} ({columns}){self.dialect.table_options}")

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
            database.ingest(name, (staging_schema(relation), batches))
            return f"SELECT * FROM {self.dialect.quoted(name)}"  # noqa: S608 (names are quoted)
        name = self.names.staging(outputs[0].attempt, relation.name)
        if inline:
            database.ingest(name, (staging_schema(relation), batches), schema=self.names.schema)
        query = f"SELECT * FROM {self.names.qualified(name)} WHERE {of_tasks(outputs)}"  # noqa: S608
        ((found,),) = database.query(f"SELECT count(*) FROM ({query}) counted")  # noqa: S608
        require_all(found, relation, outputs)
        return query

    def _session_table(self, database: Database, relation: Relation) -> str:
        """Empty. A temporary table is made and emptied without a commit."""
        columns = self._staging_columns(relation)
        name = f"penstock_{relation.name}_{zlib.crc32(columns.encode()):08x}"
        quoted = self.dialect.quoted(name)
        database.execute(f"CREATE TEMPORARY TABLE IF NOT EXISTS {quoted} ({columns}){self.dialect.table_options}")
        database.execute(f"DELETE FROM {quoted}")  # noqa: S608 (names are quoted)
        return name

    def _staging_columns(self, relation: Relation) -> str:
        columns = [
            f"c{number} {self.dialect.declared(each.type.spark)}" for number, each in enumerate(relation.columns)
        ]
        return ", ".join([*columns, "o bigint"])

    def move_rows(self, database: Database, outputs: Sequence[TaskOutput]) -> None:
        if any(output.rows.is_staged for output in outputs):
            self._insert(database, self._loaded(database, self.rows, outputs))
            return
        landing = self.landing(database)
        batches = (batch for output in outputs for batch in landing.arranged(inline_batches(output.rows), output.task))
        self.settle(database, landing, self.land(database, landing, batches), outputs)

    def _insert(self, database: Database, loaded: str) -> None:
        columns = ", ".join(f"c{number}" for number in range(len(self.rows.columns)))
        # Row after row: one with the key of an earlier one replaces it.
        conflict = self.conflict_clause() if self.target.mode == "upsert" else ""
        database.execute(f"{self.insertion()} SELECT {columns} FROM ({loaded}) staged ORDER BY o {conflict}")  # noqa: S608

    # Rows that one session has all

    def introduce(self, database: Database) -> None:
        """Takes a named lock of the server, by which a run that takes over finds the session."""
        database.query(f"SELECT GET_LOCK({self._session_name}, {_SESSION_NAME_S})")

    def terminate_previous_runs(self, database: Database) -> None:
        """Ends transactions that an earlier run holds open: rows in them may keep ours waiting in a unique index."""
        ((session,),) = database.query(f"SELECT IS_USED_LOCK({self._session_name})")
        if session is not None:
            database.execute(f"KILL CONNECTION {int(session)}")

    @property
    def _session_name(self) -> str:
        return self.dialect.quoted_text(f"penstock.{self.target.short_id}")

    def landing(self, database: Database) -> Landing:
        if self.target.mode == "append":
            return Landing(self.names.table, self.rows.schema, schema=self.names.schema)
        return Landing(self._session_table(database, self.rows), staging_schema(self.rows), in_session=True)

    def land(self, database: Database, landing: Landing, batches: Iterator[Any]) -> int:
        return database.ingest(landing.table, (landing.columns, batches), schema=landing.schema)

    def settle(self, database: Database, landing: Landing, landed: int, outputs: Sequence[TaskOutput]) -> None:
        require_all(landed, self.rows, outputs)
        if landing.in_session:
            self._insert(database, f"SELECT * FROM {self.dialect.quoted(landing.table)}")  # noqa: S608

    def discard_staging(self, database: Database, attempts: set[str] | None) -> None:
        found = database.query(
            "SELECT table_name FROM information_schema.tables WHERE table_schema ="  # noqa: S608 (names are quoted)
            f" {self._schema} AND LEFT(table_name, {len(self.names.staging_prefix)}) ="
            f" {self.dialect.quoted_text(self.names.staging_prefix)}"
        )
        for (name,) in found:
            if attempts is None or any(name.startswith(self.names.staging(attempt, "")) for attempt in attempts):
                database.execute(f"DROP TABLE IF EXISTS {self.names.qualified(name)}")

    # At the start

    def declared(self, column: Column) -> str:
        if column.name in self.target.key:
            return _KEY_TYPES.get(column.type.spark) or super().declared(column)
        return super().declared(column)

    def table_options(self, database: Database) -> str:
        collation = cast(MariaDbDatabase, database).exact_collation
        return f" ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE={collation}"

    def table_exists(self, database: Database) -> bool:
        return bool(self._kind(database))

    def check_table(self, database: Database) -> None:
        name = self.target.table
        ((kind, engine),) = self._kind(database)
        if kind != "BASE TABLE":
            raise TableRefused(
                f"'{name}' is not a table (it may be a view); name a table, or one that is not there yet"
            )
        if engine != "InnoDB":
            raise TableRefused(
                f"table '{name}' is stored by {engine}, which has no transactions; ALTER TABLE {self.names.target}"
                " ENGINE = InnoDB"
            )
        existing = {
            row[0].lower(): ExistingColumn(*row[:7], *map(bool, row[7:]))
            for row in database.query(_COLUMNS.format(where=self._where))
        }
        self._check_columns(existing)
        if self.target.mode == "upsert":
            self._check_key(database, existing)
        nulls = ", ".join(["NULL"] * len(self.rows.columns))
        conflict = self.conflict_clause() if self.target.mode == "upsert" else ""
        # Writes nothing, and is refused to a user who may not write.
        database.execute(f"{self.insertion()} SELECT {nulls} FROM DUAL WHERE FALSE {conflict}")  # noqa: S608

    def _check_columns(self, existing: dict[str, ExistingColumn]) -> None:
        table = self.target.table
        for column in self.rows.columns:
            there = existing.get(column.name.lower())
            if there is None:
                raise TableRefused(
                    f"table '{table}' has no column '{column.name}'; ALTER TABLE {self.names.target} ADD COLUMN"
                    f" {self.dialect.quoted(column.name)} {self.declared(column)}, or leave it out of the SELECT"
                )
            if there.is_generated:
                raise TableRefused(f"column '{there.name}' of table '{table}' is generated; leave it out of the SELECT")
            if not fits(column.type, there):
                raise TableRefused(
                    f"column '{column.name}' of table '{table}' is {there.declared}, and the pipeline's is"
                    f" {column.type.spark}; CAST it in the SELECT, or make the column {self.declared(column)}"
                )
        supplied = {column.name.lower() for column in self.rows.columns}
        for name, there in existing.items():
            if there.must_be_given and name not in supplied:
                raise TableRefused(
                    f"column '{there.name}' of table '{table}' is NOT NULL without a default, and the pipeline does not"
                    " write it; SELECT it, or give it a default"
                )

    def _check_key(self, database: Database, existing: dict[str, ExistingColumn]) -> None:
        table = self.target.table
        key = frozenset(name.lower() for name in self.target.key)
        indexes: dict[str, frozenset[str]] = {
            index: frozenset() if is_partial else frozenset(str(columns).split("\x01"))
            for index, columns, is_partial in database.query(_UNIQUE_INDEXES.format(where=self._where))
        }
        if key not in indexes.values():
            listed = ", ".join(map(self.dialect.quoted, self.target.key))
            raise TableRefused(
                f"table '{table}' has no unique index on exactly its key; CREATE UNIQUE INDEX"
                f" {self.dialect.quoted(self.names.table + '_key')} ON {self.names.target} ({listed})"
            )
        for index, columns in indexes.items():
            # A number that the table gives itself never conflicts.
            numbers_itself = len(columns) == 1 and all(existing[name].numbers_itself for name in columns)
            if columns != key and not numbers_itself:
                raise TableRefused(
                    f"table '{table}' has another unique index than its key, {index}, and MariaDB would replace rows by"
                    " that one as well; drop it, or write with mode: append"
                )
        for name in key:
            if existing[name].ignores_case:
                raise TableRefused(
                    f"column '{name}' of table '{table}' compares texts by {existing[name].collation}, so that"
                    " different keys may replace one row; give it a collation that ends in _bin"
                )

    def _kind(self, database: Database) -> list[tuple[Any, ...]]:
        return database.query(f"SELECT table_type, engine FROM information_schema.tables WHERE {self._where}")  # noqa: S608

    @property
    def _schema(self) -> str:
        return "DATABASE()" if self.names.schema is None else self.dialect.quoted_text(self.names.schema)

    @property
    def _where(self) -> str:
        return f"table_schema = {self._schema} AND table_name = {self.dialect.quoted_text(self.names.table)}"
