"""Rows for which an expression of the transform fails: found at the source, where their position is known.

A query runs unguarded. When an expression fails, Spark ends the query without naming the row; the run then reads the
source again with a guard, which tries every expression of the transform on each row before the transform does
(`spark/row_expressions.py`). A row for which one fails is a bad row of the stage "transform", and `on_error` decides.

Owns what a guard says of a row. It must not know what becomes of bad rows, nor when a guard is used.

Invariant: a guard says the same of a row whenever it is asked, so a batch that is replayed has the same bad rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.pipeline.rows.bad_rows import excerpt, quoted
from penstock.pipeline.rows.formats import evaluated_once
from penstock.pipeline.spark.row_expressions import RowExpression, row_expressions

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, slots=True)
class TransformGuard:
    """Of one source."""

    expressions: Sequence[RowExpression]

    def reason(self, rows: DataFrame) -> Column:
        """Why the transform fails for a row of the source; NULL for a row for which it does not."""
        from pyspark.sql import functions as f

        found: Column = f.lit(None).cast("string")
        for expression in reversed(self.expressions):
            found = f.when(expression.fails(rows), _reason(expression)).otherwise(found)
        # Spark evaluates a part that two expressions share once, before both, where it would fail the query; but not a
        # part of a branch that may not be taken.
        return evaluated_once(found)


def guard_of(results: Sequence[DataFrame], source: DataFrame) -> TransformGuard | None:
    """The guard for the rows of `source`, of which the results are made; None if it has nothing to try."""
    found = [expression for result in results for expression in row_expressions(result, source)]
    return TransformGuard(found) if found else None


def _reason(expression: RowExpression) -> Column:
    from pyspark.sql import functions as f

    said: list[Column] = [f.lit(f"{expression.sql} fails")]
    for number, name in enumerate(expression.columns):
        text = f.col(quoted(name)).cast("string")
        said += [f.lit(f"{' for' if number == 0 else ','} {name} = "), excerpt(text)]
    return f.concat(*said)
