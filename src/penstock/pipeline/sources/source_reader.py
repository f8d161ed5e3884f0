"""The half of a source that runs: from its settings to the DataFrames that SQL sees.

Owns the interface that runs use. A source finds everything that it may need in `SourceRead`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.pipeline.checkpoint import Checkpoint
from penstock.pipeline.rows.bad_rows import OnBadRow
from penstock.pipeline.rows.transform_guard import TransformGuard

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRead:
    """Everything that a source may need to know to be read."""

    spark: SparkSession
    name: str  # in SQL
    checkpoint: Checkpoint
    on_bad_row: OnBadRow
    kafka: Mapping[str, str]  # client settings of its brokers; empty if it has none
    interval_ms: int = 0  # between the beginnings of micro-batches
    guard: TransformGuard | None = None  # finds rows for which the transform fails
    preview_rows: int | None = (
        None  # the first rows of what exists, as a table; None: a stream, or all of a static source
    )


@dataclass(frozen=True, slots=True)
class SourceRows:
    good: DataFrame
    bad: DataFrame | None = None
    """One column, DEAD_LETTER; None where no row can be bad, or where bad ones do not go to a topic."""
    marked: DataFrame | None = None
    """All rows, with DEAD_LETTER beside the columns; None as above, and where rows are more than parsed."""


class SourceReader(ABC):
    @abstractmethod
    def rows(self, read: SourceRead) -> SourceRows:
        """Raises PipelineFailed, or Spark's exceptions, for what cannot be read."""
