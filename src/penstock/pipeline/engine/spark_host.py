"""Pipelines in the engine of `penstock up`: each in a session of its own of one Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.core.error_table import CONDITION_BY_EXIT_CODE, Retry
from penstock.pipeline.analysis import TextOrigin, check_with_spark
from penstock.pipeline.api import PipelinePlan
from penstock.pipeline.declaration.spec import PipelineSpec
from penstock.pipeline.declaration.spec_errors import InvalidPipeline
from penstock.pipeline.declaration.spec_file import FileOrigin, load_pipeline
from penstock.pipeline.engine.host import Outcome, Run, Work
from penstock.pipeline.engine.mistakes import NoFile, mistakes_as_json
from penstock.pipeline.failure import PipelineFailed
from penstock.pipeline.run import PipelineRun
from penstock.pipeline.run_settings import RunSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkHost:
    """A `Host`. Any thread may call it."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def run(self, work: Work, run: Run) -> Outcome:
        origin = _origin(work)
        try:
            self._run(work, run, origin)
        except InvalidPipeline as invalid:
            details = {
                "problems": [str(problem) for problem in invalid.problems],
                "mistakes": mistakes_as_json(invalid.problems),
            }
            condition = CONDITION_BY_EXIT_CODE[invalid.exit_code]
            return Outcome(int(invalid.exit_code), str(invalid.problems[0]), condition, details=details)
        except PipelineFailed as failure:
            reason = origin.placed(str(failure)) if isinstance(origin, FileOrigin) else str(failure)
            entry = failure.entry
            may_return = entry.retry is Retry.UNTIL_IT_RETURNS
            return Outcome(int(failure.exit_code), reason, entry.condition, may_return)
        return Outcome()

    def _run(self, work: Work, run: Run, origin: TextOrigin) -> None:
        spec = PipelineSpec.model_validate(work.spec)
        hosted = PipelineRun(
            spec,
            RunSettings(
                directory=work.directory,
                bootstrap_servers=work.settings.get("bootstrap_servers"),
                checkpoint=work.settings.get("checkpoint"),
                once=bool(work.settings.get("once")),
                report=run.report,
                stop=run.stop,
                spark=self.spark,
            ),
        )
        # Before the checkpoint is read: a misspelled topic is no reason to name another one.
        hosted.check_topics(spec)
        hosted.execute(PipelinePlan(spec, work.directory), origin)

    def check(self, work: Work) -> Mapping[str, Any]:
        spec = PipelineSpec.model_validate(work.spec)
        found = check_with_spark(spec, self.spark, NoFile(), work.directory)
        return {"problems": mistakes_as_json(found.problems), "notes": mistakes_as_json(found.notes)}


def _origin(work: Work) -> TextOrigin:
    """The file of a pipeline that the engine keeps, as long as it can be read; a command places mistakes itself."""
    if work.file is not None:
        try:
            return load_pipeline(Path(work.file)).origin
        except InvalidPipeline:
            pass
    return NoFile()
