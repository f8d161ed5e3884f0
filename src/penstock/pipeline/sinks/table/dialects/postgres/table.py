"""A table of PostgreSQL. On a cluster tasks COPY into a staging table side by side; one INSERT .. SELECT moves it.

The staging table is UNLOGGED: it costs no write-ahead log, and is empty after a crash of the server, which the count of
rows finds. Where one session has all rows of a batch, they land without it: in the table itself if COPY can write its
columns as they come, else in a table of the session, from where INSERT .. SELECT moves them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from penstock.pipeline.sinks.table.column_types import Column
from penstock.pipeline.sinks.table.database import Database
from penstock.pipeline.sinks.table.dialects.postgres.types import fits, same_in_copy
from penstock.pipeline.sinks.table.errors import DatabaseAccessDenied, TableRefused
from penstock.pipeline.sinks.table.landing import Landing, LandingStore
from penstock.pipeline.sinks.table.numbered_rows import numbered, of_tasks, staging_schema
from penstock.pipeline.sinks.table.store import require_all
from penstock.pipeline.sinks.table.target import TableTarget
from penstock.pipeline.sinks.table.task_output import Portion, Relation, TaskOutput, inline_batches

# For this transaction, unless the server allows more anyway. With its default a sort of a large batch goes to disk.
_ROOM_FOR_SORTING: Final = """
SELECT set_config('work_mem', '64MB', true) WHERE pg_size_bytes(current_setting('work_mem')) < pg_size_bytes('64MB')"""
_KEY_INDEX: Final = """
SELECT array_to_string(ARRAY(
    SELECT a.attname FROM pg_attribute a WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey) ORDER BY 1), ',')
FROM pg_index i
WHERE i.indrelid = {oid} AND i.indisunique AND i.indisvalid AND i.indimmediate
  AND i.indpred IS NULL AND i.indexprs IS NULL AND i.indnatts = i.indnkeyatts"""
_COLUMNS: Final = """
SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), format_type(a.atttypid, -1),
       (a.attnotnull AND NOT a.atthasdef AND a.attidentity = '')::int,
       (a.attgenerated <> '' OR a.attidentity = 'a')::int
FROM pg_attribute a WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped"""


class PostgresTable(LandingStore):
    def __init__(self, target: TableTarget, columns: Sequence[Column]) -> None:
        super().__init__(target, columns)
        # By connection: a table that was made again is looked at again after the failure that tells.
        self._casts: WeakKeyDictionary[Database, list[str]] = WeakKeyDictionary()

    # In a task

    def create_staging(self, database: Database, relation: Relation, output: TaskOutput) -> None:
        name = self.names.qualified(self.names.staging(output.attempt, relation.name))
        with database.creating():
            database.execute(f"CREATE UNLOGGED TABLE IF NOT EXISTS {name} ({self._staging_columns(relation)})")

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
            return _in_session(name)
        name = self.names.staging(outputs[0].attempt, relation.name)
        if inline:
            database.ingest(name, (staging_schema(relation), batches), schema=self.names.schema)
        query = f"SELECT * FROM {self.names.qualified(name)} WHERE {of_tasks(outputs)}"  # noqa: S608
        ((found,),) = database.query(f"SELECT count(*) FROM ({query}) counted")  # noqa: S608
        require_all(found, relation, outputs)
        return query

    def _staging_columns(self, relation: Relation) -> str:
        columns = [f"c{number} {self.declared(column)}" for number, column in enumerate(relation.columns)]
        return ", ".join([*columns, "o bigint"])

    def _session_table(self, database: Database, relation: Relation) -> str:
        columns = self._staging_columns(relation)
        name = f"penstock_{relation.name}_{zlib.crc32(columns.encode()):08x}"
        quoted = self.dialect.quoted(name)
        database.execute(f"CREATE TEMPORARY TABLE IF NOT EXISTS {quoted} ({columns}) ON COMMIT DELETE ROWS")
        return name

    def move_rows(self, database: Database, outputs: Sequence[TaskOutput]) -> None:
        if any(output.rows.is_staged for output in outputs):
            self._insert(database, self._loaded(database, self.rows, outputs))
            return
        landing = self.landing(database)
        batches = (batch for output in outputs for batch in landing.arranged(inline_batches(output.rows), output.task))
        self.settle(database, landing, self.land(database, landing, batches), outputs)

    # Rows that one session has all

    def introduce(self, database: Database) -> None:
        """Gives the connection a name, by which a run that takes over finds and ends it."""
        database.query(f"SELECT set_config('application_name', {self.dialect.quoted_text(self._session_name)}, false)")

    def terminate_previous_runs(self, database: Database) -> None:
        """Ends transactions that an earlier run holds open: rows in them may keep ours waiting in a unique index."""
        database.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"  # noqa: S608 (names are quoted)
            " WHERE datname = current_database() AND usename = current_user"
            f" AND starts_with(application_name, {self.dialect.quoted_text(self._session_prefix)})"
            f" AND application_name <> {self.dialect.quoted_text(self._session_name)}"
        )

    @property
    def _session_prefix(self) -> str:
        return f"penstock {self.target.short_id} "

    @property
    def _session_name(self) -> str:
        return self._session_prefix + self.target.run[:12]

    def landing(self, database: Database) -> Landing:
        """Inside a transaction: where rows are to be sent."""
        if self.target.mode == "append" and self._takes_copy(database):
            return Landing(self.names.table, self.rows.schema, schema=self.names.schema)
        return Landing(self._session_table(database, self.rows), staging_schema(self.rows), in_session=True)

    def land(self, database: Database, landing: Landing, batches: Iterator[Any]) -> int:
        """The number of rows, which have been arranged for the landing."""
        return database.ingest(
            landing.table, (landing.columns, batches), schema=landing.schema, temporary=landing.in_session
        )

    def settle(self, database: Database, landing: Landing, landed: int, outputs: Sequence[TaskOutput]) -> None:
        require_all(landed, self.rows, outputs)
        if landing.in_session:
            self._insert(database, _in_session(landing.table))

    def _takes_copy(self, database: Database) -> bool:
        """COPY neither converts nor obeys policies for rows and rules."""
        ((restricted,),) = database.query(
            f"SELECT (relhasrules OR row_security_active(oid))::int FROM pg_class WHERE oid = {self._oid}"  # noqa: S608
        )
        there = {name: plain for name, _, plain, *_ in self._existing_columns(database)}
        return not restricted and all(
            same_in_copy(self.declared(column), there.get(column.name, "")) for column in self.rows.columns
        )

    def _insert(self, database: Database, loaded: str) -> None:
        values = ", ".join(self._values(database))
        if self.target.mode == "append":
            database.execute(f"{self.insertion()} SELECT {values} FROM ({loaded}) staged")  # noqa: S608
            return
        database.query(_ROOM_FOR_SORTING)
        names = [column.name for column in self.rows.columns]
        key = ", ".join(f"c{names.index(name)}" for name in self.target.key)
        database.execute(
            f"{self.insertion()} SELECT {values} FROM"  # noqa: S608 (names are quoted)
            f" (SELECT DISTINCT ON ({key}) * FROM ({loaded}) staged ORDER BY {key}, o DESC) latest"
            f" {self.conflict_clause()}"
        )

    def _values(self, database: Database) -> list[str]:
        """The staged columns in the target's own types; text, for example, becomes jsonb only by a cast."""
        if database not in self._casts:
            types = {name: plain for name, _, plain, *_ in self._existing_columns(database)}
            self._casts[database] = [
                f"CAST(c{number} AS {types[column.name]})" if column.name in types else f"c{number}"
                for number, column in enumerate(self.rows.columns)
            ]
        return self._casts[database]

    def discard_staging(self, database: Database, attempts: set[str] | None) -> None:
        schema = "current_schema()" if self.names.schema is None else self.dialect.quoted_text(self.names.schema)
        found = database.query(
            "SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"  # noqa: S608
            f" WHERE c.relkind = 'r' AND n.nspname = {schema}"
            f" AND starts_with(c.relname, {self.dialect.quoted_text(self.names.staging_prefix)})"
        )
        for (name,) in found:
            if attempts is None or any(name.startswith(self.names.staging(attempt, "")) for attempt in attempts):
                database.execute(f"DROP TABLE IF EXISTS {self.names.qualified(name)}")

    # At the start

    def table_exists(self, database: Database) -> bool:
        ((oid,),) = database.query(f"SELECT to_regclass({self.dialect.quoted_text(self.names.target)})::oid::bigint")
        return oid is not None

    def check_table(self, database: Database) -> None:
        name = self.target.table
        ((kind,),) = database.query(f"SELECT relkind::text FROM pg_class WHERE oid = {self._oid}")  # noqa: S608
        if kind not in ("r", "p"):
            raise TableRefused(
                f"'{name}' is not a table (it may be a view); name a table, or one that is not there yet"
            )
        self._check_columns(self._existing_columns(database))
        wanted = "INSERT" if self.target.mode == "append" else "INSERT, UPDATE, SELECT"
        for privilege in wanted.split(", "):
            ((allowed,),) = database.query(f"SELECT has_table_privilege({self._oid}, '{privilege}')::int")
            if not allowed:
                raise DatabaseAccessDenied(f"the user of the URL may not {privilege}: GRANT {wanted} ON {name} TO them")
        keys = {frozenset(row[0].split(",")) for row in database.query(_KEY_INDEX.format(oid=self._oid))}
        if self.target.mode == "upsert" and frozenset(self.target.key) not in keys:
            listed = ", ".join(map(self.dialect.quoted, self.target.key))
            raise TableRefused(
                f"table '{name}' has no unique index on exactly its key; CREATE UNIQUE INDEX ON"
                f" {self.names.target} ({listed})"
            )

    def _check_columns(self, existing: list[tuple[Any, ...]]) -> None:
        table = self.target.table
        there = {name: declared for name, declared, *_ in existing}
        for column in self.rows.columns:
            if column.name not in there:
                same = next((name for name in there if name.lower() == column.name.lower()), None)
                remedy = (
                    f"write AS {same}"
                    if same
                    else f"ALTER TABLE {self.names.target} ADD COLUMN"
                    + (f" {self.dialect.quoted(column.name)} {self.declared(column)}, or leave it out of the SELECT")
                )
                raise TableRefused(f"table '{table}' has no column '{column.name}'; {remedy}")
            if not fits(column.type, there[column.name]):
                raise TableRefused(
                    f"column '{column.name}' of table '{table}' is {there[column.name]}, and the pipeline's is"
                    f" {column.type.spark}; CAST it in the SELECT, or make the column {self.declared(column)}"
                )
        supplied = {column.name for column in self.rows.columns}
        for name, _, _, must_be_given, may_not_be_given in existing:
            if may_not_be_given and name in supplied:
                raise TableRefused(f"column '{name}' of table '{table}' is generated; leave it out of the SELECT")
            if must_be_given and name not in supplied:
                raise TableRefused(
                    f"column '{name}' of table '{table}' is NOT NULL without a default, and the pipeline does not"
                    " write it; SELECT it, or give it a default"
                )

    def _existing_columns(self, database: Database) -> list[tuple[Any, ...]]:
        return database.query(_COLUMNS.format(oid=self._oid))

    @property
    def _oid(self) -> str:
        return f"to_regclass({self.dialect.quoted_text(self.names.target)})"


def _in_session(name: str) -> str:
    return f'SELECT * FROM pg_temp."{name}"'  # noqa: S608 (the name is ours)
