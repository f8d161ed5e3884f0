"""A worker's answers to the REST API, whether it is alone or one of many: Kafka Connect's AbstractHerder.

Every answer comes from the view of the cluster, and every change is a transaction on the config table. Which connectors
run here follows from both (`executions.py`).

Owns the view, and the order in which the parts of a worker start and stop. It must not know topics, groups or Spark.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.connect.herder.cluster_view import ClusterView, ConnectorChanged, Effect
from penstock.connect.herder.connector_offsets import ConnectorOffsets, RestOffsets, existing_config
from penstock.connect.herder.execution import WorkerParts
from penstock.connect.herder.executions import Executions
from penstock.connect.herder.herder import (
    ConnectorInfo,
    ConnectorStatus,
    ConnectorType,
    ConnectRestError,
    Plugin,
    TargetState,
    TaskState,
)
from penstock.connect.herder.loggers import Loggers
from penstock.connect.herder.ownership import Ownership
from penstock.connect.herder.plugins_interface import Plugins
from penstock.connect.herder.status_writer import StatusWriter
from penstock.connect.runtime.runner import Runner, State
from penstock.connect.storage import config_records, status_records
from penstock.connect.storage.config_records import (
    ConfigRecord,
    ConnectorConfig,
    LoggerLevel,
    RestartRequest,
    TargetStateChange,
    TasksCommit,
)
from penstock.connect.storage.json_values import KeyValue
from penstock.connect.storage.status_records import TopicUse
from penstock.connect.storage.table import Table

_log = logging.getLogger(__name__)

_REBALANCING: Final = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
_HEALTHY: Final = (200, "healthy", "Worker has completed startup and is ready to handle requests.")
_UNHEALTHY: Final = (
    500,
    "unhealthy",
    "Worker was unable to handle this request and may be unable to handle other requests.",
)
_STARTING: Final = (503, "starting", "Worker is still starting up.")


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """`worker_id` is the advertised host and port of the REST API, as in Kafka Connect."""

    worker_id: str
    version: str
    commit: str = "unknown"
    kafka_cluster_id: str = ""
    tracks_topics: bool = True
    allows_topics_reset: bool = True


class WorkerHerder:
    """Implements `Herder`. `start` returns when every record of the tables is read."""

    def __init__(
        self,
        settings: WorkerSettings,
        configs: Table,
        statuses: Table,
        ownership: Ownership,
        runner: Runner,
        plugins: Plugins,
    ) -> None:
        self._settings = settings
        self._configs = configs
        self._statuses = statuses
        self._ownership = ownership
        self._plugins = plugins
        self._view = ClusterView()
        self._view_lock = threading.RLock()
        self._view_changed = threading.Condition(self._view_lock)
        self._status_writer = StatusWriter(statuses)
        self._loggers = Loggers()
        parts = WorkerParts(
            settings.worker_id,
            self._view,
            self._view_lock,
            configs,
            self._status_writer,
            runner,
            plugins.resolve,
            plugins.connector_type,
            plugins.connector_version,
            settings.tracks_topics,
        )
        self._executions = Executions(parts, ownership)
        self._offsets = ConnectorOffsets(self._view, self._view_changed, configs, runner, plugins, self._require_owner)
        self._is_started = False

    def start(self) -> None:
        """Raises ConnectError if a topic is unsuitable; nothing runs then."""
        try:
            self._statuses.start(self._status_records)
            self._configs.start(self._config_records)
        except BaseException:
            self._configs.stop()
            self._statuses.stop()
            raise
        self._is_started = True
        self._status_writer.start()
        self._executions.start()
        self._ownership.start(self._executions.is_released, self._executions.look)

    def stop(self) -> None:
        """Stops the connectors of this worker, and leaves the group only then."""
        self._executions.stop()
        self._status_writer.stop()
        self._ownership.stop()
        self._configs.stop()
        self._statuses.stop()

    # Records

    def _config_records(self, records: Sequence[KeyValue]) -> None:
        self._step([config_records.decode(key, value) for key, value in records])

    def _status_records(self, records: Sequence[KeyValue]) -> None:
        self._step([status_records.decode(key, value) for key, value in records])

    def _step(self, records: Sequence[ConfigRecord | status_records.StatusRecord | None]) -> None:
        effects: list[Effect] = []
        with self._view_changed:
            for record in records:
                if record is not None:
                    effects += self._view.step(record)
            self._view_changed.notify_all()
        # Requests of the past are not repeated by a worker that starts.
        for effect in effects if self._is_started else ():
            match effect:
                case RestartRequest():
                    self._executions.restart(effect)
                case LoggerLevel(logger, level):
                    self._apply_level(logger, level)
                case ConnectorChanged():
                    self._executions.look()

    def _apply_level(self, logger: str, level: str) -> None:
        try:
            self._loggers.set_level(logger, level)
        except ConnectRestError as error:
            _log.warning("logger %s: %s", logger, error)

    def _change(self, decide: Callable[[], Sequence[ConfigRecord]]) -> None:
        def encoded() -> Sequence[KeyValue]:
            with self._view_lock:
                return [config_records.encode(record) for record in decide()]

        self._configs.transact(encoded)

    # The worker

    def server_info(self) -> Mapping[str, str]:
        settings = self._settings
        return {
            "version": settings.version,
            "commit": settings.commit,
            "kafka_cluster_id": settings.kafka_cluster_id,
        }

    def health(self) -> tuple[int, str, str]:
        if not self._is_started:
            return _STARTING
        return _HEALTHY if self._configs.is_reachable and self._statuses.is_reachable else _UNHEALTHY

    def logger_level(self, logger: str) -> Mapping[str, Any] | None:
        return self._loggers.level(logger)

    def logger_levels(self) -> Mapping[str, Mapping[str, Any]]:
        return self._loggers.levels()

    def set_logger_level(self, logger: str, level: str, *, in_cluster: bool) -> Sequence[str]:
        if not in_cluster:
            return self._loggers.set_level(logger, level)
        self._configs.write([config_records.encode(LoggerLevel(logger, level))])
        return ()

    # Connectors

    def connectors(self) -> Sequence[str]:
        with self._view_lock:
            return self._view.names()

    def connector(self, name: str) -> ConnectorInfo:
        with self._view_lock:
            config = self._existing(name)
            tasks = [(name, task) for task in range(len(self._view.task_configs(name)))]
            return ConnectorInfo(name, config, tasks, self._type(config))

    def create(self, name: str, config: Mapping[str, str], target: TargetState = "STARTED") -> ConnectorInfo:
        complete = _with_name(name, config)
        self._require_valid(complete)

        def decide() -> Sequence[ConfigRecord]:
            if self._view.config(name) is not None:
                raise ConnectRestError(409, f"Connector {name} already exists")
            created = ConnectorConfig(name, complete)
            return [created] if target == "STARTED" else [TargetStateChange(name, target), created]

        self._change(decide)
        return ConnectorInfo(name, complete, (), self._type(complete))

    def put_config(self, name: str, config: Mapping[str, str]) -> tuple[bool, ConnectorInfo]:
        complete = _with_name(name, config)
        self._require_valid(complete)
        is_new = False

        def decide() -> Sequence[ConfigRecord]:
            nonlocal is_new
            is_new = self._view.config(name) is None
            return [ConnectorConfig(name, complete)]

        self._change(decide)
        return is_new, self._info_with(name, complete)

    def patch_config(self, name: str, patch: Mapping[str, str | None]) -> ConnectorInfo:
        while True:
            before = self.connector(name).config
            patched = {**before, **patch}
            complete = {each: value for each, value in patched.items() if value is not None}
            self._require_valid(complete)
            if self._replace(name, before, complete):
                return self._info_with(name, complete)

    def _replace(self, name: str, before: Mapping[str, str], config: Mapping[str, str]) -> bool:
        """Unless it changed since."""
        is_replaced = False

        def decide() -> Sequence[ConfigRecord]:
            nonlocal is_replaced
            is_replaced = self._existing(name) == before
            return [ConnectorConfig(name, config)] if is_replaced else []

        self._change(decide)
        return is_replaced

    def delete(self, name: str) -> None:
        def decide() -> Sequence[ConfigRecord]:
            self._existing(name)
            return [ConnectorConfig(name, None), TargetStateChange(name, None)]

        self._change(decide)

    def task_configs(self, name: str) -> Sequence[Mapping[str, str]]:
        with self._view_lock:
            self._existing(name)
            return self._view.task_configs(name)

    def set_target_state(self, name: str, target: TargetState) -> None:
        def decide() -> Sequence[ConfigRecord]:
            if self._view.config(name) is None:
                raise ConnectRestError(404, f"Unknown connector {name}")
            change = TargetStateChange(name, target)
            # A stopped connector has no tasks.
            return [TasksCommit(name, 0), change] if target == "STOPPED" else [change]

        self._change(decide)

    # Statuses

    def status(self, name: str) -> ConnectorStatus:
        with self._view_lock:
            status = self._view.status(name)
            config = self._view.config(name)
            if status is None or config is None:
                raise ConnectRestError(404, f"No status found for connector {name}")
            tasks = [
                TaskState(task, each.state.value, each.worker_id, each.trace, each.details, each.version)
                for task, each in sorted(self._view.statuses(name).items(), key=lambda item: item[0] or 0)
                if task is not None
            ]
            return ConnectorStatus(
                name,
                status.state.value,
                status.worker_id,
                tasks,
                self._type(config),
                status.trace,
                status.details,
                status.version,
            )

    def restart_connector(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorStatus:
        self._require_owner(name)
        with self._view_lock:
            if self._view.config(name) is None:
                raise ConnectRestError(404, f"Unknown connector: {name}")
            if self._view.status(name) is None:
                raise ConnectRestError(404, f"Status for connector {name} not found")
            status = self.status(name)
        self._change(lambda: [RestartRequest(name, include_tasks, only_failed)])
        failed, restarting = State.FAILED.value, State.RESTARTING.value
        if not only_failed or status.state == failed:
            status = replace(status, state=restarting)
        if not include_tasks:
            return status
        tasks = [
            replace(task, state=restarting) if not only_failed or task.state == failed else task
            for task in status.tasks
        ]
        return replace(status, tasks=tasks)

    def restart_task(self, name: str, task: int) -> None:
        """Tasks of a connector run in one loop, so the others restart with it."""
        self._require_owner(name)
        with self._view_lock:
            if self._view.config(name) is None:
                raise ConnectRestError(404, f"Unknown connector: {name}")
            if task >= len(self._view.task_configs(name)):
                raise ConnectRestError(404, f"Unknown task: {name}-{task}")
        self._change(lambda: [RestartRequest(name, include_tasks=True, only_failed=False)])

    def topics(self, name: str) -> Sequence[str]:
        if not self._settings.tracks_topics:
            raise ConnectRestError(403, "Topic tracking is disabled.")
        with self._view_lock:
            return sorted(self._view.topics(name))

    def reset_topics(self, name: str) -> None:
        if not self._settings.tracks_topics:
            raise ConnectRestError(403, "Topic tracking is disabled.")
        if not self._settings.allows_topics_reset:
            raise ConnectRestError(403, "Topic tracking reset is disabled.")
        with self._view_lock:
            used = self._view.topics(name)
        if used:
            self._statuses.write([status_records.encode(TopicUse(name, topic)) for topic in used])
            self._statuses.read_to_end()

    # Offsets

    def offsets(self, name: str) -> RestOffsets:
        return self._offsets.shown(name)

    def alter_offsets(self, name: str, offsets: RestOffsets) -> str:
        if not offsets:
            raise ConnectRestError(400, "Partitions / offsets need to be provided for an alter offsets request")
        return self._offsets.alter(name, offsets)

    def reset_offsets(self, name: str) -> str:
        return self._offsets.alter(name, None)

    # Plugins

    def plugins(self, *, connectors_only: bool) -> Sequence[Plugin]:
        return self._plugins.list_plugins(connectors_only=connectors_only)

    def plugin_config(self, plugin: str) -> Sequence[Mapping[str, Any]]:
        return self._plugins.plugin_config(plugin)

    def validate(self, plugin: str, config: Mapping[str, str]) -> Mapping[str, Any]:
        return self._plugins.validate(plugin, config)

    # Parts of answers

    def _existing(self, name: str) -> Mapping[str, str]:
        return existing_config(self._view, name)

    def _info_with(self, name: str, config: Mapping[str, str]) -> ConnectorInfo:
        with self._view_lock:
            tasks = [(name, task) for task in range(len(self._view.task_configs(name)))]
        return ConnectorInfo(name, config, tasks, self._type(config))

    def _type(self, config: Mapping[str, str]) -> ConnectorType:
        return self._plugins.connector_type(config)

    def _require_owner(self, name: str) -> None:
        """During a rebalance, the connector may have no owner that would act upon the request."""
        if self._ownership.is_rebalancing and not self._ownership.owns(name, time.monotonic()):
            raise ConnectRestError(409, _REBALANCING)

    def _require_valid(self, config: Mapping[str, str]) -> None:
        found = self._plugins.validate(config.get("connector.class", ""), config)
        errors = [error for each in found["configs"] for error in each["value"]["errors"]]
        if not found["error_count"]:
            return
        listed = "".join(f"\n{error}" for error in errors)
        raise ConnectRestError(
            400,
            f"Connector configuration is invalid and contains the following {found['error_count']} error(s):{listed}\n"
            "You can also find the above list of errors at the endpoint "
            "`/connector-plugins/{connectorType}/config/validate`",
        )


def _with_name(name: str, config: Mapping[str, str]) -> dict[str, str]:
    return {**config, "name": name}
