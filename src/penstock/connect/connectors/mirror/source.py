"""MirrorSourceConnector: copies topics of another cluster, with MirrorMaker 2's properties and offsets.

Keys, values, headers, timestamps and partitions stay as they are; nothing is decoded. A slice is a range of offsets of
one partition, so one transaction of a task has records of one partition.

Owns which topics are copied and where each partition stands. `remote_topics.py` owns the target's topics.

Invariants:
- A range is read once, in order, and its records keep that order in the partition of the same number.
- A topic that has been on the target cluster before is never copied (`is_cycle`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from penstock.connect.config.definition import ConfigDef, ConfigException
from penstock.connect.connector import (
    ConnectError,
    Slice,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    SourceRows,
    WrittenRows,
    offset_of,
)
from penstock.connect.connectors.mirror import connect_offsets, internal_topics, settings
from penstock.connect.connectors.mirror import definition as definitions
from penstock.connect.connectors.mirror.clusters import Clusters, is_due, source_named
from penstock.connect.connectors.mirror.record_groups import NO_RECORDS, copied_groups
from penstock.connect.connectors.mirror.records import OffsetSync
from penstock.connect.connectors.mirror.remote_acls import sync_acls
from penstock.connect.connectors.mirror.remote_topics import RemoteTopics
from penstock.connect.connectors.mirror.settings import Filter, MirrorSettings
from penstock.connect.runtime.topic_reading import read_ranges
from penstock.core.errors import ClientError
from penstock.core.ids import TopicPartition
from penstock.pipeline.process_state import shared_client
from penstock.pipeline.topics.planning import OffsetRange
from penstock.protocol.error_codes import BrokerError
from penstock.wire.client import WireClient

logger = logging.getLogger(__name__)

_SLICE_OFFSETS_MAX: Final = 500_000
_SLICE_BYTES_MAX: Final = 64 * 1024 * 1024
_EVERY_NAME: Final = (".*",)


@dataclass(frozen=True, slots=True)
class _Range:
    """What a task reads, and the topic that gets it."""

    partition: TopicPartition
    start: int
    end: int
    remote_topic: str


class MirrorSourceConnector(SourceConnector):
    version: ClassVar[str] = definitions.VERSION
    definition: ClassVar[ConfigDef] = definitions.SOURCE
    prefixes = settings.PREFIXES
    wants_written_rows = True

    def __init__(self, name: str, config: Mapping[str, str]) -> None:
        super().__init__(name, config)
        self._settings = MirrorSettings.parse(self.definition, config)
        self._values = self._settings.values
        self._consumer = self._settings.consumer(name)
        self._topics = self._settings.topics
        self.poll_interval_s = self._values["consumer.poll.timeout.ms"] / 1000
        # On the driver
        self._clusters = Clusters(self._settings)
        self._partitions: list[TopicPartition] = []
        self._first_offsets: dict[TopicPartition, int] = {}
        self._reset: set[TopicPartition] = set()
        self._refreshed_at: float | None = None
        self._synced_at: float | None = None
        self._acls_synced_at: float | None = None
        self._has_acls = True
        # In a task
        self._read_offsets: list[NDArray[np.int64]] = []

    @classmethod
    def completed(cls, config: Mapping[str, str]) -> Mapping[str, str]:
        return settings.completed(config)

    @classmethod
    def check(cls, config: Mapping[str, str]) -> Sequence[ConfigException]:
        found = list(settings.check(cls.definition, config))
        is_required = config.get("exactly.once.support", "").strip().lower() == "required"
        if not found and is_required:
            consumer = MirrorSettings.parse(cls.definition, config).consumer("")
            if consumer.isolation_level != "read_committed":
                message = (
                    "Invalid value required for configuration exactly.once.support: records of aborted transactions"
                    " would be copied; set source.consumer.isolation.level=read_committed"
                )
                found.append(ConfigException(message, "exactly.once.support"))
        return found

    @classmethod
    def check_offsets(
        cls, config: Mapping[str, str], offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> None:
        connect_offsets.check_copied(offsets)

    def stop(self) -> None:
        self._clusters.close()

    # On the driver

    def plan(self, offsets: Mapping[str, SourceOffset]) -> Sequence[Slice]:
        if not self._values["enabled"]:
            return ()
        self._refresh()
        with source_named(self._settings):
            source = self._clusters.source
            partitions = self._existing_partitions(source)
            if not partitions:
                return ()
            starts = source.list_offsets(dict.fromkeys(partitions, "earliest"))
            level = self._consumer.isolation_level
            ends = source.list_offsets(dict.fromkeys(partitions, "latest"), isolation_level=level)
        slices = []
        for each in partitions:
            partition = connect_offsets.copied_partition(self._settings.source_alias, each)
            stored = offset_of(offsets, partition)
            start = self._start(each, stored, starts[each].offset, ends[each].offset)
            end = min(ends[each].offset, start + _SLICE_OFFSETS_MAX)
            if start < end:
                planned = _Range(each, start, end, self._settings.remote_topic(each.topic))
                slices.append(Slice(partition, stored, planned))
        return slices

    def _refresh(self) -> None:
        """Finds topics and partitions, creates them on the target, and copies settings and ACLs: each when due."""
        values, is_first = self._values, self._refreshed_at is None
        if is_first and values["emit.offset-syncs.enabled"]:
            self._create_offset_syncs_topic()
        interval_s = values["refresh.topics.interval.seconds"]
        if is_first or (values["refresh.topics.enabled"] and is_due(self._refreshed_at, interval_s)):
            self._find_partitions(is_first=is_first)
            self._refreshed_at = time.monotonic()
        interval_s = values["sync.topic.configs.interval.seconds"]
        if values["sync.topic.configs.enabled"] and is_due(self._synced_at, interval_s):
            topics = {each.topic for each in self._partitions}
            self._remote_topics().sync_settings({self._settings.remote_topic(each): each for each in sorted(topics)})
            self._synced_at = time.monotonic()
        interval_s = values["sync.topic.acls.interval.seconds"]
        if values["sync.topic.acls.enabled"] and self._has_acls and is_due(self._acls_synced_at, interval_s):
            with source_named(self._settings):
                self._has_acls = sync_acls(self._clusters.source, self.target, self._remote_topic_of)
            self._acls_synced_at = time.monotonic()

    def _remote_topic_of(self, topic: str) -> str | None:
        return self._settings.remote_topic(topic) if self._settings.replicates(self._topics, topic) else None

    def _find_partitions(self, *, is_first: bool) -> None:
        with source_named(self._settings):
            source = self._clusters.source
            topics = {
                name: sorted(found.partitions)
                for name, found in sorted(source.metadata().topics.items())
                if self._settings.replicates(self._topics, name)
            }
            found = [TopicPartition(topic, index) for topic, indices in topics.items() for index in indices]
            if is_first and self._consumer.reset == "latest" and found:
                ends = source.list_offsets(dict.fromkeys(found, "latest"))
                self._first_offsets = {partition: end.offset for partition, end in ends.items()}
        remote = {self._settings.remote_topic(topic): (topic, len(indices)) for topic, indices in topics.items()}
        self._remote_topics().create(self._clusters.target(self.target), remote)
        self._partitions = found

    def _existing_partitions(self, source: WireClient) -> list[TopicPartition]:
        """Without those of topics that have been deleted since."""
        topics = source.metadata({each.topic for each in self._partitions}).topics if self._partitions else {}
        return [each for each in self._partitions if each.topic in topics]

    def _start(self, partition: TopicPartition, stored: SourceOffset | None, earliest: int, end: int) -> int:
        """`auto.offset.reset` decides where there is no offset, or one that the source no longer has."""
        if stored is None:
            # Of partitions that appear while the mirror runs, `latest` misses nothing either.
            return max(self._first_offsets.get(partition, earliest), earliest)
        start = connect_offsets.next_offset(stored)
        if earliest <= start <= end:
            self._reset.discard(partition)
            return start
        if start > end and self._consumer.isolation_level == "read_committed" and self._log_end(partition) >= start:
            return start  # an open transaction holds the last stable offset back
        where = f"{partition} of source cluster '{self._settings.source_alias}'"
        if self._consumer.reset == "none":
            raise ConnectError(
                f"{where} has offsets {earliest} to {end}, and the mirror continues at {start}; change the connector's"
                " offsets, or set source.consumer.auto.offset.reset"
            )
        chosen = earliest if start < earliest or self._consumer.reset == "earliest" else end
        if partition not in self._reset:  # the stored offset stays until there is a record
            self._reset.add(partition)
            logger.warning(
                "%s has offsets %d to %d: it continues at %d, not at %d", where, earliest, end, chosen, start
            )
        return chosen

    def _log_end(self, partition: TopicPartition) -> int:
        return self._clusters.source.list_offsets({partition: "latest"})[partition].offset

    def _remote_topics(self) -> RemoteTopics:
        return RemoteTopics(
            self._settings.source.wire("admin", {}),
            self.target,
            replication_factor=self._values["replication.factor"],
            settings=Filter(_EVERY_NAME, self._values["config.properties.exclude"]),
        )

    def _create_offset_syncs_topic(self) -> None:
        is_on_source = self._settings.offset_syncs_are_on_source
        factor = "offset-syncs.topic.replication.factor"
        with source_named(self._settings):
            client = self._clusters.source if is_on_source else self._clusters.target(self.target)
            topic = self._settings.offset_syncs_topic
            internal_topics.create_compacted_topic(client, topic, self._values[factor], factor)

    # In a task

    def read(self, slice_: Slice) -> Iterator[SourceRows]:
        planned: _Range = slice_.plan
        wanted = OffsetRange(planned.partition, planned.start, planned.end)
        self._read_offsets = []
        rows = size = 0
        position = planned.start
        with source_named(self._settings):
            for batch in read_ranges(self._consumer, [wanted]):
                offsets = np.asarray(batch.column("offset").to_numpy(zero_copy_only=False), np.int64)
                self._read_offsets.append(offsets)
                position = int(offsets[-1]) + 1
                offset = connect_offsets.copied_up_to(position - 1)
                for group in copied_groups(batch, planned.remote_topic, rows):
                    yield SourceRows(group, offset)
                rows += batch.num_rows
                size += batch.nbytes
                if size >= _SLICE_BYTES_MAX:
                    return
        if position < planned.end:
            # Markers of transactions, or aborted records: without an offset they would be read for ever.
            yield SourceRows(NO_RECORDS, connect_offsets.copied_up_to(planned.end - 1))

    def written(self, slice_: Slice, rows: Sequence[WrittenRows]) -> None:
        if not self._values["emit.offset-syncs.enabled"]:
            return
        planned: _Range = slice_.plan
        # A transform may have sent some of them elsewhere.
        remote = TopicPartition(planned.remote_topic, planned.partition.partition)
        mirrored = [each for each in rows if each.partition == remote]
        if not mirrored:
            return
        upstream = np.concatenate(self._read_offsets)
        syncs = [
            OffsetSync(planned.partition, int(upstream[row]), downstream).encode()
            for row, downstream in sync_points(mirrored, self._values["offset.lag.max"])
        ]
        is_on_source = self._settings.offset_syncs_are_on_source
        wire = self._settings.source.wire("producer", {}) if is_on_source else self.target
        try:
            internal_topics.append(shared_client(wire), self._settings.offset_syncs_topic, syncs)
        except (ClientError, BrokerError) as error:
            # The records are committed. The syncs of the next slice let groups go on as exactly.
            logger.warning("offset syncs of %s could not be written: %s", planned.partition, error)


def sync_points(written: Sequence[WrittenRows], lag_max: int) -> list[tuple[int, int]]:
    """Rows and their offsets: the first and the last of a slice, and one at least every `lag_max` between them."""
    rows = np.concatenate([each.rows for each in written])
    offsets = np.concatenate([each.base_offset + np.arange(len(each.rows)) for each in written])
    places = [*range(0, len(rows) - 1, lag_max), len(rows) - 1]
    return [(int(rows[place]), int(offsets[place])) for place in places]
