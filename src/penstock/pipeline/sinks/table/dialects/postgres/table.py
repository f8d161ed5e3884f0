"""A table of PostgreSQL. Rows arrive by COPY; one INSERT .. SELECT moves those that are not in the table yet.

The staging table is UNLOGGED: it costs no write-ahead log, and is empty after a crash of the server, which the count of
rows finds. Rows land in the table itself if COPY can write its columns as they come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

from penstock.pipeline.sinks.table.column_types import Column
from penstock.pipeline.sinks.table.database import Database
from penstock.pipeline.sinks.table.dialects.postgres.types import fits, same_in_copy
from penstock.pipeline.sinks.table.errors import DatabaseAccessDenied, TableRefused
from penstock.pipeline.sinks.table.existing_columns import ExistingColumn
from penstock.pipeline.sinks.table.landing import LandingStore
from penstock.pipeline.sinks.table.target import TableTarget
from penstock.pipeline.sinks.table.task_output import Relation, TaskOutput

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresColumn(ExistingColumn):
    """`declared` as format_type() writes it; `plain` is the same without a length."""

    plain: str


class PostgresTable(LandingStore):
    def __init__(self, target: TableTarget, columns: Sequence[Column]) -> None:
        super().__init__(target, columns)
        # By connection: a table that was made again is looked at again after the failure that tells.
        self._types: WeakKeyDictionary[Database, dict[str, str]] = WeakKeyDictionary()

    # In a task

    def create_staging(self, database: Database, relation: Relation, output: TaskOutput) -> None:
        name = self.names.qualified(self.names.staging(output.attempt, relation.name))
        with database.creating():
            database.execute(f"CREATE UNLOGGED TABLE IF NOT EXISTS {name} ({self.staging_columns(relation)})")

    # In a transaction

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

    def create_session_table(self, database: Database, name: str, columns: str) -> None:
        quoted = self.dialect.quoted(name)
        database.execute(f"CREATE TEMPORARY TABLE IF NOT EXISTS {quoted} ({columns}) ON COMMIT DELETE ROWS")

    def session_rows(self, name: str) -> str:
        return f"SELECT * FROM pg_temp.{self.dialect.quoted(name)}"  # noqa: S608 (names are quoted)

    def takes_rows_as_they_are(self, database: Database) -> bool:
        """COPY neither converts nor obeys policies for rows and rules."""
        ((restricted,),) = database.query(
            f"SELECT (relhasrules OR row_security_active(oid))::int FROM pg_class WHERE oid = {self._oid}"  # noqa: S608
        )
        there = {column.name: column.plain for column in self.existing_columns(database)}
        return not restricted and all(
            same_in_copy(self.staged_type(column), there.get(column.name, "")) for column in self.columns
        )

    def insert(self, database: Database, loaded: str) -> None:
        values = ", ".join(self._value(database, column.name) for column in self.columns)
        if self.target.mode == "append":
            database.execute(f"{self.insertion()} SELECT {values} FROM ({loaded}) staged")  # noqa: S608
            return
        database.query(_ROOM_FOR_SORTING)
        key = ", ".join(self.staged_key)
        latest = f"SELECT DISTINCT ON ({key}) * FROM ({loaded}) staged ORDER BY {key}, o DESC"  # noqa: S608
        if not self.target.deletes:
            database.execute(f"{self.insertion()} SELECT {values} FROM ({latest}) latest {self.conflict_clause()}")  # noqa: S608
            return
        # A key is in one of the two only, so it does not matter that neither sees what the other does.
        is_same = " AND ".join(
            f"target.{self.dialect.quoted(name)} = {self._value(database, name, 'latest')}" for name in self.target.key
        )
        database.execute(
            f"WITH latest AS MATERIALIZED ({latest}), gone AS (DELETE FROM {self.names.target} target USING latest"  # noqa: S608
            f" WHERE latest.{self.staged_flag} AND {is_same})"
            f" {self.insertion()} SELECT {values} FROM latest WHERE NOT {self.staged_flag} {self.conflict_clause()}"
        )

    def _value(self, database: Database, name: str, relation: str = "") -> str:
        """A staged column in the target's own type; text, for example, becomes jsonb only by a cast."""
        if database not in self._types:
            self._types[database] = {column.name: column.plain for column in self.existing_columns(database)}
        staged = f"{relation}.{self.staged(name)}" if relation else self.staged(name)
        declared = self._types[database].get(name)
        return staged if declared is None else f"CAST({staged} AS {declared})"

    def staging_tables(self, database: Database) -> list[str]:
        schema = "current_schema()" if self.names.schema is None else self.dialect.quoted_text(self.names.schema)
        found = database.query(
            "SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"  # noqa: S608
            f" WHERE c.relkind = 'r' AND n.nspname = {schema}"
            f" AND starts_with(c.relname, {self.dialect.quoted_text(self.names.staging_prefix)})"
        )
        return [name for (name,) in found]

    # At the start

    def exists(self, database: Database, name: str) -> bool:
        quoted = self.dialect.quoted_text(self.names.qualified(name))
        ((oid,),) = database.query(f"SELECT to_regclass({quoted})::oid::bigint")
        return oid is not None

    def check_kind(self, database: Database) -> None:
        ((kind,),) = database.query(f"SELECT relkind::text FROM pg_class WHERE oid = {self._oid}")  # noqa: S608
        if kind not in ("r", "p"):
            raise TableRefused(
                f"'{self.target.table}' is not a table (it may be a view); name a table, or one that is not there yet"
            )

    def fits(self, column: Column, existing: PostgresColumn) -> bool:
        return fits(column.type, existing.declared)

    def check_key(self, database: Database, existing: Sequence[PostgresColumn]) -> None:
        keys = {frozenset(row[0].split(",")) for row in database.query(_KEY_INDEX.format(oid=self._oid))}
        if frozenset(self.target.key) not in keys:
            listed = ", ".join(map(self.dialect.quoted, self.target.key))
            raise TableRefused(
                f"table '{self.target.table}' has no unique index on exactly its key; CREATE UNIQUE INDEX ON"
                f" {self.names.target} ({listed})"
            )

    def check_privileges(self, database: Database) -> None:
        wanted = ["INSERT"] if self.target.mode == "append" else ["INSERT", "UPDATE", "SELECT"]
        wanted += ["DELETE"] if self.target.deletes else []
        for privilege in wanted:
            ((allowed,),) = database.query(f"SELECT has_table_privilege({self._oid}, '{privilege}')::int")
            if not allowed:
                raise DatabaseAccessDenied(
                    f"the user of the URL may not {privilege}: GRANT {', '.join(wanted)} ON {self.target.table} TO them"
                )

    def existing_columns(self, database: Database) -> list[PostgresColumn]:
        return [
            PostgresColumn(
                name=name,
                declared=declared,
                plain=plain,
                must_be_given=bool(must_be_given),
                is_generated=bool(may_not_be_given),
            )
            for name, declared, plain, must_be_given, may_not_be_given in database.query(_COLUMNS.format(oid=self._oid))
        ]

    @property
    def _oid(self) -> str:
        return f"to_regclass({self.dialect.quoted_text(self.names.target)})"
