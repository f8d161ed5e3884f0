"""A Spark driver in its own process: `python -m penstock.bench.spark.driver WORKLOAD`.

Owns each engine's session, source and sink. It must not know what is measured.

It prints one line of JSON per query to stdout: after the query has ended (available_now), or after it has started
(until_stopped). A query that runs until stopped ends with the next line on stdin, or with the end of stdin. Checkpoints
are in the working directory.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.bench.spark.workload import Engine, Mode, Query, QueryResult, Workload, query_result

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def main() -> None:
    workload = Workload.from_json(sys.argv[1])
    spark = _session(workload.engine, database=workload.database is not None)
    try:
        for number, query in enumerate(workload.queries):
            _run(spark, workload, query, os.path.abspath(f"checkpoint-{number}"))
    finally:
        spark.stop()


def _session(engine: Engine, *, database: bool) -> SparkSession:
    if engine is Engine.PENSTOCK:
        from penstock.pipeline.spark.session import start_session

        return start_session("penstock bench")
    from pyspark.sql import SparkSession

    from penstock.testing.spark_connector import connector_conf

    return SparkSession.builder.master("local[*]").config(map={**connector_conf(with_database=database)}).getOrCreate()


def _run(spark: SparkSession, workload: Workload, query: Query, checkpoint: str) -> None:
    rows = _rows(spark, workload, query)
    with ExitStack() as resources:
        writer = _writer(rows, workload, query, checkpoint, resources).option("checkpointLocation", checkpoint)
        if workload.mode is Mode.AVAILABLE_NOW:
            running = writer.trigger(availableNow=True).start()
            running.awaitTermination()
            _tell(dataclasses.asdict(_taken(running)))
        else:
            running = writer.start()
            _tell({"started": query.source_topic})
            sys.stdin.readline()
            running.stop()


def _rows(spark: SparkSession, workload: Workload, query: Query) -> DataFrame:
    source = spark.readStream.format("penstock" if workload.engine is Engine.PENSTOCK else "kafka")
    source = source.options(**_servers(workload), subscribe=query.source_topic, startingOffsets="earliest")
    if query.rows_per_batch is not None:
        source = source.option("maxOffsetsPerTrigger", query.rows_per_batch)
    return source.load()


def _servers(workload: Workload) -> dict[str, str]:
    return {"kafka.bootstrap.servers": workload.bootstrap_servers}


def _writer(
    rows: DataFrame, workload: Workload, query: Query, checkpoint: str, resources: ExitStack
) -> DataStreamWriter:
    records = rows.select("key", "value")
    if query.sink_table is not None:
        assert workload.database is not None
        if workload.engine is Engine.STOCK:
            return records.writeStream.foreachBatch(_stock_table_writer(workload.database, query.sink_table))
        return _our_table_sink(records, workload.database, query, checkpoint, resources)
    if query.sink_topic is None:
        return rows.writeStream.format("noop")
    if workload.engine is Engine.STOCK:
        return records.writeStream.format("kafka").options(**_servers(workload), topic=query.sink_topic)
    options = {**_servers(workload), "topic": query.sink_topic, "guarantee": query.guarantee}
    return _our_topic_sink(records, options, checkpoint)


def _stock_table_writer(database: str, table: str) -> Callable[[DataFrame, int], None]:
    """Spark's JDBC writer: each task inserts its partition in one transaction; a replayed batch is inserted again."""
    from urllib.parse import urlsplit

    place = urlsplit(database)
    assert place.username is not None
    properties = {
        "driver": "org.postgresql.Driver",
        "user": place.username,
        # The driver then sends one INSERT for up to 128 rows, as an expert would configure it.
        "reWriteBatchedInserts": "true",
    }
    url = f"jdbc:postgresql://{place.hostname}:{place.port}{place.path}"

    def write(batch: DataFrame, _batch_id: int) -> None:
        batch.write.jdbc(url, table, mode="append", properties=properties)

    return write


def _our_table_sink(
    records: DataFrame, database: str, query: Query, checkpoint: str, resources: ExitStack
) -> DataStreamWriter:
    from uuid import uuid4

    from penstock.pipeline.sinks.table.data_source import FORMAT, PenstockTable
    from penstock.pipeline.sinks.table.preparation import claim, prepare
    from penstock.pipeline.sinks.table.row_receiver import with_row_receiver
    from penstock.pipeline.sinks.table.target import TableTarget

    assert query.sink_table is not None
    target = TableTarget(
        url=database,
        table=query.sink_table,
        mode="append",
        pipeline=f"bench-{query.sink_table}",
        run=uuid4().hex,
        guarantee=query.guarantee,
        checkpoint=checkpoint,
    )
    prepare(target, records.schema)
    claim(target, records.schema)
    records.sparkSession.dataSource.register(PenstockTable)
    target = with_row_receiver(target, records, resources)
    return records.writeStream.format(FORMAT).options(**target.options())


def _our_topic_sink(records: DataFrame, options: dict[str, str], checkpoint: str) -> DataStreamWriter:
    from penstock.pipeline.topics.row_encoding import ready_to_write

    if options["guarantee"] == "exactly_once":
        options["transactionalId"] = f"bench-{options['topic']}"
    records, options = ready_to_write(records, options, Path(checkpoint) / "hand_over")
    return records.writeStream.format("penstock").options(**options)


def _taken(query: StreamingQuery) -> QueryResult:
    return query_result([json.loads(progress.json) for progress in query.recentProgress])


def _tell(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main()
