"""A herder in memory, with the rules of Kafka Connect's: for tests of REST and of what is built on it.

Connectors run as soon as they are created, and move nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.connect.connector import ConnectError
from penstock.connect.herder.herder import (
    ConnectorInfo,
    ConnectorStatus,
    ConnectRestError,
    Plugin,
    TargetState,
    TaskState,
)
from penstock.connect.worker_plugins import WorkerPlugins

WORKER_ID = "127.0.0.1:8083"
Offsets = Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
_STATES: Mapping[TargetState, str] = {"STARTED": "RUNNING", "PAUSED": "PAUSED", "STOPPED": "STOPPED"}


@dataclass
class FakeConnector:
    config: dict[str, str]
    target: TargetState
    has_tasks: bool
    offsets: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = field(default_factory=dict)
    failure: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


class FakeHerder:
    def __init__(self, plugins: WorkerPlugins) -> None:
        self._plugins = plugins
        self.running: dict[str, FakeConnector] = {}
        self.levels: dict[str, str] = {"root": "INFO"}
        self.level_changes: dict[str, int] = {}
        self.now_ms = 1_700_000_000_000
        self.state_of_worker = (200, "healthy", "Worker has completed startup and is ready to handle requests.")

    def server_info(self) -> Mapping[str, str]:
        return {"version": "4.3.1", "commit": "unknown", "kafka_cluster_id": "cluster"}

    def health(self) -> tuple[int, str, str]:
        return self.state_of_worker

    def connectors(self) -> Sequence[str]:
        return sorted(self.running)

    def connector(self, name: str) -> ConnectorInfo:
        found = self._find(name)
        return self._info(name, found, [(name, 0)] if found.has_tasks else [])

    def create(self, name: str, config: Mapping[str, str], target: TargetState = "STARTED") -> ConnectorInfo:
        self._plugins.refuse_if_invalid(config)
        if name in self.running:
            raise ConnectRestError(409, f"Connector {name} already exists")
        # A connector that never ran has no tasks, as in Kafka Connect.
        self.running[name] = FakeConnector(dict(config), target, target == "STARTED")
        return self._info(name, self.running[name], [])

    def put_config(self, name: str, config: Mapping[str, str]) -> tuple[bool, ConnectorInfo]:
        self._plugins.refuse_if_invalid(config)
        if name not in self.running:
            return True, self.create(name, config)
        self.running[name].config = dict(config)
        return False, self.connector(name)

    def patch_config(self, name: str, patch: Mapping[str, str | None]) -> ConnectorInfo:
        merged = {**self._find(name).config, **patch}
        return self.put_config(name, {key: value for key, value in merged.items() if value is not None})[1]

    def delete(self, name: str) -> None:
        self._find(name)
        del self.running[name]

    def status(self, name: str) -> ConnectorStatus:
        if name not in self.running:
            raise ConnectRestError(404, f"No status found for connector {name}")
        return self._status(name, self.running[name], _STATES[self.running[name].target])

    def task_configs(self, name: str) -> Sequence[Mapping[str, str]]:
        found = self._find(name)
        return [found.config] if found.has_tasks else []

    def restart_connector(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorStatus:
        found = self._find_to_restart(name)
        if only_failed and found.failure is None:
            return self.status(name)
        found.failure = None
        return self._status(name, found, "RESTARTING")

    def restart_task(self, name: str, task: int) -> None:
        found = self._find_to_restart(name)
        if task != 0 or not found.has_tasks:
            raise ConnectRestError(404, f"Unknown task: {name}-{task}")
        found.failure = None

    def set_target_state(self, name: str, target: TargetState) -> None:
        if name not in self.running:
            raise ConnectRestError(404, f"Unknown connector {name}")
        found = self.running[name]
        found.target = target
        found.has_tasks = target == "STARTED" or (found.has_tasks and target == "PAUSED")

    def topics(self, name: str) -> Sequence[str]:
        return []

    def reset_topics(self, name: str) -> None:
        return None

    def offsets(self, name: str) -> Offsets:
        return [*self._find(name).offsets.values()]

    def alter_offsets(self, name: str, offsets: Offsets) -> str:
        found = self._find_stopped(name)
        if self._plugins.connector_type(found.config) == "source":
            implementation = self._plugins.registry.load("Connector", found.config["connector.class"]).implementation
            try:
                implementation.check_offsets(found.config, offsets)
            except ConnectError as refused:
                raise ConnectRestError(500, str(refused)) from None
        else:
            for partition, offset in offsets:
                _check_sink_offset(partition, offset)
        for partition, offset in offsets:
            found.offsets.pop(str(sorted(partition.items())), None)
            if offset is not None:
                found.offsets[str(sorted(partition.items()))] = (partition, offset)
        return "The offsets for this connector have been altered successfully"

    def reset_offsets(self, name: str) -> str:
        self._find_stopped(name).offsets.clear()
        return "The offsets for this connector have been reset successfully"

    def plugins(self, *, connectors_only: bool) -> Sequence[Plugin]:
        return self._plugins.list_plugins(connectors_only=connectors_only)

    def plugin_config(self, plugin: str) -> Sequence[Mapping[str, Any]]:
        return self._plugins.plugin_config(plugin)

    def validate(self, plugin: str, config: Mapping[str, str]) -> Mapping[str, Any]:
        return self._plugins.validate(plugin, config)

    def logger_level(self, logger: str) -> Mapping[str, Any] | None:
        return self.logger_levels().get(logger)

    def logger_levels(self) -> Mapping[str, Mapping[str, Any]]:
        return {
            name: {"level": level, "last_modified": self.level_changes.get(name)} for name, level in self.levels.items()
        }

    def set_logger_level(self, logger: str, level: str, *, in_cluster: bool) -> Sequence[str]:
        names = {logger, *(name for name in self.levels if name.startswith(f"{logger}."))}
        changed = sorted(name for name in names if self.levels.get(name) != level)
        for name in changed:
            self.levels[name] = level
            self.level_changes[name] = self.now_ms
        return changed

    # What a test does

    def fail(self, name: str, trace: str) -> None:
        self.running[name].failure = trace

    def _find(self, name: str) -> FakeConnector:
        if name not in self.running:
            raise ConnectRestError(404, f"Connector {name} not found")
        return self.running[name]

    def _find_to_restart(self, name: str) -> FakeConnector:
        if name not in self.running:
            raise ConnectRestError(404, f"Unknown connector: {name}")
        return self.running[name]

    def _find_stopped(self, name: str) -> FakeConnector:
        found = self._find(name)
        if found.target != "STOPPED":
            raise ConnectRestError(
                400,
                "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the"
                f" specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint",
            )
        return found

    def _info(self, name: str, found: FakeConnector, tasks: list[tuple[str, int]]) -> ConnectorInfo:
        return ConnectorInfo(name, found.config, tasks, self._plugins.connector_type(found.config))

    def _status(self, name: str, found: FakeConnector, state: str) -> ConnectorStatus:
        version = self._plugins.connector_version(found.config)
        if found.failure is not None:
            state = "FAILED"
        task = TaskState(0, state, WORKER_ID, found.failure, found.details, version)
        return ConnectorStatus(
            name,
            state,
            WORKER_ID,
            [task] if found.has_tasks else [],
            self._plugins.connector_type(found.config),
            found.failure,
            found.details,
            version,
        )


def _check_sink_offset(partition: Mapping[str, Any], offset: Mapping[str, Any] | None) -> None:
    if "kafka_topic" not in partition or "kafka_partition" not in partition:
        raise ConnectRestError(
            400, "The partition for a sink connector offset must contain the keys 'kafka_topic' and 'kafka_partition'"
        )
    if offset is None:
        return
    if "kafka_offset" not in offset:
        raise ConnectRestError(
            400, "The offset for a sink connector should either be null or contain the key 'kafka_offset'"
        )
    if not str(offset["kafka_offset"]).isdigit():
        raise ConnectRestError(
            400,
            "Failed to parse the following Kafka offset value in the provided offsets:"
            f" '{offset['kafka_offset']}'. Offset values for sink connectors need to be integers.",
        )
