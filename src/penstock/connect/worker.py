"""A Connect worker: REST, herder, runner and Spark, in the order in which they need each other.

The composition root of `connect/`. A worker without connector files is distributed: configurations, offsets and
statuses live in topics, and workers with the same `group.id` share the connectors. One with connector files is
standalone: it runs those, and keeps only the offsets of their sources, in a file.

Invariants: REST answers when the herder knows the state of the cluster; a request before that would find nothing. What
moves records is imported behind that, and Spark starts with the first job. After `stop` no connector runs, and no
thread and no socket is left.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import urlsplit

from penstock.connect.connector_letters import ConnectorLetters
from penstock.connect.herder.distributed import DistributedSettings, distributed_herder
from penstock.connect.herder.standalone import ConnectorFile, create_from_files, standalone_herder
from penstock.connect.herder.worker_herder import WorkerHerder, WorkerSettings
from penstock.connect.plugins import Plugins
from penstock.connect.rest.application import build_application
from penstock.connect.rest.server import RestServer
from penstock.connect.runtime.deferred_runner import DeferredRunner
from penstock.connect.storage.offset_file import OffsetFile
from penstock.connect.worker_config import Mode, parse_worker_config
from penstock.connect.worker_plugins import WorkerPlugins
from penstock.core.addresses import DEFAULT_DATA_DIR
from penstock.wire.client import WIRE_SETTING_NAMES, WireClient

if TYPE_CHECKING:
    from penstock.connect.rest.extensions import Pipelines
    from penstock.connect.runtime.runner import Runner
    from penstock.connect.runtime.spark_jobs import SparkJobs

logger = logging.getLogger(__name__)

# A worker without a properties file is for one machine: one broker, and the strongest guarantee for sources.
_CONVERTERS: Final[Mapping[str, str]] = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}
STANDALONE_DEFAULTS: Final[Mapping[str, str]] = {
    **_CONVERTERS,
    "offset.storage.file.filename": str(DEFAULT_DATA_DIR / "connect.offsets"),
}
DEFAULTS: Final[Mapping[str, str]] = {
    **_CONVERTERS,
    "group.id": "connect-cluster",
    "config.storage.topic": "connect-configs",
    "offset.storage.topic": "connect-offsets",
    "status.storage.topic": "connect-status",
    "config.storage.replication.factor": "-1",
    "offset.storage.replication.factor": "-1",
    "status.storage.replication.factor": "-1",
    "exactly.once.source.support": "enabled",
}


class Worker:
    """`properties` are Kafka Connect's worker properties, complete; `DEFAULTS` helps. A context manager."""

    def __init__(
        self,
        properties: Mapping[str, str],
        jobs: SparkJobs,
        *,
        connector_files: Sequence[ConnectorFile] = (),
        pipelines: Pipelines | None = None,
    ) -> None:
        """`pipelines` are those of the same engine. Raises ConfigException with all mistakes."""
        plugins = Plugins()
        mode: Mode = "standalone" if connector_files else "distributed"
        self._config = parse_worker_config(mode, properties, plugins)
        for warning in self._config.warnings:
            logger.warning("%s", warning)
        self._properties = self._config.properties
        self._connector_files = connector_files
        self._pipelines = pipelines
        self._client = {name: value for name, value in self._properties.items() if name in WIRE_SETTING_NAMES}
        self._jobs = jobs
        self._plugins = WorkerPlugins(plugins, self._config.defaults(), self._config.providers())
        self._server = RestServer(self._properties)
        self._runner = DeferredRunner(self._new_runner)
        self._herder: WorkerHerder | None = None

    @property
    def url(self) -> str:
        """Of the REST API."""
        return self._server.address

    @property
    def herder(self) -> WorkerHerder:
        assert self._herder is not None, "the worker has not started"
        return self._herder

    def start(self) -> None:
        try:
            self._server.bind()
            self._herder = self._new_herder()
            self._herder.start()
            self._server.serve(
                build_application(
                    self._herder,
                    self._properties,
                    advertised_url=lambda: self._server.advertised_url,
                    dead_letters=ConnectorLetters(self._herder, self._client),
                    pipelines=self._pipelines,
                    warnings=self._plugins.warnings,
                )
            )
            self._config.check_converters(self._plugins.registry)
            self._runner.made()
            create_from_files(self._herder, self._connector_files)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Connectors finish their jobs first. Does nothing if it is not running."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._server.stop)
            if self._herder is not None:
                stack.callback(self._herder.stop)
        self._herder = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _new_herder(self) -> WorkerHerder:
        address = urlsplit(self._server.advertised_url)
        settings = WorkerSettings(
            worker_id=f"{address.hostname}:{address.port}",
            version=version("penstock"),
            kafka_cluster_id=self._cluster_id(),
            tracks_topics=self._config.values["topic.tracking.enable"],
            allows_topics_reset=self._config.values["topic.tracking.allow.reset"],
        )
        if self._connector_files:
            return standalone_herder(settings, self._runner, self._plugins)
        return distributed_herder(DistributedSettings.parse(self._properties), settings, self._runner, self._plugins)

    def _new_runner(self) -> Runner:
        from penstock.connect.runtime.spark_runner import SparkRunner

        offset_file = None
        if self._connector_files:
            offset_file = OffsetFile(Path(self._config.values["offset.storage.file.filename"]))
        return SparkRunner(self._properties, self._jobs, self._plugins.registry, offset_file)

    def _cluster_id(self) -> str:
        """Also shows, before anything else happens, whether the brokers can be reached."""
        with WireClient(self._client) as client:
            return client.metadata([]).cluster_id or ""
