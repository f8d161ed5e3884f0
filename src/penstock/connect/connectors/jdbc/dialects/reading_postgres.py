"""PostgreSQL as the source reads it, and why rows that commit late are never missed.

A row gets its number or its timestamp when it is written, and becomes visible when its transaction commits. Transaction
A takes the number 5, B takes 6 and commits: a source that reads up to 6 now and goes on behind 6 never sees 5. The age
of a row's transaction (`xmin`) does not help: a transaction may be older than another and take its number later.

So a read is bounded twice. First the bound is taken: the highest number that is visible, or the database's clock. Then
the transactions that run at that moment are listed. Every row up to the bound was written by a transaction that had
ended before, and is visible, or by one of the list. When all transactions of the list have ended, a new snapshot shows
all rows up to the bound that there will ever be, and they are read. With no transaction in the list that is at once.

Which transactions count:
- Numbers: those that hold a lock for writing on the table, one of its partitions, or a sequence of its columns.
  PostgreSQL takes the table's lock before it evaluates a column's default, and `nextval` locks the sequence until the
  end of the transaction, so a transaction without such a lock has taken no number yet. Transactions that only read, or
  write other tables, hold nothing back. For a view or a query every transaction that writes any table counts.
- Timestamps: all transactions of the database, because `now()` is the beginning of a transaction, which may not have
  touched the table yet. A transaction that stays open for hours holds back what is written meanwhile.

A commit makes rows visible before it releases locks, so a lock that is gone means rows that are visible. Prepared
transactions hold their locks, and count.

What no bound can help with: numbers that a client has drawn in an earlier transaction (blocks of numbers of an
object-relational mapper), sequences with CACHE above 1, timestamps from clocks of clients. For these there is
`timestamp.delay.interval.ms`. Locks are those of the server that is asked: a standby does not know its primary's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from penstock.connect.connectors.jdbc.dialects.dialect import JdbcDialect, TableColumn
from penstock.connect.connectors.jdbc.dialects.postgres import PostgresJdbcDialect
from penstock.connect.connectors.jdbc.dialects.reading import NumericMapping, Reading, SourceTable, local_text, numeric
from penstock.connect.connectors.jdbc.table_names import TableName
from penstock.connect.data import schema as s
from penstock.connect.data.schema import Schema

if TYPE_CHECKING:
    from penstock.pipeline.sinks.table.database import Database

_AS_THEY_ARE: Final = {
    "boolean": s.BOOLEAN,
    "smallint": s.INT16,
    "integer": s.INT32,
    "bigint": s.INT64,
    "real": s.FLOAT32,
    "double precision": s.FLOAT64,
    "bytea": s.BYTES,
    "date": s.date(),
    "time without time zone": s.time(),
    "timestamp without time zone": s.timestamp(),
    "timestamp with time zone": s.timestamp(),
}
_AS_TEXT: Final = ("text", "character varying", "character", "bpchar", "name", "citext", "xml", "json", "jsonb", "uuid")
_CAST: Final[dict[str, tuple[Schema, str]]] = {
    "oid": (s.INT64, "CAST({} AS bigint)"),
    "money": (s.FLOAT64, "CAST(CAST({} AS numeric) AS double precision)"),
    "time with time zone": (s.time(), "CAST({} AS time)"),
}
_KINDS: Final = {"TABLE": "'r', 'f'", "PARTITIONED TABLE": "'p'", "VIEW": "'v', 'm'"}
# Partitions of a table that is read are not tables of their own.
_TABLES: Final = """
SELECT current_database()::text, n.nspname::text, c.relname::text
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ({kinds}) AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_%'
  AND c.relname NOT LIKE 'penstock\\_%' AND {schemas}
ORDER BY 2, 3"""
_WRITING: Final = "('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')"
_RELATIONS: Final = """
WITH RECURSIVE tables(oid) AS (
    SELECT oid FROM pg_class WHERE oid = to_regclass({name}) AND relkind IN ('r', 'p')
    UNION SELECT i.inhrelid FROM pg_inherits i JOIN tables t ON t.oid = i.inhparent
)
SELECT oid FROM tables
UNION SELECT d.objid FROM pg_depend d JOIN pg_class q ON q.oid = d.objid AND q.relkind = 'S'
      WHERE d.refobjid IN (SELECT oid FROM tables)
UNION SELECT d.refobjid FROM pg_attrdef a
      JOIN pg_depend d ON d.classid = 'pg_attrdef'::regclass AND d.objid = a.oid
      JOIN pg_class q ON q.oid = d.refobjid AND q.relkind = 'S'
      WHERE a.adrelid IN (SELECT oid FROM tables)"""
_WRITERS: Final = """
SELECT DISTINCT l.virtualtransaction FROM pg_locks l
WHERE l.locktype = 'relation' AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() AND l.mode IN {modes}
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND {relations}"""
_ALL: Final = """
SELECT l.virtualtransaction FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'virtualxid' AND l.granted AND l.mode = 'ExclusiveLock' AND l.pid <> pg_backend_pid()
  AND a.datname = current_database() AND a.backend_type IS DISTINCT FROM 'autovacuum worker'
UNION SELECT 'prepared ' || gid FROM pg_prepared_xacts WHERE database = current_database()"""
_FIRST_USER_OID: Final = 16384


class PostgresReading(Reading):
    dialect: ClassVar[JdbcDialect] = PostgresJdbcDialect()
    late_commits_are_held_back: ClassVar[bool] = True

    def tables(self, database: Database, kinds: Sequence[str], schemas: str | None) -> list[SourceTable]:
        wanted = ", ".join(_KINDS[kind] for kind in kinds)
        like = "true" if schemas is None else f"n.nspname LIKE {self.dialect.base.quoted_text(schemas)}"
        found = database.query(_TABLES.format(kinds=wanted, schemas=like))
        return [SourceTable(TableName(name, schema), catalog) for catalog, schema, name in found]

    def query_columns(self, database: Database, query: str) -> Sequence[TableColumn]:
        shape = database.result_schema(f"SELECT * FROM ({query}) q LIMIT 0")  # noqa: S608
        names = shape.names
        # A join that finds nothing has the types of its columns all the same.
        types = ", ".join(f"pg_typeof(q.{self.dialect.base.quoted(name)})::text" for name in names)
        (declared,) = database.query(f"SELECT {types} FROM (SELECT 1) one LEFT JOIN ({query}) q ON false")  # noqa: S608
        return [
            TableColumn(name, kind, is_nullable=True, precision=precision, scale=scale)
            for name, kind, (precision, scale) in zip(
                names, declared, [_digits(field.metadata) for field in shape], strict=True
            )
        ]

    def typed(self, column: TableColumn, mapping: NumericMapping) -> tuple[Schema, str] | None:
        if column.declared == "numeric":
            schema = numeric(column.precision, column.scale, mapping)
            if schema.name is not None:
                return schema, "CAST({} AS text)"
            return schema, "CAST({} AS double precision)" if schema == s.FLOAT64 else "CAST({} AS bigint)"
        if column.declared in _AS_THEY_ARE:
            return _AS_THEY_ARE[column.declared], "{}"
        if column.declared in _AS_TEXT or column.is_enum:
            return s.STRING, "CAST({} AS text)"
        return _CAST.get(column.declared)

    def timestamp_literal(self, micros: int, timezone: str) -> str:
        # Of unknown type: it takes the column's, and the session is in the same time zone.
        return f"'{local_text(micros, timezone)}'"

    def timestamp_micros(self, expression: str, timezone: str) -> str:
        aware = f"CAST({expression} AS timestamp with time zone)"
        return f"CAST(extract(epoch FROM {aware}) * 1000000 AS bigint)"

    def clock_micros(self) -> str:
        return "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"

    def running(self, database: Database, table: TableName | None, *, all_transactions: bool) -> frozenset[str]:
        if all_transactions:
            return frozenset(each for (each,) in database.query(_ALL))
        relations = f"l.relation >= {_FIRST_USER_OID}"
        if table is not None:
            name = self.dialect.base.quoted_text(self.ids.table(table))
            found = database.query(f"SELECT oid::bigint FROM ({_RELATIONS.format(name=name)}) relations")  # noqa: S608
            if found:  # a view has none
                relations = f"l.relation IN ({', '.join(str(oid) for (oid,) in found)})"
        return frozenset(each for (each,) in database.query(_WRITERS.format(modes=_WRITING, relations=relations)))


def _digits(metadata: dict[bytes, bytes] | None) -> tuple[int | None, int | None]:
    modifier = int((metadata or {}).get(b"POSTGRESQL:typmod", b"-1"))
    return ((modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF) if modifier > 0 else (None, None)
