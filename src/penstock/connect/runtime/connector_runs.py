"""From a connector's configuration to the run that moves its records.

Owns which settings, converters, transforms, guarantee and topics a run has. It must not know retries or states.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.connect.config.definition import ConfigException
from penstock.connect.connector import Connector, SinkConnector, SourceConnector
from penstock.connect.converters.configured import converters_of
from penstock.connect.errors.policy import ErrorPolicy
from penstock.connect.runtime.client_settings import WorkerProperties
from penstock.connect.runtime.offset_storage import offset_storage
from penstock.connect.runtime.record_steps import RecordSteps
from penstock.connect.runtime.runner import Execution
from penstock.connect.runtime.sink_run import GUARANTEES, SinkProgress, SinkRun, Subscription
from penstock.connect.runtime.source_run import SourceProgress, SourceRun
from penstock.connect.runtime.spark_jobs import SparkJobs
from penstock.connect.runtime.topic_creation import TopicCreation
from penstock.connect.storage.offset_file import OffsetFile
from penstock.connect.transforms.chain import build_chain
from penstock.core.guarantee import Guarantee
from penstock.wire.client import WireClient


@dataclass(frozen=True, slots=True)
class Moved:
    """What a job moved. `lag` is None for sources."""

    records: int
    bytes: int
    failed: int
    topics: Sequence[str]
    lag: int | None = None


class ConnectorRuns:
    def __init__(self, settings: WorkerProperties, jobs: SparkJobs, offset_file: OffsetFile | None = None) -> None:
        """`offset_file` is that of a standalone worker."""
        self._settings = settings
        self._jobs = jobs
        self._offset_file = offset_file

    def run(
        self,
        connector: Connector,
        execution: Execution,
        *,
        started: Callable[[], None],
        moved: Callable[[Moved], None],
    ) -> None:
        """Until `execution.stop`. Raises ConfigException, and whatever fails."""
        execution = replace(execution, config=connector.completed(execution.config))
        if isinstance(connector, SinkConnector):
            self._sink(connector, execution, started, moved).run()
        else:
            assert isinstance(connector, SourceConnector)
            self._source(connector, execution, started, moved).run()

    def _steps(self, name: str, config: Mapping[str, str]) -> RecordSteps:
        return RecordSteps(
            name,
            converters_of(config, self._settings.config),
            build_chain(config),
            ErrorPolicy.of(config),
            self._settings.producer(config),
        )

    def _sink(
        self,
        connector: SinkConnector,
        execution: Execution,
        started: Callable[[], None],
        moved: Callable[[Moved], None],
    ) -> SinkRun:
        config = execution.config
        steps = self._steps(execution.name, config)
        self._create_dead_letter_topic(steps.errors, config)

        def report(progress: SinkProgress) -> None:
            moved(Moved(progress.records, progress.bytes, progress.failed, progress.topics, progress.lag))

        return SinkRun(
            execution.name,
            connector,
            guarantee_of(connector, config),
            Subscription.parse(config),
            self._settings.consumer(execution.name, config),
            steps,
            execution.task_count,
            self._jobs,
            execution.stop,
            report,
            started,
        )

    def _create_dead_letter_topic(self, errors: ErrorPolicy, config: Mapping[str, str]) -> None:
        topic = errors.dead_letter_topic
        if topic is None:
            return
        with WireClient(self._settings.wire("admin", config)) as client:
            if topic not in client.metadata([topic]).topics:
                client.create_topic(topic, partitions=1, replication_factor=errors.dead_letter_replication_factor)

    def _source(
        self,
        connector: SourceConnector,
        execution: Execution,
        started: Callable[[], None],
        moved: Callable[[Moved], None],
    ) -> SourceRun:
        config = execution.config
        _check_exactly_once(connector, config, is_enabled=self._settings.exactly_once_sources)

        settings = self._settings.producer(config)
        connector.target = settings.wire
        offsets = offset_storage(self._settings, self._offset_file, execution.name, config)
        if offsets.topic is not None:
            with WireClient(self._settings.wire("admin", config)) as client:
                create_offsets_topic(client, self._settings, offsets.topic)

        def report(progress: SourceProgress) -> None:
            moved(Moved(progress.records, progress.bytes, progress.failed, progress.topics))

        return SourceRun(
            execution.name,
            connector,
            self._settings.group_id,
            self._settings.exactly_once_sources,
            settings,
            TopicCreation.of(config) if self._settings.creates_topics else TopicCreation(),
            offsets,
            self._steps(execution.name, config),
            execution.task_count,
            self._jobs,
            execution.stop,
            report,
            started,
        )


def guarantee_of(connector: SinkConnector, config: Mapping[str, str]) -> Guarantee:
    text = config.get("guarantee", "at_least_once").strip().lower()
    for guarantee in GUARANTEES:
        if text == guarantee:
            if guarantee not in connector.guarantees:
                raise ConfigException(
                    f"Invalid value {text} for configuration guarantee: this connector keeps"
                    f" {' and '.join(connector.guarantees)}",
                    "guarantee",
                )
            return guarantee
    raise ConfigException(
        f"Invalid value {text} for configuration guarantee: String must be one of: {', '.join(GUARANTEES)}", "guarantee"
    )


def create_offsets_topic(client: WireClient, settings: WorkerProperties, topic: str) -> None:
    """The worker creates its own one when it starts; this is for a connector's."""
    if topic in client.metadata([topic]).topics:
        return
    config = settings.config
    client.create_topic(
        topic,
        partitions=int(config.get("offset.storage.partitions", "25")),
        replication_factor=int(config.get("offset.storage.replication.factor", "-1")),
        configs={"cleanup.policy": "compact"},
    )


def _check_exactly_once(connector: SourceConnector, config: Mapping[str, str], *, is_enabled: bool) -> None:
    support = config.get("exactly.once.support", "requested").strip().lower()
    if support not in ("requested", "required"):
        raise ConfigException(
            f"Invalid value {support} for configuration exactly.once.support: String must be one of (case insensitive):"
            " REQUESTED, REQUIRED",
            "exactly.once.support",
        )
    if support == "required":
        reason = None if is_enabled else "exactly.once.source.support of the worker is not enabled"
        reason = reason or connector.exactly_once
        if reason is not None:
            raise ConfigException(
                f"The connector does not support exactly-once semantics with the provided configuration: {reason}",
                "exactly.once.support",
            )
