"""The Spark that a pipeline starts for itself: which settings its declaration asks for.

It must stay quick to import: `penstock run` starts Java from here before it imports what runs pipelines.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.declaration.spec import PipelineHead, PipelineSpec
from penstock.pipeline.failure import PipelineFailed
from penstock.pipeline.spark.java import JavaMissingError
from penstock.pipeline.spark.jvm import JvmError
from penstock.pipeline.spark.session import SparkSettings, launch, start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def conf_of(head: PipelineHead) -> dict[str, str]:
    return {name: _text(value) for name, value in head.spark.items()}


def launch_ahead(spec: PipelineSpec, master: str | None) -> None:
    """Returns at once, so that Java starts while other things are done; `start_spark` then waits for it."""
    with _refusals():
        launch(_settings(spec, master))


def start_spark(head: PipelineHead, master: str | None) -> SparkSession:
    with _refusals():
        return start(_settings(head, master))


def _settings(head: PipelineHead, master: str | None) -> SparkSettings:
    conf = conf_of(head)
    # On this machine the driver's heap is an option of the JVM, and Spark's own setting comes too late for it.
    memory = conf.get("spark.driver.memory")
    settings = SparkSettings(name=head.name, master=master, log_level="OFF", driver_memory=memory, conf=conf)
    if not isinstance(head, PipelineSpec):
        return settings  # of a program, whose code may do anything
    return replace(settings, functions=head.calls_functions, tables=head.uses_databases)


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except (JavaMissingError, JvmError) as missing:
        raise PipelineFailed(str(missing), ExitCode.MISSING_REQUIREMENT) from missing


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
