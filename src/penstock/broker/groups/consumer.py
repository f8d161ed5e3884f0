"""Requests to groups of the newer protocol (KIP-848): ConsumerGroupHeartbeat, and describing a group.

What a group makes of them is `coordinator/consumer_group.py`'s; here is what happens before there is a group, and when
the id belongs to a classic one: an empty group changes its kind and keeps its offsets, and one with members as
`group.consumer.migration.policy` allows (`coordinator/group_migration.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.broker.groups.reply import GroupReply
from penstock.broker.groups.shard import GroupShard
from penstock.coordinator.assignors import ASSIGNORS
from penstock.coordinator.classic_group import ClassicGroup
from penstock.coordinator.consumer_group import ConsumerGroup
from penstock.coordinator.consumer_group_changes import JOIN_EPOCH, ConsumerGroupChange, GroupEpochChanged
from penstock.coordinator.consumer_group_description import DescribedGroup
from penstock.coordinator.consumer_group_messages import ConsumerGroupSettings, Heartbeat, check_heartbeat
from penstock.coordinator.group_migration import MigrationPolicy, downgraded, is_to_be_downgraded, upgraded
from penstock.coordinator.records.classic_group_records import snapshot_record, snapshot_tombstone
from penstock.coordinator.records.consumer_group_records import change_record
from penstock.coordinator.topic_partitions import Topic, TopicCatalogue
from penstock.core.ids import uuid_text
from penstock.metadata.group_config_definitions import bounds, group_value
from penstock.protocol.error_codes import BrokerError, ErrorCode

if TYPE_CHECKING:
    from penstock.broker.groups.coordinator import GroupCoordinator
    from penstock.metadata.broker_config import BrokerConfig
    from penstock.metadata.image import ClusterImage


class ConsumerGroups:
    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator
        self._catalogue = topic_catalogue(coordinator.node.image)
        self._config = coordinator.node.config
        self._settings = consumer_group_settings(self._config)

    def heartbeat(self, heartbeat: Heartbeat, api_version: int, reply: GroupReply) -> None:
        """Answers with a HeartbeatResult when what it says is in the log. BrokerError: nothing was changed."""
        settings = self.settings_of(heartbeat.group_id)
        check_heartbeat(heartbeat, api_version, settings)
        if not heartbeat.member_id:
            heartbeat = replace(heartbeat, member_id=uuid_text(self._coordinator.node.entropy.uuid()))
        joins = heartbeat.member_epoch == JOIN_EPOCH
        coordinator = self._coordinator
        shard = coordinator.shard(heartbeat.group_id) if joins else coordinator.shard_to_read(heartbeat.group_id)
        former = shard.groups.get(heartbeat.group_id)
        upgrade: list[ConsumerGroupChange] = []
        if isinstance(former, ConsumerGroup):
            group = former
        elif joins and (former is None or not former.members()):
            # Members that were given an id and have not joined yet will find the new group.
            group = self.new_group(heartbeat.group_id)
        elif joins and former is not None:
            upgrade = upgraded(former, self._catalogue, self.policy, settings.max_size)
            group = self.restore(heartbeat.group_id, upgrade)
        else:
            reason = "is not a consumer group" if former is not None else "not found"
            raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {heartbeat.group_id} {reason}.")
        group.settings = settings
        result, changes = group.heartbeat(heartbeat, coordinator.now_ms())
        shard.groups[heartbeat.group_id] = group
        if isinstance(former, ClassicGroup):
            self._replace_classic(shard, former, [*upgrade, *changes])
            coordinator.watch(group)
        else:
            self.write(shard, group, changes)
        shard.answer(reply, result)

    def _replace_classic(self, shard: GroupShard, former: ClassicGroup, changes: Sequence[ConsumerGroupChange]) -> None:
        """In one batch, so that a crash leaves one of the two. Members that wait are told to join again."""
        coordinator = self._coordinator
        gone = [snapshot_tombstone(former.group_id)] if former.generation_id else []
        shard.append([*gone, *(change_record(former.group_id, change) for change in changes)])
        coordinator.send_replies(shard, former.close(ErrorCode.REBALANCE_IN_PROGRESS, coordinator.now_ms()))
        coordinator.metrics.rebalances.value += 1

    def write(self, shard: GroupShard, group: ConsumerGroup, changes: Sequence[ConsumerGroupChange]) -> None:
        if changes:
            shard.append([change_record(group.group_id, change) for change in changes])
            if any(isinstance(change, GroupEpochChanged) and change.value is not None for change in changes):
                self._coordinator.metrics.rebalances.value += 1
            if is_to_be_downgraded(group, self.policy, self._coordinator.node.config.group_max_size):
                self._downgrade(shard, group)
                return
        self._coordinator.watch(group)

    def _downgrade(self, shard: GroupShard, group: ConsumerGroup) -> None:
        """The last member of the newer protocol has left: the classic ones go on in a classic group."""
        coordinator = self._coordinator
        now_ms = coordinator.now_ms()
        snapshot = downgraded(group, now_ms)
        gone = [change_record(group.group_id, change) for change in group.tombstones()]
        shard.append([*gone, snapshot_record(snapshot)])
        classic = shard.groups[group.group_id] = coordinator.restore_classic_group(snapshot)
        coordinator.carry_out(shard, classic, classic.rebalance(now_ms))

    def describe(self, group_id: str) -> DescribedGroup:
        group = self._coordinator.shard_to_read(group_id).groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            reason = "is not a consumer group" if group is not None else "not found"
            raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {reason}.")
        return group.describe()

    def new_group(self, group_id: str) -> ConsumerGroup:
        return ConsumerGroup(group_id, self.settings_of(group_id), self._catalogue)

    def restore(self, group_id: str, changes: Sequence[ConsumerGroupChange]) -> ConsumerGroup:
        settings = self.settings_of(group_id)
        return ConsumerGroup.restore(group_id, settings, self._catalogue, changes, self._coordinator.now_ms())

    def topics_changed(self, groups: Sequence[ConsumerGroup]) -> None:
        self._catalogue = topic_catalogue(self._coordinator.node.image)
        for group in groups:
            group.topics_changed(self._catalogue)

    def settings_of(self, group_id: str) -> ConsumerGroupSettings:
        """Those of all groups, under the group's own."""
        configs = self._coordinator.node.image.group_configs.get(group_id)
        if configs is None:
            return self.settings
        return group_settings(self.settings, configs, self._coordinator.node.config)

    @property
    def policy(self) -> MigrationPolicy:
        return MigrationPolicy(self._coordinator.node.config.group_consumer_migration_policy.lower())

    @property
    def settings(self) -> ConsumerGroupSettings:
        """Of the configuration as it is now. A changed one is another object, so heartbeats need not build this."""
        config = self._coordinator.node.config
        if config is not self._config:
            self._config, self._settings = config, consumer_group_settings(config)
        return self._settings


def consumer_group_settings(config: BrokerConfig) -> ConsumerGroupSettings:
    # Kafka also takes names of Java classes there, which mean nothing here.
    assignors = tuple(name for name in config.group_consumer_assignors if name in ASSIGNORS)
    return ConsumerGroupSettings(
        session_timeout_ms=config.group_consumer_session_timeout_ms,
        heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
        max_size=config.group_consumer_max_size,
        assignors=assignors or tuple(ASSIGNORS),
        assignment_interval_ms=config.group_consumer_assignment_interval_ms,
    )


def group_settings(
    settings: ConsumerGroupSettings, configs: Mapping[str, str], config: BrokerConfig
) -> ConsumerGroupSettings:
    """The settings of a group with configs of its own. What the broker no longer allows is limited, as in Kafka."""

    def value(name: str) -> int:
        lowest, highest = bounds(name, config)
        return max(lowest, min(group_value(name, configs, config), highest))

    return replace(
        settings,
        session_timeout_ms=value("consumer.session.timeout.ms"),
        heartbeat_interval_ms=value("consumer.heartbeat.interval.ms"),
        assignment_interval_ms=value("consumer.assignment.interval.ms"),
    )


def topic_catalogue(image: ClusterImage) -> TopicCatalogue:
    return {topic.name: Topic(topic.topic_id, topic.name, len(topic.partitions)) for topic in image.topics.values()}
