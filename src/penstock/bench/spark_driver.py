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
from typing import TYPE_CHECKING, Any

from penstock.bench.spark_orders import Drained, Engine, Orders, Pace, Query, drained

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def main() -> None:
    orders = Orders.from_json(sys.argv[1])
    spark = _session(orders.engine)
    try:
        for number, query in enumerate(orders.queries):
            _run(spark, orders, query, os.path.abspath(f"checkpoint-{number}"))
    finally:
        spark.stop()


def _session(engine: Engine) -> SparkSession:
    if engine is Engine.PENSTOCK:
        from penstock.pipeline.spark.session import start_session

        return start_session("penstock bench")
    from pyspark.sql import SparkSession

    from penstock.testing.spark_connector import connector_conf

    return SparkSession.builder.master("local[*]").config(map={**connector_conf()}).getOrCreate()


def _run(spark: SparkSession, orders: Orders, query: Query, checkpoint: str) -> None:
    writer = _writer(spark, orders, query).option("checkpointLocation", checkpoint)
    if orders.pace is Pace.DRAIN:
        running = writer.trigger(availableNow=True).start()
        running.awaitTermination()
        _tell(dataclasses.asdict(_taken(running)))
    else:
        running = writer.start()
        _tell({"started": query.source_topic})
        sys.stdin.readline()
        running.stop()


def _writer(spark: SparkSession, orders: Orders, query: Query) -> DataStreamWriter:
    servers = {"kafka.bootstrap.servers": orders.bootstrap_servers}
    source = spark.readStream.format("penstock" if orders.engine is Engine.PENSTOCK else "kafka")
    source = source.options(**servers, subscribe=query.source_topic, startingOffsets="earliest")
    if query.rows_per_batch is not None:
        source = source.option("maxOffsetsPerTrigger", query.rows_per_batch)
    rows = source.load()
    if query.sink_topic is None:
        return rows.writeStream.format("noop")
    records = rows.select("key", "value")
    if orders.engine is Engine.STOCK:
        return records.writeStream.format("kafka").options(**servers, topic=query.sink_topic)
    return _our_sink(records, {**servers, "topic": query.sink_topic, "guarantee": query.guarantee})


def _our_sink(records: DataFrame, options: dict[str, str]) -> DataStreamWriter:
    if options["guarantee"] == "exactly_once":
        from penstock.pipeline.topics.row_encoding import arranged

        options["transactionalId"] = f"bench-{options['topic']}"
        records = arranged(records, options)
    return records.writeStream.format("penstock").options(**options)


def _taken(query: StreamingQuery) -> Drained:
    return drained([json.loads(progress.json) for progress in query.recentProgress])


def _tell(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main()
