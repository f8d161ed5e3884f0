"""A driver on a cluster, as a process of its own: copies a topic exactly once, and tells where its tasks have run.

Takes its orders as JSON on the command line and prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.pipeline.spark.session import SparkSettings, start
from penstock.pipeline.topics.row_encoding import repartition_by_target

if TYPE_CHECKING:
    import pyarrow as pa


def main() -> None:
    orders = json.loads(sys.argv[1])
    conf = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        # Of the four that there are: work for two tasks then needs both workers.
        "spark.cores.max": "2",
        # A batch that loses a stage is run again as a whole.
        "spark.stage.maxConsecutiveAttempts": "1",
    }
    spark = start(SparkSettings(name="cluster test", master=orders["master"], conf=conf))
    servers = {"kafka.bootstrap.servers": orders["bootstrap_servers"]}
    rows = spark.read.format("penstock").options(**servers, subscribe=orders["source"]).load()
    places = {row["place"] for row in rows.mapInArrow(_whereabouts, "place string").collect()}

    options = {**servers, "topic": orders["sink"], "guarantee": "exactly_once", "transactionalId": orders["sink"]}
    stream = spark.readStream.format("penstock").options(
        **servers, subscribe=orders["source"], startingOffsets="earliest", maxOffsetsPerTrigger="2500"
    )
    query = (
        repartition_by_target(stream.load().select("key", "value"), options)
        .writeStream.format("penstock")
        .options(**options, checkpointLocation=orders["checkpoint"])
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    batches = sum(1 for progress in query.recentProgress if progress["numInputRows"])
    print(json.dumps({"places": sorted(places), "batches": batches}), flush=True)
    spark.stop()


def _whereabouts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Every executor has a directory of its own."""
    import pyarrow as pa

    for _ in batches:
        yield pa.record_batch({"place": [os.getcwd()]})


if __name__ == "__main__":
    main()
