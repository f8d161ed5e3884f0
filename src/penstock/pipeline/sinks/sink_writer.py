"""The half of a sink that runs: what it checks with Spark, what it prepares, and the writer of the stream.

Owns the interface that `start.py` and `analysis.py` use. A sink finds everything that it may need in `SinkStart`; it
must never reach for the parts of a run in another way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from penstock.pipeline.brokers import Brokers
from penstock.pipeline.checkpoint import Checkpoint
from penstock.pipeline.declaration.spec import PipelineSpec
from penstock.pipeline.declaration.verdicts import KeyPath
from penstock.pipeline.run_settings import RunSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

WriterFactory = Callable[[], "DataStreamWriter"]
"""A new stream writer with each call: a query that failed is started again with another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkStart:
    """Everything that a sink may need to know to start."""

    spec: PipelineSpec
    rows: DataFrame  # with a column DEAD_LETTER if bad rows go to a topic
    mode: str  # Spark's output mode
    run: str  # names this start of the pipeline
    brokers: Brokers
    checkpoint: Checkpoint
    checkpoint_id: str
    settings: RunSettings
    directory: Path  # where functions are looked for
    function: Callable[..., Any] | None  # of a program that passed a function as an object
    resources: ExitStack  # closed when the run ends


class SinkCheck(Protocol):
    """What `penstock validate` offers a sink: its context, and ways to report what is wrong."""

    @property
    def spec(self) -> PipelineSpec: ...

    @property
    def directory(self) -> Path: ...

    @property
    def function(self) -> Callable[..., Any] | None: ...

    def problem(self, path: KeyPath, message: str) -> None: ...

    def expression_type(self, path: KeyPath, frame: DataFrame, expression: str) -> str | None:
        """The type of a SQL expression over the frame's columns; None, and reported, if it has a problem."""
        ...

    def require_columns(self, path: KeyPath, frame: DataFrame, names: Sequence[str]) -> None: ...


class SinkWriter(ABC):
    @abstractmethod
    def prepare(self, start: SinkStart) -> WriterFactory:
        """Once in a run, before the first row: creates what is missing, and takes over from earlier runs.

        Raises PipelineFailed for what cannot be written, and for a checkpoint that does not fit the sink's contents.
        """

    def check_settings(self, check: SinkCheck) -> None:
        """What can be said without the rows."""
        return

    def check_result(self, check: SinkCheck, result: DataFrame) -> None:
        """Whether rows of these columns can be written. `result` is a stream without rows."""
        return
