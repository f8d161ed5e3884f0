"""A consumer group with its log, and a model consumer that follows the protocol."""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from penstock.coordinator.consumer_group import ConsumerGroup
from penstock.coordinator.consumer_group_changes import ConsumerGroupChange, GroupEpochChanged, TargetEpochChanged
from penstock.coordinator.consumer_group_messages import (
    ConsumerGroupSettings,
    Heartbeat,
    HeartbeatResult,
    check_heartbeat,
)
from penstock.coordinator.topic_partitions import Topic
from penstock.core.ids import TopicIdPartition
from penstock.protocol.error_codes import BrokerError, ErrorCode

GROUP_ID = "group"
SESSION_MS = 45_000
REBALANCE_MS = 30_000
SETTINGS = ConsumerGroupSettings(session_timeout_ms=SESSION_MS, heartbeat_interval_ms=5_000)


def topic_id(name: str, incarnation: int = 0) -> bytes:
    return f"{name}/{incarnation}".encode().ljust(16, b".")


def topics(**partition_counts: int) -> dict[str, Topic]:
    return {name: Topic(topic_id(name), name, count) for name, count in partition_counts.items()}


def partitions(name: str, indexes: Iterable[int]) -> frozenset[TopicIdPartition]:
    return frozenset(TopicIdPartition(topic_id(name), index) for index in indexes)


class GroupOnALog:
    """The group, the records that its changes would leave after compaction, and the time."""

    def __init__(self, catalogue: dict[str, Topic], settings: ConsumerGroupSettings = SETTINGS) -> None:
        self.catalogue = catalogue
        self.settings = settings
        self.now_ms = 1_000_000
        self.log: dict[Hashable, ConsumerGroupChange] = {}
        self.group = ConsumerGroup(GROUP_ID, settings, catalogue)

    def send(self, heartbeat: Heartbeat, api_version: int = 1) -> HeartbeatResult:
        check_heartbeat(heartbeat, api_version, self.settings)
        result, changes = self.group.heartbeat(heartbeat, self.now_ms)
        self.write(changes)
        return result

    def advance(self, milliseconds: int) -> None:
        """Advances the time; ticks the group at its deadlines only."""
        until_ms = self.now_ms + milliseconds
        while (deadline_ms := self.group.next_deadline_ms()) is not None and deadline_ms <= until_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.write(self.group.tick(self.now_ms))
        self.now_ms = until_ms

    def change_topics(self, catalogue: dict[str, Topic]) -> None:
        self.catalogue = catalogue
        self.group.topics_changed(catalogue)

    def restart(self, seed: int = 0) -> None:
        changes = list(self.log.values())
        random.Random(seed).shuffle(changes)
        self.group = ConsumerGroup.restore(GROUP_ID, self.settings, self.catalogue, changes, self.now_ms)

    def write(self, changes: Iterable[ConsumerGroupChange]) -> None:
        for change in changes:
            about = None if isinstance(change, GroupEpochChanged | TargetEpochChanged) else change.member_id
            if change.value is None:
                self.log.pop((type(change), about), None)
            else:
                self.log[type(change), about] = change

    @property
    def member_ids(self) -> set[str]:
        return {member.metadata.member_id for member in self.group.describe().members}


@dataclass(eq=False)
class SimulatedMember:
    broker: GroupOnALog
    member_id: str
    topic_names: tuple[str, ...] = ("orders",)
    instance_id: str | None = None
    regex: str | None = None
    assignor: str | None = None
    rebalance_timeout_ms: int = REBALANCE_MS
    epoch: int = 0
    owned: frozenset[TopicIdPartition] = frozenset()
    assignment: frozenset[TopicIdPartition] = frozenset()
    """Its last received assignment. It owns more until it has revoked the rest."""
    must_send_all: bool = True
    reported: frozenset[TopicIdPartition] | None = None
    known_epochs: list[int] = field(default_factory=list)

    def heartbeat(self, *, answer_is_lost: bool = False) -> HeartbeatResult:
        """Raises the group's error, after it has dropped its partitions where required."""
        try:
            result = self.broker.send(self.request())
        except BrokerError as error:
            if error.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
                self.drop_everything()
            raise
        if answer_is_lost:
            self.must_send_all = True
        else:
            self._hear(result)
        return result

    def request(self) -> Heartbeat:
        everything = self.must_send_all or self.epoch == 0
        return Heartbeat(
            group_id=GROUP_ID,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=self.rebalance_timeout_ms if everything else -1,
            subscribed_topic_names=self.topic_names if everything else None,
            subscribed_topic_regex=self.regex if everything else None,
            server_assignor=self.assignor if everything else None,
            owned_partitions=self.owned if everything or self.reported != self.owned else None,
        )

    def _hear(self, result: HeartbeatResult) -> None:
        self.reported = self.owned
        self.must_send_all = False
        self.epoch = result.member_epoch
        self.known_epochs.append(self.epoch)
        if result.assignment is not None:
            self.assignment = frozenset(
                TopicIdPartition(topic, index) for topic, indexes in result.assignment for index in indexes
            )
            self.owned |= self.assignment

    def give_up_the_rest(self) -> None:
        self.owned &= self.assignment

    def subscribe(self, *names: str) -> None:
        self.topic_names = names
        self.must_send_all = True

    def leave(self, epoch: int = -1) -> HeartbeatResult:
        self.drop_everything()
        return self.broker.send(Heartbeat(GROUP_ID, self.member_id, epoch, self.instance_id))

    def drop_everything(self) -> None:
        self.epoch = 0
        self.owned = self.assignment = frozenset()
        self.reported = None
        self.must_send_all = True
        self.known_epochs = []


def settle(*members: SimulatedMember, rounds: int = 4) -> None:
    """All members heartbeat and reconcile. Each round is one heartbeat interval."""
    for _ in range(rounds):
        for member in members:
            member.heartbeat()
            member.give_up_the_rest()
        members[0].broker.advance(1_000)
