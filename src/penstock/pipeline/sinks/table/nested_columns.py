"""Columns whose values have parts: structs, maps, arrays and variants.

Owns what becomes of them: an array of plain values stays one where the database has arrays and the table's column is
one; everything else becomes JSON text in Spark, so that rows arrive in bulk as all others do, and the database makes a
JSON column of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.pipeline.rows.bad_rows import quoted
from penstock.pipeline.rows.dead_letters import DEAD_LETTER
from penstock.pipeline.sinks.table.column_types import array_element, is_nested
from penstock.pipeline.sinks.table.preparation import existing_types
from penstock.pipeline.sinks.table.target import TableTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def with_json_columns(rows: DataFrame, target: TableTarget) -> tuple[DataFrame, TableTarget]:
    """The rows with JSON text in place of nested values, and the target that knows which columns these are."""
    from pyspark.sql import functions as f

    nested = [field.name for field in rows.schema if field.name != DEAD_LETTER and is_nested(field.dataType)]
    if not nested:
        return rows, target
    names = json_columns(rows.schema, nested, target)
    columns = [
        f.to_json(quoted(name), {"ignoreNullFields": "false"}).alias(name) if name in names else f.col(quoted(name))
        for name in rows.columns
    ]
    return rows.select(*columns), replace(target, json_columns=tuple(names))


def json_columns(schema: StructType, nested: list[str], target: TableTarget) -> list[str]:
    if not target.dialect.keeps_arrays:
        return nested
    existing = existing_types(target)
    return [
        name
        for name in nested
        if array_element(schema[name].dataType.simpleString()) is None or not existing.get(name, "[]").endswith("[]")
    ]
