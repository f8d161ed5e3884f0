"""Rows per second of queries over all records of a topic, each after a smaller discarded one.

Owns the order of a turn: it fills topics, runs all queries in one Spark process, and counts the rows at the end;
missing rows are a failure. It must not know what its figures are compared with.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal

from penstock.bench.measurement import MeasurementError, Workbench
from penstock.bench.peers import PENSTOCK, Contestant
from penstock.bench.sizes import Sizes
from penstock.bench.spark.process import SparkProcess, driver_command
from penstock.bench.spark.tables import create_table, rows_of, running_database
from penstock.bench.spark.topics import committed_rows, fill
from penstock.bench.spark.workload import Engine, Mode, Query, QueryResult, Workload
from penstock.bench.topics import create_topic
from penstock.core.guarantee import Guarantee

# Several, because the first micro-batch of a query also starts processes.
_BATCHES = 4


@dataclass(frozen=True, slots=True)
class Flow:
    """Rows of one size, and their sink."""

    row_bytes: int
    into: Literal["noop", "topic", "table"]
    guarantee: Guarantee = "at_least_once"

    @property
    def label(self) -> str:
        return f"{self.row_bytes} B" if self.row_bytes < 1000 else f"{self.row_bytes // 1000} KB"


def engine_of(contestant: Contestant) -> Engine:
    return Engine.PENSTOCK if contestant.name == PENSTOCK else Engine.STOCK


def rows_per_second(
    contestant: Contestant, flows: Sequence[Flow], sizes: Sizes, workbench: Workbench
) -> dict[int, float]:
    """The figures by row size."""
    with contestant.fresh(workbench.data_parent) as peer, _database_of(flows, workbench) as database:
        servers = peer.bootstrap_servers
        queries: list[Query] = []
        expected: list[int] = []
        for flow in flows:
            for share, prefix in ((sizes.warm_up_share, "warm_up_"), (1.0, "")):
                workbench.tell(f"filling a topic with rows of {flow.label}")
                source, sink = f"{prefix}in_{flow.row_bytes}", f"{prefix}out_{flow.row_bytes}"
                rows = fill(
                    servers,
                    source,
                    partitions=sizes.spark_partition_count,
                    row_bytes=flow.row_bytes,
                    rows=int(sizes.spark_row_count(flow.row_bytes) * share),
                    time_limit_s=sizes.time_limit_s,
                )
                if flow.into == "topic":
                    create_topic(servers, sink, sizes.time_limit_s, sizes.spark_partition_count)
                if flow.into == "table":
                    create_table(database, sink)
                queries.append(
                    Query(
                        source,
                        sink if flow.into == "topic" else None,
                        flow.guarantee,
                        rows_per_batch=-(-rows // _BATCHES),
                        sink_table=sink if flow.into == "table" else None,
                    )
                )
                expected.append(rows)
        workload = Workload(engine_of(contestant), servers, Mode.AVAILABLE_NOW, tuple(queries), database or None)
        taken: list[QueryResult] = []
        with SparkProcess(driver_command(workload), workbench.data_parent) as spark:
            for query in queries:
                workbench.tell(query.source_topic)
                taken.append(QueryResult(**spark.next_line(sizes.time_limit_s)))
        for query, rows, its in zip(queries, expected, taken, strict=True):
            _require(query.source_topic, its.rows, rows)
            if query.sink_topic is not None:
                workbench.tell(f"counting {query.sink_topic}")
                partitions = sizes.spark_partition_count
                found = committed_rows(servers, query.sink_topic, partitions, sizes.time_limit_s)
                _require(query.sink_topic, found, rows)
            if query.sink_table is not None:
                workbench.tell(f"counting {query.sink_table}")
                _require(query.sink_table, rows_of(database, query.sink_table), rows)
    measured = taken[1::2]
    return {flow.row_bytes: its.rows / its.seconds for flow, its in zip(flows, measured, strict=True)}


def _database_of(flows: Sequence[Flow], workbench: Workbench) -> AbstractContextManager[str]:
    """The URL of a new database for this turn, if one is needed."""
    return running_database(workbench.data_parent) if any(flow.into == "table" for flow in flows) else nullcontext("")


def _require(place: str, found: int, expected: int) -> None:
    if found != expected:
        raise MeasurementError(f"{place}: {found:,} rows instead of {expected:,}")
