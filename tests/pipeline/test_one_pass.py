"""Which transforms carry dead letters through, with Spark's own judgement of whether a query is the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.pipeline.declaration.spec import PipelineSpec
from penstock.pipeline.rows.dead_letters import DEAD_LETTER, DEAD_LETTER_TYPE
from penstock.pipeline.rows.one_pass import in_one_pass
from penstock.pipeline.rows.transform_chain import apply_transform


def carried(spark: SparkSession, transform: Any, directory: Path) -> DataFrame | None:
    """The transform over two good rows and a dead letter whose columns would break it."""
    spec = PipelineSpec.model_validate(
        {"name": "carried", "source": {"topic": "t"}, "transform": transform, "sink": {"console": True}}
    )
    session = spark.newSession()
    marked = session.sql(
        f"SELECT *, IF(id = 3, CAST(named_struct('key', X'', 'value', X'', 'reason', 'r', 'stage', 's', 'topic', 't',"
        f" 'partition', 0, 'offset', 0L) AS {DEAD_LETTER_TYPE}), NULL) AS {DEAD_LETTER}"
        " FROM VALUES (1L, 'one', 1), (2L, 'two', 0), (3L, 'dead', 0) AS rows(id, word, divisor)"
    )
    good = marked.where(f"{DEAD_LETTER} IS NULL").drop(DEAD_LETTER)
    session.udf.register("loud", str.upper)
    apply_transform(session, spec, {"source": good}, directory)
    return in_one_pass(session, spec, good, marked)


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        ((), [(1, "one", 1), (2, "two", 0)]),
        ("SELECT * FROM source", [(1, "one", 1), (2, "two", 0)]),
        ("SELECT word, id * 2 AS twice FROM source WHERE id > 1 OR word = 'one'", [("one", 2), ("two", 4)]),
        # The division would fail for the dead letter, and in the condition, too.
        ("SELECT 10 / divisor AS part FROM source WHERE id <> 2 AND 1 / divisor > 0", [(10.0,)]),
        ([{"a": "SELECT *, upper(word) AS loud FROM source"}, "SELECT loud FROM a WHERE id = 2"], [("TWO",)]),
    ],
)
def test_plain_queries_keep_dead_letters_beside_their_rows(
    spark: SparkSession, tmp_path: Path, transform: Any, expected: list[tuple[Any, ...]]
) -> None:
    rows = carried(spark, transform, tmp_path)
    assert rows is not None
    assert sorted(tuple(row)[:-1] for row in rows.where(f"{DEAD_LETTER} IS NULL").collect()) == expected
    [dead] = rows.where(f"{DEAD_LETTER} IS NOT NULL").collect()
    assert dead[DEAD_LETTER]["reason"] == "r"


@pytest.mark.parametrize(
    "transform",
    [
        "SELECT count(*) AS rows FROM source",
        "SELECT DISTINCT word FROM source",
        "SELECT explode(array(1, 2)) AS number FROM source",
        "SELECT id FROM source LIMIT 1",
        "SELECT a.id FROM source a JOIN source b ON a.id = b.id",
        "SELECT id FROM source UNION ALL SELECT id FROM source",
        "WITH other AS (SELECT id FROM source) SELECT id FROM other",
        "SELECT id FROM source WHERE id IN (SELECT id FROM source)",
        {"python": "unchanged:rows"},
        # Spark calls it for dead letters, too, whatever condition stands before.
        "SELECT loud(word) AS word FROM source",
    ],
)
def test_other_transforms_are_left_to_a_union(spark: SparkSession, tmp_path: Path, transform: Any) -> None:
    (tmp_path / "unchanged.py").write_text("def rows(source):\n    return source\n")
    assert carried(spark, transform, tmp_path) is None
