"""Offsets of connectors as the REST API shows and changes them (KIP-875).

Owns the form of a sink's offsets in REST, with Kafka Connect's messages for those that have another one, and the rule
that offsets change only while nothing of the connector runs. It must not know where offsets are kept; runners do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from penstock.connect.config.definition import ConfigException
from penstock.connect.connector import ConnectError
from penstock.connect.herder.cluster_view import ClusterView
from penstock.connect.herder.herder import ConnectRestError
from penstock.connect.herder.plugins_interface import Plugins
from penstock.connect.runtime.runner import Runner, SinkOffsets, SourceOffsets, State
from penstock.connect.storage.table import Table
from penstock.core.ids import TopicPartition

_TOPIC: Final = "kafka_topic"
_PARTITION: Final = "kafka_partition"
_OFFSET: Final = "kafka_offset"
_STOPPED_TIMEOUT_S: Final = 10.0

RestOffsets = Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
"""Pairs of partition and offset, as JSON."""


def existing_config(view: ClusterView, name: str) -> Mapping[str, str]:
    config = view.config(name)
    if config is None:
        raise ConnectRestError(404, f"Connector {name} not found")
    return config


class ConnectorOffsets:
    """`view_changed` guards the view. `require_owner` refuses requests for a connector that is between workers."""

    def __init__(
        self,
        view: ClusterView,
        view_changed: threading.Condition,
        configs: Table,
        runner: Runner,
        plugins: Plugins,
        require_owner: Callable[[str], None],
    ) -> None:
        self._view = view
        self._view_changed = view_changed
        self._configs = configs
        self._runner = runner
        self._plugins = plugins
        self._require_owner = require_owner

    def shown(self, name: str) -> RestOffsets:
        with self._view_changed:
            config = existing_config(self._view, name)
        return _shown(self._runner.offsets(name, self._resolved(config)))

    def alter(self, name: str, offsets: RestOffsets | None) -> str:
        """None: all of them are reset. Returns the message of the answer."""
        self._configs.read_to_end()
        with self._view_changed:
            config = existing_config(self._view, name)
            self._require_stopped(name)
            task_count = self._view.fenced_tasks(name)
        self._require_owner(name)
        self._await_end(name)
        is_source = self._plugins.connector_type(config) == "source"
        resolved = self._resolved(config)
        wanted = offsets if is_source or offsets is None else parse_sink_offsets(offsets)
        try:
            if is_source:
                # What a lost worker has begun must not be committed over the new offsets.
                self._runner.fence(name, resolved, task_count)
            message = self._runner.alter_offsets(name, resolved, wanted)
        except ConnectError as error:
            raise ConnectRestError(500, str(error)) from error
        self._configs.read_to_end()
        with self._view_changed:
            if self._view.target(name) != "STOPPED":
                raise ConnectRestError(
                    409, f"Connector {name} was resumed while its offsets were changed; stop it and check them"
                )
        return message

    def _require_stopped(self, name: str) -> None:
        if self._view.target(name) != "STOPPED" or self._view.task_configs(name):
            raise ConnectRestError(
                400,
                "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for "
                f"the specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint",
            )

    def _await_end(self, name: str) -> None:
        """Until its owner says that nothing of it runs any more."""

        def has_ended() -> bool:
            status = self._view.status(name)
            return status is not None and status.state is State.STOPPED

        with self._view_changed:
            if not self._view_changed.wait_for(has_ended, _STOPPED_TIMEOUT_S):
                raise ConnectRestError(
                    409, f"Connector {name} has not stopped completely yet; this request can be retried safely"
                )

    def _resolved(self, config: Mapping[str, str]) -> Mapping[str, str]:
        try:
            return self._plugins.resolve(config)
        except ConfigException as error:
            raise ConnectRestError(500, str(error)) from error


def _shown(offsets: SinkOffsets | SourceOffsets) -> list[tuple[Mapping[str, Any], Mapping[str, Any] | None]]:
    if not isinstance(offsets, Mapping):
        return list(offsets)
    return [
        ({_PARTITION: partition.partition, _TOPIC: partition.topic}, {_OFFSET: offset})
        for partition, offset in sorted(offsets.items())
    ]


def parse_sink_offsets(offsets: RestOffsets) -> dict[TopicPartition, int | None]:
    """Raises ConnectRestError (400)."""
    return {_parse_partition(partition): _parse_offset(offset) for partition, offset in offsets}


def _parse_partition(partition: Mapping[str, Any] | None) -> TopicPartition:
    if partition is None:
        raise ConnectRestError(400, "The partition for a sink connector offset cannot be null or missing")
    if _TOPIC not in partition or _PARTITION not in partition:
        raise ConnectRestError(
            400, f"The partition for a sink connector offset must contain the keys '{_TOPIC}' and '{_PARTITION}'"
        )
    topic, number = partition[_TOPIC], partition[_PARTITION]
    if topic is None:
        raise ConnectRestError(400, "Kafka topic names must be valid strings and may not be null")
    if number is None:
        raise ConnectRestError(400, "Kafka partitions must be valid numbers and may not be null")
    return TopicPartition(str(topic), _parse_number(number, "partition", "Partition"))


def _parse_offset(offset: Mapping[str, Any] | None) -> int | None:
    if offset is None:
        return None
    if _OFFSET not in offset:
        raise ConnectRestError(
            400, f"The offset for a sink connector should either be null or contain the key '{_OFFSET}'"
        )
    return _parse_number(offset[_OFFSET], "offset", "Offset")


def _parse_number(value: Any, what: str, title: str) -> int:
    try:
        return int(str(value))
    except ValueError:
        raise ConnectRestError(
            400,
            f"Failed to parse the following Kafka {what} value in the provided offsets: '{value}'. "
            f"{title} values for sink connectors need to be integers.",
        ) from None
