"""Our REST server with the plugins of this distribution, over a standalone worker's herder.

Connectors run and move nothing: the comparison is about answers. `herder_in_memory` is the fake of unit tests, which
must not promise what the real one does not keep.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from penstock.connect.config.connector_config import WorkerDefaults
from penstock.connect.config.providers import ConfigProviders
from penstock.connect.herder.herder import Herder
from penstock.connect.herder.standalone import standalone_herder
from penstock.connect.herder.worker_herder import WorkerSettings
from penstock.connect.plugins import Plugins
from penstock.connect.rest.application import build_application
from penstock.connect.rest.server import serving
from penstock.connect.runtime.runner import Execution, Report, State
from penstock.connect.worker_plugins import WorkerPlugins
from penstock.core.ids import TopicPartition
from tests.unit.connect.fake_herder import FakeHerder

JSON_CONVERTER: Final = "org.apache.kafka.connect.json.JsonConverter"


class IdleRunner:
    """Runs connectors until they are stopped, and keeps offsets that people set."""

    def __init__(self, plugins: Plugins) -> None:
        self._plugins = plugins
        self._sinks: dict[str, dict[TopicPartition, int]] = {}
        self._sources: dict[str, dict[str, Mapping[str, Any]]] = {}

    def run(self, execution: Execution) -> None:
        execution.report(Report(State.RUNNING))
        execution.stop.wait()

    def task_count(self, name: str, config: Mapping[str, str]) -> int:
        return 1

    def fence(self, name: str, config: Mapping[str, str], task_count: int) -> None:
        return None

    def offsets(self, name: str, config: Mapping[str, str]) -> Any:
        if self._is_sink(config):
            return self._sinks.get(name, {})
        return [(json.loads(partition), offset) for partition, offset in self._sources.get(name, {}).items()]

    def alter_offsets(self, name: str, config: Mapping[str, str], offsets: Any) -> str:
        if offsets is None:
            self._sinks.pop(name, None)
            self._sources.pop(name, None)
            return "The offsets for this connector have been reset successfully"
        if self._is_sink(config):
            self._sinks.setdefault(name, {}).update(offsets)
        else:
            self._alter_source(name, config, offsets)
        return "The offsets for this connector have been altered successfully"

    def _alter_source(self, name: str, config: Mapping[str, str], offsets: Sequence[tuple[Any, Any]]) -> None:
        self._plugins.load("Connector", config["connector.class"]).implementation.check_offsets(config, offsets)
        stored = self._sources.setdefault(name, {})
        stored.update({json.dumps(dict(partition)): offset for partition, offset in offsets})

    def _is_sink(self, config: Mapping[str, str]) -> bool:
        return self._plugins.load("Connector", config["connector.class"]).type == "sink"


@contextmanager
def herder_in_memory(plugins: WorkerPlugins) -> Iterator[Herder]:
    yield FakeHerder(plugins)


@contextmanager
def real_herder(plugins: WorkerPlugins) -> Iterator[Herder]:
    settings = WorkerSettings("127.0.0.1:8083", "4.3.1", "unknown", "cluster")
    herder = standalone_herder(settings, IdleRunner(plugins.registry), plugins)
    herder.start()
    try:
        yield herder
    finally:
        herder.stop()


@contextmanager
def our_worker(herder_of: Any) -> Iterator[str]:
    registry = Plugins()
    defaults = WorkerDefaults(JSON_CONVERTER, JSON_CONVERTER, exactly_once_source=True)
    plugins = WorkerPlugins(registry, defaults, ConfigProviders({}))
    settings = {"listeners": "http://127.0.0.1:0"}
    with (
        herder_of(plugins) as herder,
        serving(build_application(herder, settings, warnings=plugins.warnings), settings) as server,
    ):
        yield server.address
