"""Which expressions of a query are evaluated for each row of a source, and whether one of them fails for a row.

Spark reports a failing expression, such as a cast of 'abc' to INT, without the row. This finds the row: it follows a
source's columns upwards through the plan of a query, collects what is computed of them, and makes of each expression a
column that is NULL for exactly the rows for which the expression fails (Spark's own TryEval, which `try_add` uses).

Followed are projections, filters, joins, generators and the input of the first aggregation. Not followed are Python
functions, subqueries, what is random, and what is computed of an aggregate or of several sources together.

Owns this reading of plans. It uses Spark's own objects, through `catalyst.py`, and none of them leaves it. It must not
know pipelines. tests/pipeline/test_row_expressions.py has a test for each assumption.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from penstock.pipeline.spark.catalyst import Catalyst, analyzed, iterated, output, sequence

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_EXPRESSIONS: Final = "org.apache.spark.sql.catalyst.expressions"
# Expressions that Spark evaluates, but not row by row, or not where they stand.
_NOT_OF_A_ROW: Final = (
    f"{_EXPRESSIONS}.Unevaluable",
    f"{_EXPRESSIONS}.Generator",
    f"{_EXPRESSIONS}.aggregate.AggregateExpression",
    f"{_EXPRESSIONS}.aggregate.AggregateFunction",
    f"{_EXPRESSIONS}.WindowExpression",
    f"{_EXPRESSIONS}.PlanExpression",
)
# Their parts are evaluated for some rows only.
_CONDITIONAL: Final = (f"{_EXPRESSIONS}.ConditionalExpression", f"{_EXPRESSIONS}.And", f"{_EXPRESSIONS}.Or")
_RENAMINGS: Final = frozenset({"SubqueryAlias", "View", "ResolvedHint"})
# Above these a column is no longer the source's, or no longer of one row.
_ENDS: Final = frozenset({"Aggregate", "Union", "Expand", "Intersect", "Except", "GlobalLimit", "LocalLimit"})


@dataclass(frozen=True, slots=True)
class RowExpression:
    """`sql` is how a person would write it, `columns` are the source's columns in it."""

    sql: str
    columns: Sequence[str]
    _expression: Any
    _conditions: Sequence[Any]
    _source: DataFrame

    def fails(self, rows: DataFrame) -> Column:
        """True for a row of `rows`, which has the columns of the source, for which the expression cannot be evaluated.

        It is False for a row that a filter of the query leaves out before.
        """
        from pyspark.sql import functions as f

        failed = self._tried(rows, self._expression).isNull()
        for condition in reversed(self._conditions):
            kept = f.coalesce(self._tried(rows, condition)["value"].cast("boolean"), f.lit(False))
            failed = f.when(kept, failed).otherwise(f.lit(False))
        return failed

    def _tried(self, rows: DataFrame, expression: Any) -> Column:
        """A struct with the expression's value; NULL if it fails."""
        from pyspark.sql import functions as f

        catalyst = Catalyst(rows)
        named = [
            catalyst.alias(new, str(old.name()), old.exprId())
            for old, new in zip(output(self._source), output(rows.select(*_quoted(self._source.columns))), strict=True)
        ]
        of_rows = catalyst.column(catalyst.substituted(expression, named))
        return catalyst.column(catalyst.try_eval(catalyst.expression(f.struct(of_rows.alias("value")))))


def row_expressions(result: DataFrame, source: DataFrame) -> list[RowExpression]:
    """The expressions of `result` over the rows of `source`, in the order in which Spark evaluates them."""
    walk = _Walk(Catalyst(result), source)
    walk.follow(walk.catalyst.without_ctes(analyzed(result)))
    return walk.found


def with_source_replaced(result: DataFrame, source: DataFrame, replacement: DataFrame) -> DataFrame:
    """The same query over `replacement`, which has the columns of `source`."""
    catalyst = Catalyst(result)
    old, new = analyzed(source), analyzed(replacement)

    def replaced(node: Any) -> Any:
        # A query that reads the source twice has a copy of it with ids of its own.
        if node.equals(old) or node.sameResult(old):
            attributes = zip(sequence(node.output()), output(replacement), strict=True)
            return catalyst.project([catalyst.alias(its, str(a.name()), a.exprId()) for a, its in attributes], new)
        children = sequence(node.children())
        others = [replaced(child) for child in children]
        if all(child.equals(other) for child, other in zip(children, others, strict=True)):
            return node
        return node.withNewChildren(catalyst.seq(others))

    return catalyst.frame(replaced(analyzed(result)))


@dataclass(slots=True)
class _Reached:
    """What is known of the source's columns at one operator: which there are, what new ones are made of, and which
    conditions a row has met."""

    known: set[str]
    aliases: list[Any] = field(default_factory=list)
    conditions: list[Any] = field(default_factory=list)


class _Walk:
    def __init__(self, catalyst: Catalyst, source: DataFrame) -> None:
        self.catalyst = catalyst
        self.found: list[RowExpression] = []
        self._source = source
        self._source_plan = analyzed(source)
        self._source_ids = {_id(attribute): str(attribute.name()) for attribute in output(source)}

    def follow(self, node: Any) -> _Reached | None:
        """None where the source is not below, or no longer recognisable."""
        if node.equals(self._source_plan):
            return _Reached(set(self._source_ids))
        below = [reached for child in sequence(node.children()) if (reached := self.follow(child)) is not None]
        if len(below) != 1:
            return None
        [reached] = below
        kind = str(node.nodeName())
        if kind in _RENAMINGS:
            return reached
        if kind == "Filter":
            self._filter(node.condition(), reached)
            return reached
        if kind == "Project":
            return self._project(sequence(node.projectList()), reached)
        for expression in sequence(node.expressions()):
            self._collect(expression, reached)
        return None if kind in _ENDS else reached

    def _filter(self, condition: Any, reached: _Reached) -> None:
        if self._is_of_a_row(condition, reached):
            self._add(condition, reached)
            reached.conditions.append(self.catalyst.substituted(condition, reached.aliases))
        else:
            self._collect(condition, reached)

    def _project(self, listed: list[Any], reached: _Reached) -> _Reached:
        known, aliases = set(reached.known), list(reached.aliases)
        for named in listed:
            if named.getClass().getSimpleName() != "Alias":
                continue
            if self._is_of_a_row(named.child(), reached):
                self._add(named.child(), reached)
                of_source = self.catalyst.substituted(named.child(), reached.aliases)
                aliases.append(self.catalyst.alias(of_source, str(named.name()), named.exprId()))
                known.add(_id(named))
            else:
                self._collect(named.child(), reached)
        return _Reached(known, aliases, list(reached.conditions))

    def _collect(self, expression: Any, reached: _Reached) -> None:
        """The largest parts that can be evaluated for a row of the source alone."""
        if self._is_of_a_row(expression, reached):
            self._add(expression, reached)
        elif not self._is_conditional(expression):
            for child in sequence(expression.children()):
                self._collect(child, reached)

    def _is_conditional(self, expression: Any) -> bool:
        if expression.getClass().getSimpleName() == "AggregateExpression" and expression.filter().isDefined():
            return True
        return self.catalyst.is_any(_CONDITIONAL, expression)

    def _is_of_a_row(self, expression: Any, reached: _Reached) -> bool:
        if not expression.deterministic():
            return False
        if any(_id(attribute) not in reached.known for attribute in iterated(expression.references())):
            return False
        return self._is_evaluable(expression)

    def _is_evaluable(self, expression: Any) -> bool:
        if expression.getClass().getSimpleName() == "AttributeReference":
            return True
        if self.catalyst.is_any(_NOT_OF_A_ROW, expression):
            return False
        return all(map(self._is_evaluable, sequence(expression.children())))

    def _add(self, expression: Any, reached: _Reached) -> None:
        if not sequence(expression.children()):
            return  # a column, or a literal
        of_source = self.catalyst.substituted(expression, reached.aliases)
        ids = [_id(attribute) for attribute in iterated(of_source.references())]
        columns = list(dict.fromkeys(self._source_ids[known] for known in ids if known in self._source_ids))
        sql = self.catalyst.pretty(expression)
        self.found.append(RowExpression(sql, columns, of_source, tuple(reached.conditions), self._source))


def _id(named: Any) -> str:
    return str(named.exprId().toString())


def _quoted(names: Sequence[str]) -> list[str]:
    return ["`" + name.replace("`", "``") + "`" for name in names]
