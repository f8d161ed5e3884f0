"""A Spark driver as a process of its own: `python -m penstock.bench.spark_driver ORDERS`.

Owns how each engine's session, source and sink are put together. It must never know what is measured.

One line of JSON on standard output for each query: when it has ended (drain), or when it has been started (follow). A
query that follows ends with the next line on standard input, or with standard input itself. Checkpoints are kept in
the working directory.
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

from penstock.bench.spark_orders import Drained, Engine, Orders, Pace, Query, drained

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def main() -> None:
    orders = Orders.from_json(sys.argv[1])
    spark = _session(orders.engine, database=orders.database is not None)
    try:
        for number, query in enumerate(orders.queries):
            _run(spark, orders, query, os.path.abspath(f"checkpoint-{number}"))
    finally:
        spark.stop()


def _session(engine: Engine, *, database: bool) -> SparkSession:
    if engine is Engine.PENSTOCK:
        from penstock.pipeline.spark.session import start_session

        return start_session("penstock bench")
    from pyspark.sql import SparkSession

    from penstock.testing.spark_connector import connector_conf

    return SparkSession.builder.master("local[*]").config(map={**connector_conf(with_database=database)}).getOrCreate()


def _run(spark: SparkSession, orders: Orders, query: Query, checkpoint: str) -> None:
    rows = _rows(spark, orders, query)
    with ExitStack() as resources:
        writer = _writer(rows, orders, query, checkpoint, resources).option("checkpointLocation", checkpoint)
        if orders.pace is Pace.DRAIN:
            running = writer.trigger(availableNow=True).start()
            running.awaitTermination()
            _tell(dataclasses.asdict(_taken(running)))
        else:
            running = writer.start()
            _tell({"started": query.source_topic})
            sys.stdin.readline()
            running.stop()


def _rows(spark: SparkSession, orders: Orders, query: Query) -> DataFrame:
    source = spark.readStream.format("penstock" if orders.engine is Engine.PENSTOCK else "kafka")
    source = source.options(**_servers(orders), subscribe=query.source_topic, startingOffsets="earliest")
    if query.rows_per_batch is not None:
        source = source.option("maxOffsetsPerTrigger", query.rows_per_batch)
    return source.load()


def _servers(orders: Orders) -> dict[str, str]:
    return {"kafka.bootstrap.servers": orders.bootstrap_servers}


def _writer(rows: DataFrame, orders: Orders, query: Query, checkpoint: str, resources: ExitStack) -> DataStreamWriter:
    records = rows.select("key", "value")
    if query.sink_table is not None:
        assert orders.database is not None
        if orders.engine is Engine.STOCK:
            return records.writeStream.foreachBatch(_stock_table_writer(orders.database, query.sink_table))
        return _our_table_sink(records, orders.database, query, checkpoint, resources)
    if query.sink_topic is None:
        return rows.writeStream.format("noop")
    if orders.engine is Engine.STOCK:
        return records.writeStream.format("kafka").options(**_servers(orders), topic=query.sink_topic)
    options = {**_servers(orders), "topic": query.sink_topic, "guarantee": query.guarantee}
    return _our_topic_sink(records, options, checkpoint)


def _stock_table_writer(database: str, table: str) -> Callable[[DataFrame, int], None]:
    """Spark's JDBC writer: each task inserts its partition in one transaction. A replayed batch is inserted again."""
    from urllib.parse import urlsplit

    place = urlsplit(database)
    assert place.username is not None
    properties = {
        "driver": "org.postgresql.Driver",
        "user": place.username,
        # The driver then sends one INSERT of up to 128 rows, and not one for each: what an expert would set.
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
    from penstock.pipeline.topics.way_of_writing import ready_to_write

    if options["guarantee"] == "exactly_once":
        options["transactionalId"] = f"bench-{options['topic']}"
    records, options = ready_to_write(records, options, Path(checkpoint) / "hand_over")
    return records.writeStream.format("penstock").options(**options)


def _taken(query: StreamingQuery) -> Drained:
    return drained([json.loads(progress.json) for progress in query.recentProgress])


def _tell(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main()
