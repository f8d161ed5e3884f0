"""A Connect cluster as its topics describe it: connectors, task configs, target states, statuses, topics in use.

A state machine without clients: `step` takes a record and returns what it asks of a worker. Every worker steps through
the same records, so all of them have the same view, sooner or later.

Owns the view. It must not know topics, threads or who runs what.

Invariant: task configs of a connector take effect together, with their commit. A commit whose task configs are not all
there (compaction removed some) leaves the connector without task configs; its owner writes them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.connect.herder.herder import TargetState
from penstock.connect.runtime.runner import State
from penstock.connect.storage.config_records import (
    ConfigRecord,
    ConnectorConfig,
    LoggerLevel,
    RestartRequest,
    SessionKey,
    TargetStateChange,
    TaskConfig,
    TaskCount,
    TasksCommit,
)
from penstock.connect.storage.status_records import Status, StatusRecord, TopicUse


@dataclass(frozen=True, slots=True)
class ConnectorChanged:
    """Created, deleted, or with another config or target state: its owner compares, and acts."""

    name: str


Effect: TypeAlias = ConnectorChanged | RestartRequest | LoggerLevel


@dataclass(slots=True)
class ConnectorView:
    """What the config topic says of a connector. `tasks` are in effect, `next_tasks` wait for their commit."""

    config: Mapping[str, str] | None = None
    target: TargetState | None = None
    tasks: tuple[Mapping[str, str], ...] = ()
    next_tasks: dict[int, Mapping[str, str]] = field(default_factory=dict)
    fenced_tasks: int = 0
    """The task count of the last start of a source connector: so many producers have to be fenced (KIP-618)."""


class ClusterView:
    def __init__(self) -> None:
        self._connectors: dict[str, ConnectorView] = {}
        self._statuses: dict[str, dict[int | None, Status]] = {}
        self._topics: dict[str, set[str]] = {}

    # What is there

    def names(self) -> list[str]:
        return [name for name, view in self._connectors.items() if view.config is not None]

    def config(self, name: str) -> Mapping[str, str] | None:
        view = self._connectors.get(name)
        return None if view is None else view.config

    def target(self, name: str) -> TargetState:
        view = self._connectors.get(name)
        return "STARTED" if view is None or view.target is None else view.target

    def task_configs(self, name: str) -> tuple[Mapping[str, str], ...]:
        view = self._connectors.get(name)
        return () if view is None else view.tasks

    def fenced_tasks(self, name: str) -> int:
        view = self._connectors.get(name)
        return 0 if view is None else view.fenced_tasks

    def status(self, name: str, task: int | None = None) -> Status | None:
        return self._statuses.get(name, {}).get(task)

    def statuses(self, name: str) -> Mapping[int | None, Status]:
        return dict(self._statuses.get(name, {}))

    def names_with_status(self) -> list[str]:
        """Also of connectors that were deleted, until their statuses are."""
        return [name for name, statuses in self._statuses.items() if statuses]

    def topics(self, name: str) -> frozenset[str]:
        return frozenset(self._topics.get(name, ()))

    # Records

    def step(self, record: ConfigRecord | StatusRecord) -> tuple[Effect, ...]:
        match record:
            case ConnectorConfig(name, None):
                return self._deleted(name)
            case ConnectorConfig(name, config):
                view = self._view(name)
                # Target states come first for a connector that is created PAUSED or STOPPED: nothing starts between.
                view.config = config
                return (ConnectorChanged(name),)
            case TargetStateChange(name, state):
                view = self._view(name)
                view.target = state
                return (ConnectorChanged(name),) if view.config is not None else ()
            case TaskConfig(name, task, properties):
                self._view(name).next_tasks[task] = properties
            case TasksCommit(name, count):
                self._commit_tasks(self._view(name), count)
            case TaskCount(name, count):
                self._view(name).fenced_tasks = count
            case RestartRequest(name):
                return (record,) if self.config(name) is not None else ()
            case LoggerLevel():
                return (record,)
            case Status(name, task, State.DESTROYED):
                self._statuses.get(name, {}).pop(task, None)
            case Status(name, task):
                self._statuses.setdefault(name, {})[task] = record
            case TopicUse(name, topic, _task, None):
                self._topics.get(name, set()).discard(topic)
            case TopicUse(name, topic):
                self._topics.setdefault(name, set()).add(topic)
            case SessionKey():
                pass
        return ()

    def _view(self, name: str) -> ConnectorView:
        return self._connectors.setdefault(name, ConnectorView())

    def _deleted(self, name: str) -> tuple[Effect, ...]:
        view = self._view(name)
        existed = view.config is not None
        # A later connector of this name must still fence the producers of this one. Its target state has a tombstone
        # of its own; a later connector's may stand before its config.
        view.config, view.tasks, view.next_tasks = None, (), {}
        return (ConnectorChanged(name),) if existed else ()

    @staticmethod
    def _commit_tasks(view: ConnectorView, count: int) -> None:
        complete = all(task in view.next_tasks for task in range(count))
        view.tasks = tuple(view.next_tasks[task] for task in range(count)) if complete else ()
        view.next_tasks = {}
