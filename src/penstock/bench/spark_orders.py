"""What a Spark process of the benchmark is told to do, and what it tells: the words that both ends share.

Pure: the process that measures must not import Spark.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from penstock.core.guarantee import Guarantee


class Engine(StrEnum):
    """Whose session, source and sink."""

    STOCK = "stock"
    """PySpark as it comes, with Spark's own Kafka connector."""
    PENSTOCK = "penstock"


class Pace(StrEnum):
    """How a query goes on."""

    DRAIN = "drain"
    """Takes what is in the topic, and ends."""
    FOLLOW = "follow"
    """Takes what comes, until it is told to end."""


@dataclass(frozen=True, slots=True)
class Query:
    source_topic: str
    sink_topic: str | None
    """Without it and without a table: Spark's noop sink, all columns."""
    guarantee: Guarantee = "at_least_once"
    rows_per_batch: int | None = None
    """The most that a micro-batch takes."""
    sink_table: str | None = None
    """A table of the database, with columns `key` and `value`."""


@dataclass(frozen=True, slots=True)
class Orders:
    """Queries of one session, one after the other."""

    engine: Engine
    bootstrap_servers: str
    pace: Pace
    queries: tuple[Query, ...]
    database: str | None = None
    """The URL of a PostgreSQL server, for queries into tables."""

    def as_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Orders:
        told: dict[str, Any] = json.loads(text)
        return cls(
            engine=Engine(told["engine"]),
            bootstrap_servers=told["bootstrap_servers"],
            pace=Pace(told["pace"]),
            queries=tuple(Query(**query) for query in told["queries"]),
            database=told["database"],
        )


@dataclass(frozen=True, slots=True)
class Drained:
    """What one query took, and the time of the micro-batches in which it took it."""

    rows: int
    seconds: float
    batches: int


def drained(progress: list[dict[str, Any]]) -> Drained:
    """From what Spark reports of each micro-batch. Batches without rows only say that there are none."""
    full = [batch for batch in progress if batch["numInputRows"]]
    return Drained(
        rows=sum(batch["numInputRows"] for batch in full),
        seconds=sum(batch["durationMs"]["triggerExecution"] for batch in full) / 1000,
        batches=len(full),
    )
