"""The broker's group coordinator: which shard knows a group, when it is loaded, and what time does to groups.

Requests come through `classic`, `consumers` and `offsets`, each in a file of its own; this file holds what they share.
A shard is loaded when the first request for one of its groups arrives, so that a start does not wait for it. A large
one is loaded over several turns of the event loop (`coordinator_loading.py`).

Belongs to the event loop. One timer serves the deadlines of all groups, and one the expiry of offsets.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Final
from uuid import UUID

from penstock.broker.coordinator_loading import CoordinatorLoads, LoadSteps
from penstock.broker.coordinator_log import CoordinatorLog, CoordinatorTopic
from penstock.broker.deadlines import Deadlines
from penstock.broker.groups.loading import LoadedGroups
from penstock.broker.groups.reply import GroupReply
from penstock.broker.groups.shard import GroupShard
from penstock.broker.groups.traits import Group, ListedGroup, expiry_rule, is_unused, listed, tombstones
from penstock.broker.metrics import GroupMetrics
from penstock.coordinator.classic_group import ClassicGroup, ClassicGroupSettings
from penstock.coordinator.classic_messages import Effect, GroupChanged, GroupSnapshot, LeaveReply
from penstock.coordinator.consumer_group import ConsumerGroup
from penstock.coordinator.offsets import NO_TOPIC_ID
from penstock.coordinator.records.classic_group_records import snapshot_record
from penstock.core.ids import TopicName
from penstock.metadata.topics import GROUP_OFFSETS_TOPIC
from penstock.protocol.compression import Compression
from penstock.protocol.error_codes import BrokerError, ErrorCode

if TYPE_CHECKING:
    from penstock.broker.groups.classic import ClassicGroups
    from penstock.broker.groups.consumer import ConsumerGroups
    from penstock.broker.groups.offsets import GroupOffsets
    from penstock.broker.node import Node

logger = logging.getLogger(__name__)

_MINUTE_MS: Final = 60_000


class GroupCoordinator:
    def __init__(self, node: Node) -> None:
        self.node = node
        config = node.config
        self.log = CoordinatorLog(
            node,
            CoordinatorTopic(
                GROUP_OFFSETS_TOPIC,
                config.offsets_topic_num_partitions,
                config.offsets_topic_replication_factor,
                {
                    "cleanup.policy": "compact",
                    "compression.type": "producer",
                    "segment.bytes": str(config.offsets_topic_segment_bytes),
                },
                Compression(config.offsets_topic_compression_codec),
                append_timeout_ms=config.offsets_commit_timeout_ms,
            ),
        )
        self.metrics = GroupMetrics(node.metrics)
        self._generations: dict[str, int] = {}  # of classic groups, as far as they were counted as rebalances
        self._loads: CoordinatorLoads[GroupShard] = CoordinatorLoads(
            node.loop, self.log.partition, self._load, self._shard_loaded, self.metrics.load_time
        )
        self._ended_while_loading: dict[int, list[tuple[int, bool]]] = {}  # producer ids and outcomes, by partition
        # A clock that setting the system's time cannot move: members would expire that are alive.
        self._clock_origin_ms = node.now_ms() - node.clock.monotonic_ms()
        self._deadlines = Deadlines(node.loop, self.now_ms, self._group_is_due)
        self._cleanup: asyncio.TimerHandle | None = None
        self._schedule_cleanup()

    def now_ms(self) -> int:
        return self._clock_origin_ms + self.node.clock.monotonic_ms()

    def new_uuid(self) -> str:
        return str(UUID(bytes=self.node.entropy.uuid()))

    def close(self) -> None:
        self._deadlines.close()
        self._loads.clear()
        if self._cleanup is not None:
            self._cleanup.cancel()

    @cached_property
    def classic(self) -> ClassicGroups:
        from penstock.broker.groups.classic import ClassicGroups

        return ClassicGroups(self)

    @cached_property
    def consumers(self) -> ConsumerGroups:
        from penstock.broker.groups.consumer import ConsumerGroups

        return ConsumerGroups(self)

    @cached_property
    def offsets(self) -> GroupOffsets:
        from penstock.broker.groups.offsets import GroupOffsets

        return GroupOffsets(self)

    # Shards

    def shard(self, group_id: str) -> GroupShard:
        """For a request that may change the group. It has waited for the topic (`CoordinatorLog.with_topic`).

        COORDINATOR_LOAD_IN_PROGRESS while the shard is being loaded; another BrokerError if it cannot be.
        """
        self.log.check_topic()
        self.log.check_session()
        return self._loads.get(self.log.partition_for(group_id))

    def shard_to_read(self, group_id: str) -> GroupShard:
        """As `shard`, for a request that only reads: without the topic there are no groups, and none is made."""
        index = self.log.partition_for(group_id)
        if not self.log.has_topic():
            return GroupShard(index, self.log, self._shard_failed)
        self.log.check_session()
        return self._loads.get(index)

    def all_shards(self) -> list[GroupShard]:
        """Loads what is not loaded yet. BrokerError if one is still being loaded, or cannot be."""
        if self.log.topic_name not in self.node.topics:
            return []
        self.log.check_session()
        return self._loads.get_all(self.log.led_partitions())

    def load_all(self) -> list[GroupShard]:
        """The shards that are loaded. Starts to load the others."""
        try:
            return self.all_shards()
        except BrokerError:
            return list(self._loads.loaded.values())

    def _load(self, index: int) -> LoadSteps[GroupShard]:
        """Replays the log, then makes its groups. Nothing of this is visible before the last step."""
        shard = GroupShard(index, self.log, self._shard_failed)
        self._ended_while_loading.pop(index, None)  # of an earlier load, which failed
        image_version = self.node.image.version
        loaded = LoadedGroups()
        for record in self.log.load(index):
            loaded.replay(record)
            yield len(record.key) + len(record.value or b"")
        shard.offsets = loaded.offsets
        for snapshot in loaded.classic.values():
            shard.groups[snapshot.group_id] = self.restore_classic_group(snapshot)
            yield 0
        for group_id, changes in loaded.consumer.items():
            shard.groups[group_id] = self.consumers.restore(group_id, list(changes.values()))
            yield 0
        for group_id in shard.offsets.groups() - shard.groups.keys():
            shard.groups[group_id] = self.new_classic_group(group_id)
            yield 0
        if self.node.image.version != image_version:
            # The groups that were made first know the topics of that time.
            self.consumers.topics_changed(_consumer_groups([shard]))
        if any(self._is_gone(*topic) for topic in loaded.topics):
            # Topics were deleted while the shard was not loaded; their successors must not inherit the offsets.
            shard.stale_offsets = shard.offsets.delete_where(self._is_gone)
        return shard

    def _shard_loaded(self, index: int, shard: GroupShard) -> None:
        for producer_id, committed in self._ended_while_loading.pop(index, ()):
            shard.offsets.end_transaction(producer_id, committed=committed)
        for group in shard.groups.values():
            self.watch(group)
        stale, shard.stale_offsets = shard.stale_offsets, []
        shard.append(stale)

    def _shard_failed(self, shard: GroupShard, failure: BrokerError) -> None:
        """Its memory is forgotten; the members that wait are sent to look for their coordinator again."""
        # Topics are deleted and leaders move because somebody decided so; anything else is a failure.
        level = logging.ERROR if shard.index in self.log.led_partitions() else logging.INFO
        logger.log(level, "%s-%d is given up: %s", self.log.topic_name, shard.index, failure.message)
        self._loads.discard(shard.index, shard)
        for group in shard.groups.values():
            self._deadlines.forget(group.group_id)
            if isinstance(group, ClassicGroup):
                for effect in group.close(ErrorCode.NOT_COORDINATOR, self.now_ms()):
                    if not isinstance(effect, GroupChanged):
                        _reply_of(effect).fail(failure)

    # Groups

    @property
    def classic_settings(self) -> ClassicGroupSettings:
        config = self.node.config
        return ClassicGroupSettings(
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            session_timeout_ms_min=config.group_min_session_timeout_ms,
            session_timeout_ms_max=config.group_max_session_timeout_ms,
            size_max=config.group_max_size,
        )

    def new_classic_group(self, group_id: str) -> ClassicGroup:
        return ClassicGroup(group_id, self.classic_settings, self.new_uuid)

    def carry_out(self, shard: GroupShard, group: ClassicGroup, effects: Iterable[Effect]) -> None:
        """What a classic group decided: changes into the log, and answers behind them."""
        self.send_replies(shard, effects)
        if group.is_idle and group.generation_id == 0 and not shard.offsets.knows(group.group_id):
            # The member left or was refused before anything of the group was written.
            self.forget(shard, group)
        else:
            self.watch(group)

    def send_replies(self, shard: GroupShard, effects: Iterable[Effect]) -> None:
        """Changes into the log, and answers behind them."""
        for effect in effects:
            if isinstance(effect, GroupChanged):
                shard.append([snapshot_record(effect.snapshot)])
                self._count_rebalance(effect.snapshot)
            else:
                shard.answer(_reply_of(effect), effect.results if isinstance(effect, LeaveReply) else effect.result)

    def restore_classic_group(self, snapshot: GroupSnapshot) -> ClassicGroup:
        self._generations[snapshot.group_id] = snapshot.generation_id
        return ClassicGroup.restore(snapshot, self.classic_settings, self.new_uuid, self.now_ms())

    def _count_rebalance(self, snapshot: GroupSnapshot) -> None:
        if snapshot.generation_id > self._generations.get(snapshot.group_id, 0):
            self._generations[snapshot.group_id] = snapshot.generation_id
            self.metrics.rebalances.value += 1

    def watch(self, group: Group) -> None:
        """To be called after whatever may have brought the group's next deadline forward."""
        self._deadlines.set(group.group_id, group.next_deadline_ms())

    def forget(self, shard: GroupShard, group: Group) -> None:
        del shard.groups[group.group_id]
        self._generations.pop(group.group_id, None)
        self._deadlines.forget(group.group_id)

    def list_groups(self) -> list[ListedGroup]:
        """All of them, in every shard."""
        return [listed(group) for shard in self.all_shards() for group in shard.groups.values()]

    def delete(self, shard: GroupShard, group_id: str) -> None:
        """DeleteGroups: the group and all of its offsets; GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP where it may not."""
        group = shard.groups.get(group_id)
        if group is None:
            raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, f"There is no group {group_id!r}.")
        records = tombstones(group)
        shard.append([*shard.offsets.delete_group(group_id), *records])
        self.forget(shard, group)

    def _group_is_due(self, group_id: str) -> None:
        shard = self._loads.loaded.get(self.log.partition_for(group_id))
        group = None if shard is None else shard.groups.get(group_id)
        if shard is None or group is None:
            return
        if isinstance(group, ClassicGroup):
            self.carry_out(shard, group, group.tick(self.now_ms()))
        else:
            self.consumers.write(shard, group, group.tick(self.now_ms()))

    # Transactions and topics

    def transaction_ended(self, producer_id: int, partition: int, committed: bool) -> None:
        """The marker of the producer's transaction is in this partition of `__consumer_offsets`."""
        shard = self._loads.loaded.get(partition)
        if shard is not None:
            shard.offsets.end_transaction(producer_id, committed=committed)
        elif self._loads.is_loading(partition):
            # Whether or not the load has read the marker: without pending offsets it changes nothing.
            self._ended_while_loading.setdefault(partition, []).append((producer_id, committed))

    def resign(self, index: int) -> None:
        """Another broker leads this partition of `__consumer_offsets` now, and coordinates its groups."""
        shard = self._loads.loaded.get(index)
        if shard is not None:
            place = f"{self.log.topic_name}-{index}"
            shard.give_up(BrokerError(ErrorCode.NOT_COORDINATOR, f"Another broker leads {place}."))
        self._loads.drop(index)

    def topics_changed(self) -> None:
        """Topics were created, deleted or given partitions. Offsets of topics that are gone go with them."""
        if self.log.topic_name not in self.node.topics:
            for shard in list(self._loads.loaded.values()):
                shard.give_up(BrokerError(ErrorCode.NOT_COORDINATOR, f"{self.log.topic_name} was deleted."))
            self._loads.clear()
            return
        for shard in list(self._loads.loaded.values()):
            shard.append(shard.offsets.delete_where(self._is_gone))
        self.consumers.topics_changed(_consumer_groups(self._loads.loaded.values()))

    def _is_gone(self, topic: str, topic_id: bytes) -> bool:
        image = self.node.image.topics.get(TopicName(topic))
        return image is None or topic_id not in (NO_TOPIC_ID, image.topic_id)

    # Expiry

    def _schedule_cleanup(self) -> None:
        interval_s = self.node.config.offsets_retention_check_interval_ms / 1000
        self._cleanup = self.node.loop.call_later(interval_s, self._clean_up)

    def _clean_up(self) -> None:
        """Forgets expired offsets, and then groups without members and offsets."""
        now_ms = self.now_ms()
        retention_ms = self.node.config.offsets_retention_minutes * _MINUTE_MS
        for shard in list(self._loads.loaded.values()):
            for group in list(shard.groups.values()):
                rule = expiry_rule(group)
                if rule is not None:
                    shard.append(shard.offsets.expire(group.group_id, rule, now_ms, retention_ms))
                if is_unused(group) and not shard.offsets.knows(group.group_id):
                    shard.append(tombstones(group))
                    self.forget(shard, group)
        self._schedule_cleanup()


def _consumer_groups(shards: Iterable[GroupShard]) -> list[ConsumerGroup]:
    return [group for shard in shards for group in shard.groups.values() if isinstance(group, ConsumerGroup)]


def _reply_of(effect: Effect) -> GroupReply:
    assert not isinstance(effect, GroupChanged)
    assert isinstance(effect.token, GroupReply), "groups are given no other tokens"
    return effect.token
