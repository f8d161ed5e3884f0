"""The small pipelines that are run to record a class archive: they load what real ones load.

A Python source and sink through Arrow, JSON, SQL, a stateful aggregation in RocksDB and a repartitioning: no more than
enough to visit the classes. It must never need a broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

_BATCHES: Final = 3
_PARTITIONS: Final = 2


class _Slice(InputPartition):
    def __init__(self, batch: int) -> None:
        self.batch = batch


class _Reader(DataSourceStreamReader):
    """One batch of two rows for each offset, `_BATCHES` of them."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        return {"batch": 0}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        return {"batch": min(_BATCHES, start["batch"] + 1 if start else 1)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [_Slice(end["batch"]) for _ in range(_PARTITIONS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Slice)
        row = f'{{"id": {partition.batch}, "customer": "c", "amount": 1.5}}'
        yield pa.RecordBatch.from_pydict({"value": pa.array([row.encode()], pa.binary())})


class _Writer(DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        pass

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        pass


class RehearsalSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "penstock_rehearsal"

    def schema(self) -> str:
        return "value BINARY"

    def streamReader(self, schema: StructType) -> _Reader:  # noqa: N802 (Spark's name)
        return _Reader()

    def streamWriter(self, schema: StructType, overwrite: bool) -> _Writer:  # noqa: N802 (Spark's name)
        return _Writer()


def rehearse(scratch: Path) -> None:
    """Starts a session, runs the pipelines, and returns when the JVM has ended."""
    from penstock.pipeline.spark.session import end_jvm, start_session

    spark = start_session("rehearsal")
    try:
        _visit(spark, scratch)
    finally:
        spark.stop()
        end_jvm()


def _visit(spark: SparkSession, scratch: Path) -> None:
    spark.dataSource.register(RehearsalSource)
    source = spark.readStream.format("penstock_rehearsal").load()
    rows = source.selectExpr("from_json(CAST(value AS STRING), 'id BIGINT, customer STRING, amount DOUBLE') AS row")
    rows = rows.select("row.*")
    _run(rows.mapInArrow(_unchanged, rows.schema).repartition(_PARTITIONS, "customer"), "append", scratch / "stateless")
    rows.createOrReplaceTempView("source")
    totals = spark.sql("SELECT customer, sum(amount) AS revenue, count(*) AS n FROM source GROUP BY customer")
    _run(totals, "complete", scratch / "stateful")  # Spark knows no update mode for Python sinks
    spark.range(10).selectExpr("id % 3 AS k", "id AS v").groupBy("k").sum("v").toArrow()


def _unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _run(rows: DataFrame, mode: str, checkpoint: Path) -> None:
    query = (
        rows.writeStream.format("penstock_rehearsal")
        .outputMode(mode)
        .option("checkpointLocation", str(checkpoint))
        .start()
    )
    query.processAllAvailable()
    query.stop()
