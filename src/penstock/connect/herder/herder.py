"""What the REST API asks of a worker: Kafka Connect's Herder, without threads and topics.

Its methods may block for as long as topics need to answer; the REST API calls them in threads. Errors are
`ConnectRestError`s with Kafka Connect's status code and message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

TargetState = Literal["STARTED", "PAUSED", "STOPPED"]
ConnectorType = Literal["source", "sink", "unknown"]


class ConnectRestError(Exception):
    """`status` is the HTTP status, which Kafka Connect repeats as `error_code` in the body."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class ConnectorInfo:
    name: str
    config: Mapping[str, str]
    tasks: Sequence[tuple[str, int]]
    type: ConnectorType


@dataclass(frozen=True, slots=True)
class TaskState:
    id: int
    state: str
    worker_id: str
    trace: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    version: str | None = None
    """Of the connector's class, as Kafka Connect 4.3 shows it."""


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    name: str
    state: str
    worker_id: str
    tasks: Sequence[TaskState]
    type: ConnectorType
    trace: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    version: str | None = None
    """Of the plugin (KIP-891)."""


@dataclass(frozen=True, slots=True)
class Plugin:
    class_name: str
    type: Literal["source", "sink", "converter", "header_converter", "transformation", "predicate"]
    version: str | None = None


class Herder(Protocol):
    def server_info(self) -> Mapping[str, str]:
        """`version`, `commit`, `kafka_cluster_id`."""
        ...

    def health(self) -> tuple[int, str, str]:
        """HTTP status, `healthy`, `starting` or `unhealthy`, and a message (KIP-1017)."""
        ...

    def connectors(self) -> Sequence[str]: ...

    def connector(self, name: str) -> ConnectorInfo: ...

    def create(self, name: str, config: Mapping[str, str], target: TargetState = "STARTED") -> ConnectorInfo:
        """409 if it exists; 400 with the number of errors if the configuration is invalid."""
        ...

    def put_config(self, name: str, config: Mapping[str, str]) -> tuple[bool, ConnectorInfo]:
        """Creates or replaces; whether it was created."""
        ...

    def patch_config(self, name: str, patch: Mapping[str, str | None]) -> ConnectorInfo: ...

    def delete(self, name: str) -> None: ...

    def status(self, name: str) -> ConnectorStatus: ...

    def task_configs(self, name: str) -> Sequence[Mapping[str, str]]: ...

    def restart_connector(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorStatus: ...

    def restart_task(self, name: str, task: int) -> None: ...

    def set_target_state(self, name: str, target: TargetState) -> None: ...

    def topics(self, name: str) -> Sequence[str]: ...

    def reset_topics(self, name: str) -> None: ...

    def offsets(self, name: str) -> Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]:
        """Pairs of partition and offset as Kafka Connect shows them (KIP-875)."""
        ...

    def alter_offsets(
        self, name: str, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> str: ...

    def reset_offsets(self, name: str) -> str: ...

    def plugins(self, *, connectors_only: bool) -> Sequence[Plugin]: ...

    def plugin_config(self, plugin: str) -> Sequence[Mapping[str, Any]]:
        """The definitions of a plugin's properties, as JSON."""
        ...

    def validate(self, plugin: str, config: Mapping[str, str]) -> Mapping[str, Any]:
        """`name`, `error_count`, `groups`, `configs`: as Kafka Connect answers."""
        ...

    def logger_level(self, logger: str) -> Mapping[str, Any] | None: ...

    def logger_levels(self) -> Mapping[str, Mapping[str, Any]]: ...

    def set_logger_level(self, logger: str, level: str, *, in_cluster: bool) -> Sequence[str]: ...
