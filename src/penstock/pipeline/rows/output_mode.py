"""Which rows of a streaming result are written: Spark's output mode, asked for or derived.

An upsert wants every changed row as soon as it changes (update); every other sink wants final rows (append). Spark
refuses update for some plans, joins of streams among them; there the two mean the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.pipeline.declaration.spec import PipelineSpec
from penstock.pipeline.spark.internals import require_output_mode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def output_mode(spec: PipelineSpec, result: DataFrame) -> str:
    """Raises Spark's AnalysisException for a result that the mode cannot write."""
    if spec.output_mode is not None:
        require_output_mode(result, spec.output_mode)
        return spec.output_mode
    if spec.sink.replaces_rows:
        from pyspark.errors import AnalysisException

        try:
            require_output_mode(result, "update")
            return "update"
        except AnalysisException as refused:
            try:
                require_output_mode(result, "append")
            except AnalysisException:
                raise refused from None
            return "append"
    require_output_mode(result, "append")
    return "append"
