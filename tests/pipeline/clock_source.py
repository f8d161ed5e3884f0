"""A source of single rows that say when they were made, and a sink that notes when they were committed."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType


class Moment(InputPartition):
    def __init__(self, at_ns: int) -> None:
        self.at_ns = at_ns


class ClockReader(DataSourceStreamReader):
    def __init__(self, partitions: int) -> None:
        self._partitions = partitions

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        return {"ns": 0}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        return {"ns": time.time_ns()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [Moment(end["ns"]) for _ in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Moment)
        yield pa.RecordBatch.from_pydict({"ns": pa.array([partition.at_ns], pa.int64())})


@dataclass
class Written(WriterCommitMessage):
    newest_ns: int
    pid: int
    parent: int
    frozen: int


class ClockWriter(DataSourceStreamArrowWriter):
    def __init__(self, notes: str) -> None:
        self._notes = notes

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        import gc

        newest = max((moment for batch in iterator for moment in batch.column(0).to_pylist()), default=0)
        return Written(newest, os.getpid(), os.getppid(), gc.get_freeze_count())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        written = [message for message in messages if isinstance(message, Written)]
        note = {
            "batch": batchId,
            "newest_ns": max(message.newest_ns for message in written),
            "committed_ns": time.time_ns(),
            "pids": sorted({message.pid for message in written}),
            "parents": sorted({message.parent for message in written}),
            "frozen": min(message.frozen for message in written),
        }
        with open(self._notes, "a", encoding="utf-8") as notes:
            notes.write(json.dumps(note) + "\n")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        pass


class ClockSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "clock"

    def schema(self) -> str:
        return "ns BIGINT"

    def streamReader(self, schema: StructType) -> ClockReader:  # noqa: N802 (Spark's name)
        return ClockReader(int(self.options.get("partitions", "1")))

    def streamWriter(self, schema: StructType, overwrite: bool) -> ClockWriter:  # noqa: N802 (Spark's name)
        return ClockWriter(self.options["notes"])
