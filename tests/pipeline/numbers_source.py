"""A stream of the numbers 0, 1, 2, ...: so many in all, so many a batch, the same rows in every replay of a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType


class Range(InputPartition):
    def __init__(self, first: int, end: int) -> None:
        self.first = first
        self.end = end


class NumbersReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, count: int, per_batch: int, partitions: int) -> None:
        self._count = count
        self._per_batch = per_batch
        self._partitions = partitions

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 (Spark's name)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark's name)
        pass

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        return {"next": 0}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        return {"next": min(int(start["next"]) + self._per_batch, self._count)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        edges = np.linspace(start["next"], end["next"], self._partitions + 1).astype(int).tolist()
        return [Range(first, last) for first, last in pairwise(edges)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Range)
        for first in range(partition.first, partition.end, 10_000):
            numbers = pa.array(range(first, min(first + 10_000, partition.end)), pa.int64())
            yield pa.RecordBatch.from_arrays([numbers], names=["id"])


class NumbersSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "numbers"

    def schema(self) -> str:
        return "id BIGINT"

    def streamReader(self, schema: StructType) -> NumbersReader:  # noqa: N802 (Spark's name)
        return NumbersReader(
            int(self.options["count"]), int(self.options["per_batch"]), int(self.options.get("partitions", "2"))
        )
