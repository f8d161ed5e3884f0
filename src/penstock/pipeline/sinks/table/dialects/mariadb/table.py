"""A table of MariaDB or MySQL. Rows arrive by multi-row INSERTs: in the table itself, or for an upsert in another one,
from where INSERT .. SELECT moves them.

Invariant: rows reach the target only inside the transaction that also changes the ledger, so the target is InnoDB's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

from penstock.pipeline.sinks.table.column_types import Column
from penstock.pipeline.sinks.table.database import Database
from penstock.pipeline.sinks.table.dialects.mariadb.database import MariaDbDatabase
from penstock.pipeline.sinks.table.dialects.mariadb.types import MariaDbColumn, fits
from penstock.pipeline.sinks.table.errors import TableRefused
from penstock.pipeline.sinks.table.landing import LandingStore
from penstock.pipeline.sinks.table.target import TableTarget
from penstock.pipeline.sinks.table.task_output import Relation, TaskOutput

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
    def __init__(self, target: TableTarget, columns: Sequence[Column]) -> None:
        super().__init__(target, columns)
        self._collations: WeakKeyDictionary[Database, dict[str, str | None]] = WeakKeyDictionary()

    # In a task

    def create_staging(self, database: Database, relation: Relation, output: TaskOutput) -> None:
        name = self.names.qualified(self.names.staging(output.attempt, relation.name))
        columns = self.staging_columns(relation)
        database.execute(f"CREATE TABLE IF NOT EXISTS {name} ({columns}){self.dialect.table_options}")

    # In a transaction

    def create_session_table(self, database: Database, name: str, columns: str) -> None:
        """A temporary table is made and emptied without a commit."""
        quoted = self.dialect.quoted(name)
        database.execute(f"CREATE TEMPORARY TABLE IF NOT EXISTS {quoted} ({columns}){self.dialect.table_options}")
        database.execute(f"DELETE FROM {quoted}")  # noqa: S608 (names are quoted)

    def session_rows(self, name: str) -> str:
        return f"SELECT * FROM {self.dialect.quoted(name)}"  # noqa: S608 (names are quoted)

    def takes_rows_as_they_are(self, database: Database) -> bool:
        return True  # INSERT converts

    def insert(self, database: Database, loaded: str) -> None:
        columns = ", ".join(f"c{number}" for number in range(len(self.columns)))
        conflict = self.conflict_clause() if self.target.mode == "upsert" else ""
        if not self.target.deletes:
            # Row after row: one with the key of an earlier one replaces it.
            database.execute(f"{self.insertion()} SELECT {columns} FROM ({loaded}) staged ORDER BY o {conflict}")  # noqa: S608
            return
        key = self._key_values(database)
        # A temporary table can be read once in a statement, which a window function is content with.
        age = f"ROW_NUMBER() OVER (PARTITION BY {', '.join(key)} ORDER BY o DESC) AS r"
        ranked = f"SELECT staged.*, {age} FROM ({loaded}) staged"  # noqa: S608
        latest = f"SELECT * FROM ({ranked}) ranked WHERE r = 1"  # noqa: S608
        is_same = " AND ".join(
            f"target.{self.dialect.quoted(name)} = {value}" for name, value in zip(self.target.key, key, strict=True)
        )
        database.execute(
            f"DELETE target FROM {self.names.target} target JOIN ({latest} AND {self.staged_flag}) latest ON {is_same}"
        )
        database.execute(
            f"{self.insertion()} SELECT {columns} FROM ({latest} AND NOT {self.staged_flag}) latest"  # noqa: S608
            f" ORDER BY o {conflict}"
        )

    def _key_values(self, database: Database) -> list[str]:
        """The staged columns of the key, compared as the target compares them."""
        if database not in self._collations:
            self._collations[database] = {
                column.name.lower(): column.collation for column in self.existing_columns(database)
            }
        collations = self._collations[database]
        values = []
        for name, column in zip(self.target.key, self.staged_key, strict=True):
            collation = collations.get(name.lower())
            charset = (collation or "").partition("_")[0]
            values.append(f"CONVERT({column} USING {charset}) COLLATE {collation}" if collation else column)
        return values

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

    def staging_tables(self, database: Database) -> list[str]:
        found = database.query(
            "SELECT table_name FROM information_schema.tables WHERE table_schema ="  # noqa: S608 (names are quoted)
            f" {self._schema} AND LEFT(table_name, {len(self.names.staging_prefix)}) ="
            f" {self.dialect.quoted_text(self.names.staging_prefix)}"
        )
        return [name for (name,) in found]

    # At the start

    def declared(self, column: Column) -> str:
        if column.name in self.target.key:
            return _KEY_TYPES.get(column.type.spark) or super().declared(column)
        return super().declared(column)

    def table_options(self, database: Database) -> str:
        collation = cast(MariaDbDatabase, database).exact_collation
        return f" ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE={collation}"

    def exists(self, database: Database, name: str) -> bool:
        return bool(self._kind(database, name))

    def check_kind(self, database: Database) -> None:
        name = self.target.table
        ((kind, engine),) = self._kind(database, self.names.table)
        if kind != "BASE TABLE":
            raise TableRefused(
                f"'{name}' is not a table (it may be a view); name a table, or one that is not there yet"
            )
        if engine != "InnoDB":
            raise TableRefused(
                f"table '{name}' is stored by {engine}, which has no transactions; ALTER TABLE {self.names.target}"
                " ENGINE = InnoDB"
            )

    def existing_columns(self, database: Database) -> list[MariaDbColumn]:
        return [
            MariaDbColumn(
                name=name,
                declared=declared,
                data_type=data_type,
                precision=precision,
                scale=scale,
                fraction_digits=fraction_digits,
                collation=collation,
                must_be_given=bool(must_be_given),
                is_generated=bool(is_generated),
                numbers_itself=bool(numbers_itself),
            )
            for (
                name,
                declared,
                data_type,
                precision,
                scale,
                fraction_digits,
                collation,
                must_be_given,
                is_generated,
                numbers_itself,
            ) in database.query(_COLUMNS.format(where=self._where))
        ]

    def fits(self, column: Column, existing: MariaDbColumn) -> bool:
        return fits(column.type, existing)

    def check_privileges(self, database: Database) -> None:
        """Writes nothing, and is refused to a user who may not write."""
        nulls = ", ".join(["NULL"] * len(self.columns))
        conflict = self.conflict_clause() if self.target.mode == "upsert" else ""
        database.execute(f"{self.insertion()} SELECT {nulls} FROM DUAL WHERE FALSE {conflict}")  # noqa: S608
        if self.target.deletes:
            database.execute(f"DELETE FROM {self.names.target} WHERE FALSE")  # noqa: S608 (names are quoted)

    def check_key(self, database: Database, existing: Sequence[MariaDbColumn]) -> None:
        table = self.target.table
        there = {column.name.lower(): column for column in existing}
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
            numbers_itself = len(columns) == 1 and all(there[name].numbers_itself for name in columns)
            if columns != key and not numbers_itself:
                raise TableRefused(
                    f"table '{table}' has another unique index than its key, {index}, and MariaDB would replace rows by"
                    " that one as well; drop it, or write with mode: append"
                )
        for name in key:
            if there[name].ignores_case:
                raise TableRefused(
                    f"column '{name}' of table '{table}' compares texts by {there[name].collation}, so that"
                    " different keys may replace one row; give it a collation that ends in _bin"
                )

    def _kind(self, database: Database, name: str) -> list[tuple[Any, ...]]:
        where = f"table_schema = {self._schema} AND table_name = {self.dialect.quoted_text(name)}"
        return database.query(f"SELECT table_type, engine FROM information_schema.tables WHERE {where}")  # noqa: S608

    @property
    def _schema(self) -> str:
        return "DATABASE()" if self.names.schema is None else self.dialect.quoted_text(self.names.schema)

    @property
    def _where(self) -> str:
        return f"table_schema = {self._schema} AND table_name = {self.dialect.quoted_text(self.names.table)}"
