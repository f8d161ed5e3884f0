"""MirrorCheckpointConnector: where the groups of the source cluster stand, in offsets of the target cluster.

It writes MirrorMaker 2's checkpoint records, and commits the translated offsets for groups that have no members on the
target (`sync.group.offsets.enabled`): a group that moves to the target reads on there. Offsets are translated through
the offset syncs of the MirrorSourceConnector between the same clusters (`offset_translation.py`).

All is done on the driver, but for the records. There is one task, because checkpoints are few and small.

Invariants:
- A checkpoint never goes forward beyond a record that its group has not read.
- An offset on the target is only moved forward, and never while its group has members there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from penstock.connect.config.definition import ConfigDef, ConfigException
from penstock.connect.connector import Slice, SourceConnector, SourceOffset, SourcePartition, SourceRows
from penstock.connect.connectors.mirror import connect_offsets, internal_topics, settings
from penstock.connect.connectors.mirror import definition as definitions
from penstock.connect.connectors.mirror.clusters import Clusters, is_due, source_named
from penstock.connect.connectors.mirror.internal_topics import Follower
from penstock.connect.connectors.mirror.offset_translation import OffsetSyncs
from penstock.connect.connectors.mirror.record_groups import NO_RECORDS, own_group
from penstock.connect.connectors.mirror.records import Checkpoint, MalformedRecord, OffsetSync
from penstock.connect.connectors.mirror.settings import Filter, MirrorSettings
from penstock.connect.runtime.client_settings import WorkerProperties
from penstock.core.ids import OffsetAndMetadata, TopicPartition
from penstock.protocol.error_codes import BrokerError, ErrorCode

logger = logging.getLogger(__name__)

_WITHOUT_MEMBERS: Final = frozenset({"Empty", "Dead"})
# Of a group that got a member after it was looked at.
_HAS_MEMBERS: Final = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION}
)

_Checkpoints = dict[str, dict[TopicPartition, Checkpoint]]


class MirrorCheckpointConnector(SourceConnector):
    version: ClassVar[str] = definitions.VERSION
    definition: ClassVar[ConfigDef] = definitions.CHECKPOINT
    prefixes = settings.PREFIXES

    def __init__(self, name: str, config: Mapping[str, str]) -> None:
        super().__init__(name, config)
        self._settings = MirrorSettings.parse(self.definition, config)
        self._values = values = self._settings.values
        self._topics = self._settings.topics
        self._groups_wanted = Filter(values["groups"], values["groups.exclude"])
        self._checkpoints_topic = self._settings.policy.checkpoints_topic(self._settings.source_alias)
        intervals = [values[f"{each}.interval.seconds"] for each in ("emit.checkpoints", "sync.group.offsets")]
        self.poll_interval_s = max(min(1.0, *intervals), 0.1)
        # On the driver
        self._clusters = Clusters(self._settings)
        self._syncs = OffsetSyncs()
        self._sync_records: Follower | None = None
        self._checkpoints: _Checkpoints = {}
        self._planned: list[Checkpoint] = []
        self._groups: list[str] = []
        self._refreshed_at: float | None = None
        self._emitted_at: float | None = None
        self._committed_at: float | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_syncs": None, "_sync_records": None, "_checkpoints": {}, "_planned": []}

    @classmethod
    def completed(cls, config: Mapping[str, str]) -> Mapping[str, str]:
        return settings.completed(config)

    @classmethod
    def check(cls, config: Mapping[str, str]) -> Sequence[ConfigException]:
        return list(settings.check(cls.definition, config))

    @classmethod
    def check_offsets(
        cls, config: Mapping[str, str], offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> None:
        connect_offsets.check_without_position(offsets, {"group": str, "topic": str, "partition": int})

    def task_count(self, tasks_max: int) -> int:
        return 1

    def start(self) -> None:
        """Reads the checkpoints that have been written before: they say what is new."""
        factor = "checkpoints.topic.replication.factor"
        target = self._clusters.target(self.target)
        internal_topics.create_compacted_topic(target, self._checkpoints_topic, self._values[factor], factor)
        for key, value in Follower(self._checkpoints_topic, WorkerProperties(self.target)).read(target):
            try:
                self._remember([Checkpoint.decode(key, value)])
            except MalformedRecord as mistake:
                logger.warning("topic '%s' has a record that is no checkpoint: %s", self._checkpoints_topic, mistake)
        where = self._settings.source if self._settings.offset_syncs_are_on_source else WorkerProperties(self.target)
        self._sync_records = Follower(self._settings.offset_syncs_topic, where)

    def stop(self) -> None:
        self._clusters.close()

    # On the driver

    def plan(self, offsets: Mapping[str, SourceOffset]) -> Sequence[Slice]:
        values = self._values
        if not (values["enabled"] and values["emit.checkpoints.enabled"]):
            return ()
        interval_s = values["sync.group.offsets.interval.seconds"]
        if values["sync.group.offsets.enabled"] and self._checkpoints and is_due(self._committed_at, interval_s):
            self._commit_to_target()
            self._committed_at = time.monotonic()
        if not is_due(self._emitted_at, values["emit.checkpoints.interval.seconds"]):
            return ()
        self._emitted_at = time.monotonic()
        with source_named(self._settings):
            self._read_syncs()
            self._planned = [each for each in self._translated() if self._is_new(each)]
        if not self._planned:
            return ()
        return [Slice(_partition(self._planned[0]), connect_offsets.NO_POSITION, self._planned)]

    def committed(self, offsets: Mapping[str, SourceOffset]) -> None:
        self._remember(self._planned)

    def _read_syncs(self) -> None:
        assert self._sync_records is not None, "it was started"
        is_on_source = self._settings.offset_syncs_are_on_source
        client = self._clusters.source if is_on_source else self._clusters.target(self.target)
        for key, value in self._sync_records.read(client):
            try:
                self._syncs.add(OffsetSync.decode(key, value))
            except MalformedRecord as mistake:
                topic = self._settings.offset_syncs_topic
                logger.warning("topic '%s' has a record that is no offset sync: %s", topic, mistake)

    def _translated(self) -> Iterator[Checkpoint]:
        """A checkpoint for each offset of a group that can be translated."""
        source, values = self._clusters.source, self._values
        interval_s = values["refresh.groups.interval.seconds"]
        if self._refreshed_at is None or (values["refresh.groups.enabled"] and is_due(self._refreshed_at, interval_s)):
            self._groups = sorted(name for name in source.group_states() if self._groups_wanted.accepts(name))
            self._refreshed_at = time.monotonic()
        for group in self._groups:
            # An open transaction of a group does not hold the other groups back.
            for partition, committed in source.offset_fetch(group, require_stable=False).items():
                if not self._settings.replicates(self._topics, partition.topic):
                    continue
                downstream = self._syncs.translate(partition, committed.offset)
                if downstream is not None:
                    remote = TopicPartition(self._settings.remote_topic(partition.topic), partition.partition)
                    yield Checkpoint(group, remote, committed.offset, downstream, committed.metadata)

    def _is_new(self, checkpoint: Checkpoint) -> bool:
        """Forward on the target; backward only where the group itself was set back on the source."""
        last = self._checkpoints.get(checkpoint.group, {}).get(checkpoint.partition)
        return (
            last is None
            or checkpoint.upstream_offset < last.upstream_offset
            or checkpoint.downstream_offset > last.downstream_offset
        )

    def _remember(self, checkpoints: Sequence[Checkpoint]) -> None:
        for each in checkpoints:
            self._checkpoints.setdefault(each.group, {})[each.partition] = each

    def _commit_to_target(self) -> None:
        target = self._clusters.target(self.target)
        states = target.group_states()
        topics = target.metadata({each.topic for known in self._checkpoints.values() for each in known}).topics
        for group, checkpoints in self._checkpoints.items():
            state = states.get(group)
            if not self._groups_wanted.accepts(group) or (state is not None and state not in _WITHOUT_MEMBERS):
                continue
            present = {} if state is None else target.offset_fetch(group, require_stable=False)
            ahead = {
                partition: OffsetAndMetadata(each.downstream_offset, each.metadata)
                for partition, each in checkpoints.items()
                if partition.topic in topics
                and (partition not in present or present[partition].offset < each.downstream_offset)
            }
            try:
                if ahead:
                    target.offset_commit(group, ahead)
            except BrokerError as refusal:
                if refusal.code not in _HAS_MEMBERS:
                    raise

    # In the task

    def read(self, slice_: Slice) -> Iterator[SourceRows]:
        checkpoints: Sequence[Checkpoint] = slice_.plan
        records = [each.encode() for each in checkpoints]
        group = own_group(self._checkpoints_topic, records, time.time_ns() // 1_000_000)
        for each in checkpoints:
            yield SourceRows(group, dict(connect_offsets.NO_POSITION), _partition(each))
            group = NO_RECORDS


def _partition(checkpoint: Checkpoint) -> dict[str, Any]:
    """As MirrorMaker 2 names it in the offsets topic."""
    topic, index = checkpoint.partition
    return {"group": checkpoint.group, "topic": topic, "partition": index}
