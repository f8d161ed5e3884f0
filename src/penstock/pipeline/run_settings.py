"""How a pipeline is run, as opposed to what it is: what the command said, who is told, and when to stop.

A program calls `Pipeline.run()` without any of it; `running_with` lets the command that runs the program say it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.core.metrics import Metrics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Event = Mapping[str, Any]
"""`event` says what happened: starting, started, progress, rows, restarting, stopped; see docs/pipelines.md."""


def ignore(_event: Event) -> None:
    """For who is not interested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    directory: Path = field(default_factory=Path.cwd)  # what relative paths mean
    bootstrap_servers: str | None = None  # for what names no brokers itself; None: the embedded broker
    checkpoint: str | None = None  # instead of the pipeline's own
    master: str | None = None
    once: bool = False
    report: Callable[[Event], None] = ignore  # returns at once
    stop: threading.Event = field(default_factory=threading.Event)  # when set: finish the batch and return
    metrics: Metrics = field(default_factory=Metrics)  # of the process that runs the pipeline
    spark: SparkSession | None = None  # of an engine that hosts the pipeline; None: one of its own


_settings: ContextVar[RunSettings | None] = ContextVar("run settings", default=None)


@contextmanager
def running_with(settings: RunSettings) -> Iterator[None]:
    """Inside, pipelines that are run follow these settings."""
    token = _settings.set(settings)
    try:
        yield
    finally:
        _settings.reset(token)


def current_settings() -> RunSettings | None:
    return _settings.get()
