"""What runs connectors for a worker. The herder knows this interface, and nothing of Spark behind it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from penstock.connect.connector import SourceOffset, SourcePartition
from penstock.core.ids import TopicPartition


class State(Enum):
    """Of a connector or a task, as Kafka Connect's REST API names it."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    DESTROYED = "DESTROYED"


@dataclass(frozen=True, slots=True)
class Report:
    """Something to show. `task` is None for the connector itself; `trace` is for FAILED and RESTARTING."""

    state: State
    task: int | None = None
    trace: str | None = None
    details: Mapping[str, Any] | None = None
    """RESTARTING: `attempt`, `cause`, `condition`, `next_attempt_ms`. RUNNING: records, lag."""


@dataclass(frozen=True, slots=True)
class Execution:
    """One life of a connector on this worker. `config` has its secrets resolved."""

    name: str
    config: Mapping[str, str]
    task_count: int
    report: Callable[[Report], None]
    stop: threading.Event
    """When set: finish or abandon the job, and return."""
    topics_used: Callable[[Sequence[str]], None] = lambda _topics: None
    """For `GET /connectors/NAME/topics` (KIP-558)."""


SinkOffsets = Mapping[TopicPartition, int]
SourceOffsets = Sequence[tuple[SourcePartition, SourceOffset]]


class Runner(Protocol):
    def run(self, execution: Execution) -> None:
        """Runs it in the calling thread until it is stopped, or until a person has to act (then it reports FAILED).

        What may pass is tried again with backoff, and reported as RESTARTING. It never raises for a failure of the
        connector.
        """
        ...

    def task_count(self, name: str, config: Mapping[str, str]) -> int:
        """How many tasks it will have: at most `tasks.max`."""
        ...

    def fence(self, name: str, config: Mapping[str, str], task_count: int) -> None:
        """No earlier run of a source connector can commit anything more (KIP-618). Nothing to do for a sink."""
        ...

    def offsets(self, name: str, config: Mapping[str, str]) -> SinkOffsets | SourceOffsets:
        """What is committed, by a consumer group, a ledger or the offsets topic."""
        ...

    def alter_offsets(
        self,
        name: str,
        config: Mapping[str, str],
        offsets: Mapping[TopicPartition, int | None] | Sequence[tuple[SourcePartition, SourceOffset | None]] | None,
    ) -> str:
        """Of a stopped connector. None in place of all offsets: reset them. Returns the message for the REST answer."""
        ...
