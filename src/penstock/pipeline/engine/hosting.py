"""Pipelines in the engine of `penstock up`: how one travels there, and how it is run beside others.

A pipeline travels as its declaration, with environment variables already replaced by the one who asked. One that calls
functions of the author's is not taken: modules of two pipelines would meet under one name in the engine's process.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.declaration.spec import PipelineSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.pipeline.engine.server import Host, Run
    from penstock.pipeline.run_settings import RunSettings


def can_be_hosted(spec: PipelineSpec) -> bool:
    return not spec.calls_functions


def packed(spec: PipelineSpec) -> dict[str, Any]:
    """The declaration as JSON that `PipelineSpec` reads again."""
    return spec.model_dump(mode="json", by_alias=True, exclude_unset=True)


def packed_settings(settings: RunSettings) -> dict[str, Any]:
    return {
        "bootstrap_servers": settings.bootstrap_servers,
        "checkpoint": settings.checkpoint,
        "once": settings.once,
    }


def host(spark: SparkSession) -> Host:
    """For `Engine`: runs pipelines in sessions of this Spark."""
    from penstock.pipeline.api import PipelinePlan
    from penstock.pipeline.declaration.spec_errors import InvalidPipeline
    from penstock.pipeline.engine.mistakes import NoFile, mistakes_as_json
    from penstock.pipeline.failure import PipelineFailed
    from penstock.pipeline.run import PipelineRun
    from penstock.pipeline.run_settings import RunSettings

    def run_hosted(spec: dict[str, Any], options: dict[str, Any], run: Run) -> int:
        declared = PipelineSpec.model_validate(spec)
        settings = RunSettings(
            directory=run.directory,
            bootstrap_servers=options.get("bootstrap_servers"),
            checkpoint=options.get("checkpoint"),
            once=bool(options.get("once")),
            report=run.report,
            stop=run.stop,
            spark=spark,
        )
        hosted = PipelineRun(declared, settings)
        try:
            # Before the checkpoint is read: a misspelled topic is no reason to name another one.
            hosted.check_topics(declared)
            hosted.execute(PipelinePlan(declared, Path(run.directory)), NoFile())
        except InvalidPipeline as invalid:
            mistakes = mistakes_as_json(invalid.problems)
            run.report({"event": "failed", "pipeline": run.name, "reason": str(invalid), "mistakes": mistakes})
            return int(invalid.exit_code)
        except PipelineFailed as failure:
            event: dict[str, Any] = {
                "event": "failed",
                "pipeline": run.name,
                "reason": str(failure),
                "condition": failure.entry.condition,
            }
            run.report(event)
            return int(failure.exit_code)
        return int(ExitCode.OK)

    return run_hosted
