"""A table before its first row, in the driver: it is created or checked, and this run of the pipeline claims it.

Owns the order: nothing is created for a table that is refused, and nothing is claimed before the table is known to fit,
so that a start that fails does not disturb a running pipeline.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.pipeline.sinks.table import outbox
from penstock.pipeline.sinks.table.column_types import Column, columns_of, has_dead_letters
from penstock.pipeline.sinks.table.connections import in_driver
from penstock.pipeline.sinks.table.errors import TableRefused
from penstock.pipeline.sinks.table.ledger import BatchPlace, Ledger
from penstock.pipeline.sinks.table.names import LEDGER
from penstock.pipeline.sinks.table.store import TableStore
from penstock.pipeline.sinks.table.target import TableTarget

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def table_store(target: TableTarget, columns: Sequence[Column]) -> TableStore:
    return target.dialect.store(target, columns)


def prepare(target: TableTarget, schema: StructType) -> None:
    """Creates what is missing, or refuses. Once at every start of the query; it takes nothing away from another run."""
    store = _store(target, schema)
    with in_driver(target) as database:
        with database.creating():
            if store.exists(database, store.names.table):
                store.require_fitting_table(database)
            else:
                store.create_table(database)
            store.ledger.create(database)
            if has_dead_letters(schema) or target.dead_letters is not None:
                outbox.create(database, store.names, target)
        if store.ledger.is_ours(database):  # a query of this run has failed; its staging is obsolete
            store.discard_staging(database, None)


def claim(target: TableTarget, schema: StructType) -> None:
    """Once in a run, after `prepare`: from now on an earlier run commits nothing, and its staging is removed."""
    store = _store(target, schema)
    with in_driver(target) as database:
        with database.transaction():
            store.ledger.claim(database)
        store.terminate_previous_runs(database)
        store.discard_staging(database, None)


def recorded_place(target: TableTarget, schema: StructType) -> str | None:
    """The id by which the database knows the pipeline; None if it has not the pipeline's table or has never seen it.

    It moves with the database: to another host, file or user.
    """
    store = _store(target, schema)
    if not target.dialect.is_there(target.url):
        return None
    with in_driver(target) as database:
        if not all(store.exists(database, name) for name in (store.names.table, LEDGER)):
            return None
        return store.ledger.outbox_id(database)


def existing_types(target: TableTarget) -> dict[str, str]:
    """The types of the table's columns as the database writes them; none if there is no such table."""
    store = table_store(target, ())
    if not target.dialect.is_there(target.url):
        return {}
    with in_driver(target) as database:
        if not store.exists(database, store.names.table):
            return {}
        return {column.name: column.declared for column in store.existing_columns(database)}


def last_batch(target: TableTarget) -> BatchPlace | None:
    """The last batch of the pipeline that the table holds, of any run. After `prepare`."""
    with in_driver(target) as database:
        return Ledger(target).last_batch(database)


def _store(target: TableTarget, schema: StructType) -> TableStore:
    columns = columns_of(schema, target.json_columns)
    names = [column.name for column in columns]
    for name in target.key:
        if name not in names:
            raise TableRefused(f"the key's column '{name}' is not among the pipeline's: {', '.join(names)}")
        if (kind := columns[names.index(name)].type.spark).startswith(("json", "array<")):
            raise TableRefused(f"the key's column '{name}' is {kind}; a key is made of plain values")
    if target.mode == "upsert" and not target.key:
        raise TableRefused("mode upsert replaces rows by key: name the columns, as in key: [id]")
    return table_store(target, columns)
