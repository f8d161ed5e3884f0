"""Spark's own objects for queries, which are Catalyst's: plans and expressions, read and made.

pyspark keeps them in private attributes (`_jvm`, `_jdf`, `_jc`). This module is the way to them for `internals.py` and
`row_expressions.py`, which know what they mean; no other module uses it.

Owns how the objects are reached and made. It must not know what is looked for in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def jvm(session: SparkSession) -> Any:
    assert session._jvm is not None  # a classic session has one; pipelines run on no other
    return session._jvm


def parsed(session: SparkSession, sql: str) -> Any:
    """The plan of a query, of which no name is looked up."""
    java_session: Any = session._jsparkSession
    return java_session.sessionState().sqlParser().parsePlan(sql)


def analyzed(frame: DataFrame) -> Any:
    """The plan of a DataFrame, as it was written."""
    java_frame: Any = frame._jdf
    return java_frame.queryExecution().analyzed()


def output(frame: DataFrame) -> list[Any]:
    return sequence(analyzed(frame).output())


def sequence(of_scala: Any) -> list[Any]:
    return [of_scala.apply(number) for number in range(of_scala.length())]


def iterated(of_scala: Any) -> list[Any]:
    found, iterator = [], of_scala.iterator()
    while iterator.hasNext():
        found.append(iterator.next())
    return found


class Catalyst:
    """Makes such objects, in the session of a DataFrame."""

    def __init__(self, frame: DataFrame) -> None:
        self._session: Any = frame.sparkSession
        self._jvm: Any = jvm(frame.sparkSession)

    @property
    def _catalyst(self) -> Any:
        return self._jvm.org.apache.spark.sql.catalyst

    def seq(self, items: Sequence[Any]) -> Any:
        return self._jvm.PythonUtils.toSeq(list(items))

    def is_any(self, types: Sequence[str], expression: Any) -> bool:
        return any(self._jvm.py4j.reflection.TypeUtil.isInstanceOf(name, expression) for name in types)

    def alias(self, expression: Any, name: str, expression_id: Any = None) -> Any:
        expressions = self._catalyst.expressions
        if expression_id is None:
            expression_id = expressions.NamedExpression.newExprId()
        nothing = self._jvm.scala.Option.empty()
        return expressions.Alias(expression, name, expression_id, self.seq([]), nothing, self.seq([]))

    def substituted(self, expression: Any, aliases: Sequence[Any]) -> Any:
        """The expression with what the aliases stand for in their place."""
        if not aliases:
            return expression
        collapse = self._catalyst.optimizer.CollapseProject
        made = collapse.buildCleanedProjectList(self.seq([self.alias(expression, "made")]), self.seq(aliases))
        return made.apply(0).child()

    def without_ctes(self, plan: Any) -> Any:
        """A reference to a common table expression has no children to follow."""
        return self._catalyst.optimizer.InlineCTE(True, False, False).apply(plan)

    def try_eval(self, expression: Any) -> Any:
        return self._catalyst.expressions.TryEval(expression)

    def pretty(self, expression: Any) -> str:
        package = getattr(self._catalyst.util, "package$")
        return str(getattr(package, "MODULE$").toPrettySQL(expression, True))

    def expression(self, column: Any) -> Any:
        return self._jvm.org.apache.spark.sql.classic.ExpressionUtils.expression(column._jc)

    def column(self, expression: Any) -> Column:
        from pyspark.sql.classic.column import Column as ClassicColumn

        found: Column = ClassicColumn(self._jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expression))
        return found

    def project(self, listed: Sequence[Any], plan: Any) -> Any:
        return self._catalyst.plans.logical.Project(self.seq(listed), plan)

    def frame(self, plan: Any) -> DataFrame:
        from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

        dataset = self._jvm.org.apache.spark.sql.classic.Dataset.ofRows(self._session._jsparkSession, plan)
        found: DataFrame = ClassicDataFrame(dataset, self._session)
        return found
