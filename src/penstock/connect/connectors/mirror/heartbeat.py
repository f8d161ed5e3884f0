"""MirrorHeartbeatConnector: a record in `heartbeats` every few seconds, which mirrors copy from cluster to cluster.

Whoever reads a copy knows that the way from its source works, and how long it takes. Has MirrorMaker 2's properties and
record format.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from penstock.connect.config.definition import ConfigDef, ConfigException
from penstock.connect.connector import Slice, SourceConnector, SourceOffset, SourcePartition, SourceRows
from penstock.connect.connectors.mirror import connect_offsets, internal_topics, settings
from penstock.connect.connectors.mirror import definition as definitions
from penstock.connect.connectors.mirror.clusters import Clusters, is_due
from penstock.connect.connectors.mirror.record_groups import own_group
from penstock.connect.connectors.mirror.records import Heartbeat
from penstock.connect.connectors.mirror.replication_policy import HEARTBEATS
from penstock.connect.connectors.mirror.settings import MirrorSettings


class MirrorHeartbeatConnector(SourceConnector):
    version: ClassVar[str] = definitions.VERSION
    definition: ClassVar[ConfigDef] = definitions.HEARTBEAT
    prefixes = settings.PREFIXES

    def __init__(self, name: str, config: Mapping[str, str]) -> None:
        super().__init__(name, config)
        self._settings = MirrorSettings.parse(self.definition, config)
        self._clusters = Clusters(self._settings)
        self._interval_s: int = self._settings.values["emit.heartbeats.interval.seconds"]
        self.poll_interval_s = max(min(self._interval_s / 2, 1.0), 0.1)
        self._emitted_at: float | None = None

    @classmethod
    def completed(cls, config: Mapping[str, str]) -> Mapping[str, str]:
        return settings.completed(config)

    @classmethod
    def check(cls, config: Mapping[str, str]) -> Sequence[ConfigException]:
        return list(settings.check(cls.definition, config, needs_source=False))

    @classmethod
    def check_offsets(
        cls, config: Mapping[str, str], offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> None:
        connect_offsets.check_without_position(offsets, {"sourceClusterAlias": str, "targetClusterAlias": str})

    def task_count(self, tasks_max: int) -> int:
        return 1

    def start(self) -> None:
        factor = "heartbeats.topic.replication.factor"
        client = self._clusters.target(self.target)
        internal_topics.create_compacted_topic(client, HEARTBEATS, self._settings.values[factor], factor)

    def stop(self) -> None:
        self._clusters.close()

    def plan(self, offsets: Mapping[str, SourceOffset]) -> Sequence[Slice]:
        values = self._settings.values
        is_enabled = values["enabled"] and values["emit.heartbeats.enabled"]
        if not is_enabled or not is_due(self._emitted_at, self._interval_s):
            return ()
        self._emitted_at = time.monotonic()
        aliases = {
            "sourceClusterAlias": self._settings.source_alias,
            "targetClusterAlias": self._settings.target_alias,
        }
        return [Slice(aliases, connect_offsets.NO_POSITION)]

    def read(self, slice_: Slice) -> Iterator[SourceRows]:
        now_ms = time.time_ns() // 1_000_000
        record = Heartbeat(self._settings.source_alias, self._settings.target_alias, now_ms).encode()
        yield SourceRows(own_group(HEARTBEATS, [record], now_ms), connect_offsets.NO_POSITION)
