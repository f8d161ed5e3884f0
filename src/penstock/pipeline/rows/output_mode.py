"""Which rows of a streaming result are written: Spark's output mode, asked for or derived.

An upsert wants every row that changed, as soon as it changes (update); everything else wants rows that will not change
any more (append). Spark refuses update for some plans, joins of streams among them; there the two mean the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.pipeline.declaration.spec import PipelineSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_JAVA_NAMES: Final = {"append": "Append", "update": "Update", "complete": "Complete"}


def output_mode(spec: PipelineSpec, result: DataFrame) -> str:
    """Raises Spark's AnalysisException for a result that the mode cannot write."""
    if spec.output_mode is not None:
        _require(spec.output_mode, result)
        return spec.output_mode
    if spec.sink.replaces_rows:
        from pyspark.errors import AnalysisException

        try:
            _require("update", result)
            return "update"
        except AnalysisException as refused:
            try:
                _require("append", result)
            except AnalysisException:
                raise refused from None
            return "append"
    _require("append", result)
    return "append"


def _require(mode: str, result: DataFrame) -> None:
    """Asks Spark what it would ask itself when the query starts."""
    jvm = result.sparkSession._jvm
    assert jvm is not None  # a classic session has one; pipelines run on no other
    sql = jvm.org.apache.spark.sql
    java_mode = getattr(sql.streaming.OutputMode, _JAVA_NAMES[mode])()
    plan = result._jdf.queryExecution().analyzed()
    sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(plan, java_mode)
