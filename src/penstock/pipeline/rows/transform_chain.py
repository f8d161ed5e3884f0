"""The transform of a pipeline, carried out: from the sources' DataFrames to the one that the sink is given.

Every source and every step is a temporary view of its name, so the session must be the pipeline's own
(`SparkSession.newSession`): two pipelines of one engine may both call a step `cleaned`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.pipeline.declaration.function_reference import load_function
from penstock.pipeline.declaration.spec import PipelineSpec
from penstock.pipeline.declaration.transform_spec import PythonStep

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class NotADataFrame(Exception):
    """A function of the pipeline returned something else."""


def apply_transform(
    spark: SparkSession, spec: PipelineSpec, sources: Mapping[str, DataFrame], directory: Path
) -> DataFrame:
    """The rows of the only sink. `sources` are DataFrames of `spark`, by their names in SQL; `directory` is where
    functions are looked for."""
    frames = dict(sources)
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    for index in range(len(spec.transform)):
        frames[spec.step_name(index)] = apply_step(spark, spec, index, frames, directory)
    return frames[spec.rows_name]


def apply_step(
    spark: SparkSession, spec: PipelineSpec, index: int, frames: Mapping[str, DataFrame], directory: Path
) -> DataFrame:
    """One step, over `frames` of the sources and of the steps before it; its view has its name."""
    step = spec.transform[index]
    if isinstance(step, PythonStep):
        frame = _call(step, _inputs(step, spec, index, frames), directory)
    else:
        frame = spark.sql(step.sql)
    frame.createOrReplaceTempView(spec.step_name(index))
    return frame


def _inputs(step: PythonStep, spec: PipelineSpec, index: int, frames: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    if step.inputs is not None:
        names = list(step.inputs)
    elif index > 0:
        names = [spec.step_name(index - 1)]
    else:
        names = list(spec.all_sources)
    return {name: frames[name] for name in names}


def _call(step: PythonStep, inputs: dict[str, DataFrame], directory: Path) -> DataFrame:
    from pyspark.sql import DataFrame

    function = load_function(step.python, directory)
    result = function(next(iter(inputs.values())) if len(inputs) == 1 else inputs)
    if not isinstance(result, DataFrame):
        raise NotADataFrame(f"{step.python} returned {type(result).__name__}, not a DataFrame")
    return result
