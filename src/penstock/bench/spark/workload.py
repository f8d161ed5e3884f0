"""The workload of a Spark process and its results, as both sides exchange them in JSON.

Pure: the measuring process must not import Spark.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from penstock.core.guarantee import Guarantee


class Engine(StrEnum):
    """The engine whose session, source and sink are used."""

    STOCK = "stock"
    """Stock PySpark with Spark's own Kafka connector."""
    PENSTOCK = "penstock"


class Mode(StrEnum):
    """When a query ends."""

    AVAILABLE_NOW = "available_now"
    """Processes all available records and ends."""
    UNTIL_STOPPED = "until_stopped"
    """Runs until it is stopped."""


@dataclass(frozen=True, slots=True)
class Query:
    source_topic: str
    sink_topic: str | None
    """Without it and without a table: Spark's noop sink with all columns."""
    guarantee: Guarantee = "at_least_once"
    rows_per_batch: int | None = None
    """The maximum number of rows per micro-batch."""
    sink_table: str | None = None
    """A table of the database with the columns `key` and `value`."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The queries of one session, run one after the other."""

    engine: Engine
    bootstrap_servers: str
    mode: Mode
    queries: tuple[Query, ...]
    database: str | None = None
    """The URL of a PostgreSQL server, for queries into tables."""

    def as_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Workload:
        told: dict[str, Any] = json.loads(text)
        return cls(
            engine=Engine(told["engine"]),
            bootstrap_servers=told["bootstrap_servers"],
            mode=Mode(told["mode"]),
            queries=tuple(Query(**query) for query in told["queries"]),
            database=told["database"],
        )


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The rows of one query, and the duration of its micro-batches."""

    rows: int
    seconds: float
    batches: int


def query_result(progress: list[dict[str, Any]]) -> QueryResult:
    """From Spark's progress reports, without empty micro-batches."""
    full = [batch for batch in progress if batch["numInputRows"]]
    return QueryResult(
        rows=sum(batch["numInputRows"] for batch in full),
        seconds=sum(batch["durationMs"]["triggerExecution"] for batch in full) / 1000,
        batches=len(full),
    )
