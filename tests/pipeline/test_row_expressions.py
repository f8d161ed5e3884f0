"""What is read from the plan of a query: its expressions over a source's rows, and the rows for which they fail."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.pipeline.rows.transform_guard import guard_of
from penstock.pipeline.spark.row_expressions import row_expressions, with_source_replaced

ROWS = "(1L, '1', 1), (2L, 'two', 1), (3L, '3', 0)"


def source(spark: SparkSession) -> DataFrame:
    """A view `source`, of a projection as a source's rows are."""
    rows = spark.sql(f"SELECT id, text, n FROM VALUES {ROWS} AS rows(id, text, n) WHERE id IS NOT NULL")
    rows.createOrReplaceTempView("source")
    spark.sql("SELECT * FROM VALUES (1L, 'ada'), (2L, 'bob') AS rows(id, name)").createOrReplaceTempView("names")
    return rows


def reasons(spark: SparkSession, query: str) -> dict[int, str]:
    """By id of the row."""
    session = spark.newSession()
    rows = source(session)
    guard = guard_of([session.sql(query)], rows)
    if guard is None:
        return {}
    # Another DataFrame of the same columns, as the rows that are read again are.
    again = session.sql(f"SELECT n, id, text FROM VALUES {ROWS} AS rows(id, text, n)").select("id", "text", "n")
    found = again.withColumn("reason", guard.reason(again)).where("reason IS NOT NULL").collect()
    return {row["id"]: row["reason"] for row in found}


CAST_FAILS = {2: "CAST(text AS INT) fails for text = 'two'"}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT CAST(text AS INT) AS number FROM source", CAST_FAILS),
        ("SELECT id FROM source WHERE CAST(text AS INT) > 1", {2: "(CAST(text AS INT) > 1) fails for text = 'two'"}),
        # What a filter leaves out does not fail, and what tolerates a row does not either.
        ("SELECT CAST(text AS INT) AS number FROM source WHERE text RLIKE '[0-9]'", {}),
        ("SELECT IF(text = 'two', 2, CAST(text AS INT)) AS number FROM source", {}),
        ("SELECT try_cast(text AS INT) AS number, id / 2 AS half FROM source", {}),
        ("SELECT * FROM source", {}),
        # Steps, names and common table expressions in between.
        (
            "WITH a AS (SELECT *, id - 3 AS left FROM source s WHERE n = 0) SELECT 1 / left AS part FROM a b",
            {3: "(1 / left) fails for id = '3'"},
        ),
        ("SELECT sum(CAST(text AS INT)) AS total FROM source GROUP BY n", CAST_FAILS),
        ("SELECT count(*) AS n FROM source GROUP BY CAST(text AS INT)", CAST_FAILS),
        ("SELECT CAST(text AS INT) AS number FROM source JOIN names ON source.id = names.id", CAST_FAILS),
        (
            "SELECT name FROM source JOIN names ON CAST(source.text AS BIGINT) = names.id",
            {2: "CAST(text AS BIGINT) fails for text = 'two'"},
        ),
        (
            "SELECT explode(sequence(1, CAST(text AS INT))) AS number FROM source",
            {2: "sequence(1, CAST(text AS INT)) fails for text = 'two'"},
        ),
        ("SELECT id FROM source WHERE CAST(text AS INT) BETWEEN 1 AND 5", CAST_FAILS),
        (
            "SELECT id FROM source WHERE id = 2 AND assert_true(n > 1) IS NULL",
            {2: "((id = 2) AND (assert_true((n > 1), '(n > 1)' is not true!) IS NULL)) fails for id = '2', n = '1'"},
        ),
        # Both fail, and share a part, which Spark would evaluate once and before both.
        (
            "SELECT CAST(text AS INT) + 1 AS a, CAST(text AS INT) + 2 AS b FROM source",
            {2: "(CAST(text AS INT) + 1) fails for text = 'two'"},
        ),
        ("SELECT 1 / 0 AS never FROM source WHERE id = 1", {1: "(1 / 0) fails"}),
        # Not of one row.
        ("SELECT 1 / (count(*) - 3) AS part FROM source", {}),
        ("SELECT CAST(text AS INT) * rand() AS part FROM source", CAST_FAILS),
        ("SELECT CASE WHEN name = 'ada' THEN CAST(text AS INT) END AS n FROM source JOIN names USING (id)", {}),
    ],
)
def test_rows_for_which_an_expression_fails_are_found(
    spark: SparkSession, query: str, expected: dict[int, str]
) -> None:
    assert reasons(spark, query) == expected


def test_a_query_runs_on_with_another_source_of_the_same_columns(spark: SparkSession) -> None:
    session = spark.newSession()
    rows = source(session)
    other = session.sql("SELECT * FROM VALUES (7L, '7', 1), (8L, '8', 1) AS rows(id, text, n)")

    def result(query: DataFrame) -> list[Any]:
        return sorted(tuple(row) for row in with_source_replaced(query, rows, other).collect())

    assert result(session.sql("SELECT id, CAST(text AS INT) + n AS sum FROM source WHERE id > 7")) == [(8, 9)]
    assert result(rows.groupBy("n").count()) == [(1, 2)]
    assert result(rows) == [(7, "7", 1), (8, "8", 1)]
    assert result(session.sql("SELECT a.id FROM source a JOIN source b ON a.id = b.id")) == [(7,), (8,)]


def test_a_source_that_is_not_in_the_query_has_no_expressions(spark: SparkSession) -> None:
    session = spark.newSession()
    rows = source(session)
    assert row_expressions(session.sql("SELECT id + 1 AS next FROM names"), rows) == []
