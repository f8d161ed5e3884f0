"""The Spark that a pipeline starts for itself: which settings its declaration asks for.

It must stay quick to import: `penstock run` starts Java from here before it imports what runs pipelines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from penstock.core.error_table import CLUSTER_UNAVAILABLE
from penstock.core.exit_codes import ExitCode
from penstock.pipeline.declaration.spec import PipelineHead, PipelineSpec
from penstock.pipeline.failure import PipelineFailed, classify
from penstock.pipeline.spark.java import JavaMissingError
from penstock.pipeline.spark.jvm import JvmError
from penstock.pipeline.spark.master import InvalidMaster, MasterError, require_master
from penstock.pipeline.spark.session import SparkSettings, launch, start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JAVA_EXCEPTION: Final = re.compile(r"^: (?:[\w$]+\.)+[\w$]+: (.+)$", re.MULTILINE)


def conf_of(head: PipelineHead) -> dict[str, str]:
    return {name: _text(value) for name, value in head.spark.items()}


def launch_ahead(spec: PipelineSpec, master: str | None) -> None:
    """Returns at once, so that Java starts while other things are done; `start_spark` then waits for it."""
    with _refusals():
        if master is not None:
            require_master(master)
        launch(_settings(spec, master))


def start_spark(head: PipelineHead, master: str | None) -> SparkSession:
    settings = _settings(head, master)
    if settings.is_local:
        with _refusals():
            return start(settings)
    with _refusals():
        require_master(settings.master or "")
    with _cluster_refusals(settings.master or ""):
        return start(settings)


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
    except InvalidMaster as mistake:
        raise PipelineFailed(f"--master {mistake}", ExitCode.INVALID_PIPELINE) from mistake
    except MasterError as away:
        raise PipelineFailed(f"--master: {away}", ExitCode.ENGINE_LOST, CLUSTER_UNAVAILABLE) from away


@contextmanager
def _cluster_refusals(master: str) -> Iterator[None]:
    """Whatever pyspark raises when a cluster does not take the application: its message holds two stack traces."""
    with _refusals():
        try:
            yield
        except (JavaMissingError, JvmError):
            raise
        except Exception as failure:
            raise PipelineFailed(
                f"--master: Spark did not start on {master}: {_reason(failure)}; check that it is a Spark master of"
                " this version",
                ExitCode.ENGINE_LOST,
                CLUSTER_UNAVAILABLE,
            ) from failure


def _reason(failure: Exception) -> str:
    """py4j says first which call failed, then what Java threw."""
    thrown = _JAVA_EXCEPTION.search(str(failure))
    return thrown[1].rstrip(".") if thrown is not None else classify(failure).line


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
