"""A bug in a Python function that Spark calls for rows: file, line and function in one line, and no second attempt."""

from __future__ import annotations

import pytest

from penstock.pipeline.failure import PipelineFailed
from tests.pipeline.pipeline_runs import Pipelines

SHARES = """\
from pyspark.sql import functions as F


@F.udf("int")
def share(number):
    return 10 // number


def shares(rows):
    rows.sparkSession.udf.register("share", share)
    return rows.select("id", share("id").alias("share"))
"""


@pytest.mark.parametrize(
    "steps",
    [
        "[{python: 'MODULE:shares'}]",
        pytest.param(
            "[{python: 'MODULE:shares'}, 'SELECT id, share(id) AS share FROM step_1']", marks=pytest.mark.slow
        ),
    ],
)
def test_a_bug_in_a_function_is_named_with_its_place_and_not_tried_again(pipelines: Pipelines, steps: str) -> None:
    module = pipelines.name("shares").replace("-", "_")
    (pipelines.directory / f"{module}.py").write_text(SHARES)
    numbers = pipelines.topic("numbers", partitions=1)
    pipelines.send(numbers, [{"id": 5}, {"id": 2}])
    yaml = f"""
        name: {pipelines.name("shared")}
        source: {{topic: {numbers}, schema: "id INT"}}
        transform: {steps.replace("MODULE", module)}
        sink: {{topic: {pipelines.name("sink")}}}
    """
    pipelines.once(yaml)
    assert sorted(row["share"] for row in pipelines.values(pipelines.name("sink"))) == [2, 5]
    pipelines.send(numbers, [{"id": 0}])
    with pytest.raises(PipelineFailed) as failed:
        pipelines.once(yaml)
    assert failed.value.entry.condition == "PENSTOCK_FUNCTION_FAILED"
    place = pipelines.directory / f"{module}.py"
    assert str(failed.value) == f"{place} line 6 in share: ZeroDivisionError: integer division or modulo by zero"
