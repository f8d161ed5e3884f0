"""Dead letters that pass through a transform beside the good rows, so that the source is read once.

A union of good and bad rows reads and parses every record twice. A chain of plain queries (SELECT columns FROM the step
before WHERE a condition) needs none: each step keeps every dead letter, and makes its columns of good rows only.

Owns which transforms are that simple. A query is taken apart by Spark's parser and put together again as DataFrame
operations; unless Spark finds the result to be the same query, it is not taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from penstock.pipeline.declaration.spec import PipelineSpec
from penstock.pipeline.declaration.transform_spec import SqlStep
from penstock.pipeline.rows.dead_letters import DEAD_LETTER, METRIC
from penstock.pipeline.spark.internals import calls_python, operators, simple_query
from penstock.pipeline.spark.messages import quiet_pyspark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PLAIN_OPERATORS: Final = frozenset({"Project", "Filter", "SubqueryAlias", "View"})


def in_one_pass(spark: SparkSession, spec: PipelineSpec, good: DataFrame, marked: DataFrame) -> DataFrame | None:
    """The transform's rows with DEAD_LETTER beside them; None if the transform is not that simple.

    The transform was applied in this session: each step is a view. `good` is the one source, `marked` the same with its
    dead letters, whose other columns may hold anything.
    """
    [(name, _)] = spec.all_sources.items()
    if not all(isinstance(step, SqlStep) for step in spec.transform):
        return None
    plain, rows = good, marked
    for index, step in enumerate(spec.transform):
        assert isinstance(step, SqlStep)
        query = simple_query(spark, step.sql)
        asked = spark.table(spec.step_name(index))
        if query is None or query.relation.lower() != name.lower() or not _is_plain(asked):
            return None
        columns = _expanded(query.expressions, plain.columns)
        if len(columns) != len(asked.columns) or not _same(plain, columns, query.condition, asked):
            return None
        rows = _with_letters(rows, columns, query.condition, asked.columns)
        plain, name = asked, spec.step_name(index)
    return _counted(rows)


def _expanded(expressions: Sequence[str | None], columns: list[str]) -> list[str]:
    named = ["`" + column.replace("`", "``") + "`" for column in columns]
    return [part for expression in expressions for part in (named if expression is None else [expression])]


def _is_plain(asked: DataFrame) -> bool:
    """No aggregation, join, generator or limit: one row in, at most one out. No Python, which would see bad rows."""
    found = operators(asked)
    return found is not None and _PLAIN_OPERATORS.issuperset(found) and not calls_python(asked)


def _same(plain: DataFrame, columns: list[str], condition: str | None, asked: DataFrame) -> bool:
    from pyspark.errors import PySparkException

    try:
        with quiet_pyspark():
            filtered = plain if condition is None else plain.where(condition)
            again = filtered.selectExpr(*columns).toDF(*asked.columns)
            return again.sameSemantics(asked.toDF(*asked.columns))
    except PySparkException:
        return False


def _with_letters(rows: DataFrame, columns: list[str], condition: str | None, names: list[str]) -> DataFrame:
    from pyspark.sql import functions as f

    is_letter = f.col(DEAD_LETTER).isNotNull()
    kept = rows if condition is None else rows.where(is_letter | f.expr(condition))
    made = [f.when(~is_letter, f.expr(column)).alias(name) for column, name in zip(columns, names, strict=True)]
    return kept.select(*made, DEAD_LETTER)


def _counted(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    return rows.observe(METRIC, f.count_if(f.col(DEAD_LETTER).isNotNull()).alias("rows"))
