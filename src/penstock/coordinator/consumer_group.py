"""A group of the consumer protocol (KIP-848): the broker assigns, and members reconcile one by one.

Owns: membership, epochs and fencing, the target assignment and its reconciliation, session and rebalance timeouts.
Must never know: sockets, timers, records. The time is an argument, and changes to write are return values.

The group epoch is bumped when members, subscriptions or subscribed topics change. The next heartbeat of any member
computes a target assignment for it, once the assignment interval is over, and each member's heartbeats reconcile the
member with it (`reconciliation.py`).

Invariant: a partition is assigned to a member only when no other member holds it or has yet to release it, unless that
member has left, its session has expired, or it did not release the partition within its rebalance timeout.
Invariant: a call that raises changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from penstock.coordinator.assignors import ASSIGNORS, AssignableMember
from penstock.coordinator.consumer_group_changes import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroupChange,
    CurrentAssignment,
    CurrentAssignmentChanged,
    GroupEpoch,
    GroupEpochChanged,
    MemberMetadata,
    MemberMetadataChanged,
    MemberState,
    TargetAssignmentChanged,
    TargetEpoch,
    TargetEpochChanged,
    member_removed,
)
from penstock.coordinator.consumer_group_description import DescribedGroup, described_group
from penstock.coordinator.consumer_group_messages import (
    ConsumerGroupSettings,
    Heartbeat,
    HeartbeatResult,
    updated_metadata,
)
from penstock.coordinator.consumer_group_state import ConsumerGroupState, GroupPhase
from penstock.coordinator.consumer_group_subscriptions import Subscriptions
from penstock.coordinator.member_deadlines import MemberDeadlines
from penstock.coordinator.reconciliation import reconcile
from penstock.coordinator.topic_partitions import TopicCatalogue, by_topic
from penstock.core.ids import TopicIdPartition
from penstock.protocol.error_codes import BrokerError, ErrorCode

_EPOCH_ONLY_COMMITS_SINCE: Final = 9  # OffsetCommit: earlier versions have no error code for a stale epoch


class ConsumerGroup:
    def __init__(self, group_id: str, settings: ConsumerGroupSettings, catalogue: TopicCatalogue) -> None:
        self.group_id = group_id
        self.settings = settings
        self.state = ConsumerGroupState()
        self._subscriptions = Subscriptions(catalogue)
        self._topics_may_have_changed = False
        self.deadlines = MemberDeadlines()
        self._unwritten: list[ConsumerGroupChange] = []

    @classmethod
    def restore(
        cls,
        group_id: str,
        settings: ConsumerGroupSettings,
        catalogue: TopicCatalogue,
        changes: Iterable[ConsumerGroupChange],
        now_ms: int,
    ) -> ConsumerGroup:
        """The group of these changes: the last one of each key, in any order. All timeouts start from now."""
        group = cls(group_id, settings, catalogue)
        group.state.restore(changes)
        group._topics_may_have_changed = True
        for member_id in group.state.members:
            group.start_session(member_id, now_ms)
            group._time_revocation(member_id, now_ms)
        return group

    # Heartbeats

    def heartbeat(self, heartbeat: Heartbeat, now_ms: int) -> tuple[HeartbeatResult, list[ConsumerGroupChange]]:
        """The response, and the changes to write before it is sent. Raises BrokerError.

        The caller has called `check_heartbeat`, and has generated a member id where the request has none.
        """
        if heartbeat.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            return self._leave(heartbeat)
        earlier_id = self._identify(heartbeat)
        metadata = updated_metadata(self.state.members.get(earlier_id), heartbeat)
        if heartbeat.subscribed_topic_regex:
            self._subscriptions.check_pattern(heartbeat.subscribed_topic_regex)
        member_id = heartbeat.member_id
        stood, current = self.admit(earlier_id, metadata, heartbeat.owned_partitions, now_ms)
        is_news = heartbeat.is_full or (current is not stood and current.assigned.keys() != stood.assigned.keys())
        result = HeartbeatResult(
            member_id,
            current.member_epoch,
            self.settings.heartbeat_interval_ms,
            by_topic(current.assigned) if is_news else None,
        )
        return result, self.take_changes()

    def admit(
        self, earlier_id: str, metadata: MemberMetadata, owned: frozenset[TopicIdPartition] | None, now_ms: int
    ) -> tuple[CurrentAssignment, CurrentAssignment]:
        """Takes a member in, or what is new of it, and reconciles it: what it had, and what it has now.

        `earlier_id` is the member's own id, or that of the static member that it replaces.
        """
        member_id = metadata.member_id
        before = self.state.members.get(earlier_id)
        merges_two = earlier_id != member_id and member_id in self.state.members
        if earlier_id != member_id or self.state.current(earlier_id).member_epoch == STATIC_LEAVE_EPOCH:
            self._take_over(earlier_id, metadata)
        elif metadata is not before:
            self._change(MemberMetadataChanged(member_id, metadata))
        self._advance_group_epoch(
            subscription_changed=metadata is not before
            and (before is None or merges_two or not metadata.subscribes_like(before))
        )
        if self.awaits_target(now_ms):
            self._compute_target(now_ms)
        stood = self.state.current(member_id)
        current = self._reconcile(member_id, owned, now_ms)
        self.start_session(member_id, now_ms)
        return stood, current

    def start_session(self, member_id: str, now_ms: int) -> None:
        """A classic member chose its session timeout; for others the group's setting applies."""
        classic = self.state.members[member_id].classic
        timeout_ms = self.settings.session_timeout_ms if classic is None else classic.session_timeout_ms
        self.deadlines.start_session(member_id, now_ms + timeout_ms)

    def _identify(self, heartbeat: Heartbeat) -> str:
        """The known member id: its own, or that of the static member that it replaces."""
        member_id, instance_id = heartbeat.member_id, heartbeat.instance_id
        static_id = self.state.static_members.get(instance_id) if instance_id is not None else None
        if heartbeat.member_epoch != JOIN_EPOCH:
            self.check_known(member_id, instance_id)
            if self.state.members[member_id].classic is not None:
                raise self._unknown_member(f"id {member_id!r} that uses this protocol")
            self._check_epoch(heartbeat)
            return member_id
        if static_id is not None and static_id != member_id:
            # Kafka also refuses the same member when it joins again, for instance because the response to its join was
            # lost. Accepting it is safe. A classic member never says that it leaves for a while: it is replaced.
            has_left = self.state.current(static_id).member_epoch == STATIC_LEAVE_EPOCH
            if not has_left and self.state.members[static_id].classic is None:
                raise BrokerError(
                    ErrorCode.UNRELEASED_INSTANCE_ID,
                    f"The instance id {instance_id!r} is in use by another member of the group {self.group_id!r}.",
                )
            return static_id
        if member_id not in self.state.members and len(self.state.members) >= self.settings.max_size:
            raise BrokerError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The group {self.group_id!r} is full: at most {self.settings.max_size} members are allowed.",
            )
        return member_id

    def check_known(self, member_id: str, instance_id: str | None) -> None:
        if instance_id is not None:
            static_id = self.state.static_members.get(instance_id)
            if static_id is None:
                raise self._unknown_member(f"instance id {instance_id!r}")
            if static_id != member_id:
                raise BrokerError(
                    ErrorCode.FENCED_INSTANCE_ID,
                    f"The instance id {instance_id!r} now belongs to another member of the group {self.group_id!r}.",
                )
        elif member_id not in self.state.members:
            raise self._unknown_member(f"id {member_id!r}")

    def _unknown_member(self, who: str) -> BrokerError:
        return BrokerError(ErrorCode.UNKNOWN_MEMBER_ID, f"The group {self.group_id!r} has no member with the {who}.")

    def _check_epoch(self, heartbeat: Heartbeat) -> None:
        """A member may be one epoch behind if the response with the new epoch was lost.

        It is accepted if it owns only partitions that are assigned to it.
        """
        current = self.state.current(heartbeat.member_id)
        epoch, owned = heartbeat.member_epoch, heartbeat.owned_partitions
        if epoch == current.member_epoch:
            return
        lost_an_answer = epoch == current.previous_member_epoch and current.member_epoch > epoch
        if not (lost_an_answer and owned is not None and owned <= current.assigned.keys()):
            raise BrokerError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"The member is at epoch {epoch}, the group has it at epoch {current.member_epoch}. "
                "It must release its partitions and rejoin.",
            )

    def _take_over(self, earlier_id: str, metadata: MemberMetadata) -> None:
        """A static member returns, usually under a new member id, and inherits the assignment of the former one."""
        current = replace(self.state.current(earlier_id), member_epoch=JOIN_EPOCH, previous_member_epoch=JOIN_EPOCH)
        if earlier_id != metadata.member_id:
            target = self.state.target_of(earlier_id)
            self._remove_member(earlier_id)
            self._change(TargetAssignmentChanged(metadata.member_id, target))
        self._change(MemberMetadataChanged(metadata.member_id, metadata))
        self._change(CurrentAssignmentChanged(metadata.member_id, current))

    # Leaving

    def _leave(self, heartbeat: Heartbeat) -> tuple[HeartbeatResult, list[ConsumerGroupChange]]:
        member_id = heartbeat.member_id
        self.check_known(member_id, heartbeat.instance_id)
        if heartbeat.member_epoch == STATIC_LEAVE_EPOCH:
            self._expect_back(member_id)
        else:
            self.remove([member_id])
        return HeartbeatResult(member_id, heartbeat.member_epoch), self.take_changes()

    def _expect_back(self, member_id: str) -> None:
        """A static member leaves temporarily and keeps its assignment until its session expires.

        Its pending revocations are complete. Its partitions get assignment epoch 0, so that the returning member may
        commit for them under any epoch.
        """
        current = self.state.current(member_id)
        left = replace(
            current,
            member_epoch=STATIC_LEAVE_EPOCH,
            assigned=dict.fromkeys(current.assigned, JOIN_EPOCH),
            pending_revocation={},
        )
        self._change(CurrentAssignmentChanged(member_id, left))
        self.deadlines.end_rebalance(member_id)

    def remove(self, member_ids: Iterable[str]) -> None:
        for member_id in member_ids:
            self._remove_member(member_id)
        self._advance_group_epoch(subscription_changed=True)

    def _remove_member(self, member_id: str) -> None:
        for change in member_removed(member_id):
            self._change(change)
        self.deadlines.remove(member_id)

    # Epochs and assignments

    def _advance_group_epoch(self, *, subscription_changed: bool) -> None:
        if not (subscription_changed or self._topics_may_have_changed):
            return
        self._topics_may_have_changed = False
        self._subscriptions.drop_unused(self.state.members.values())
        metadata_hash = self._subscriptions.metadata_hash(self.state.members.values())
        if subscription_changed or metadata_hash != self.state.group.metadata_hash:
            self._change(GroupEpochChanged(GroupEpoch(self.state.group.epoch + 1, metadata_hash)))

    def awaits_target(self, now_ms: int) -> bool:
        """Whether a new target is due. Members stay with the last one for the assignment interval (KIP-1263)."""
        if self.state.group.epoch <= self.state.target.assignment_epoch:
            return False
        elapsed_ms = now_ms - self.state.target.assignment_timestamp_ms
        # A clock that was set back must not hold the group up.
        return not 0 <= elapsed_ms < self.settings.assignment_interval_ms

    def _compute_target(self, now_ms: int) -> None:
        members = self.state.members
        assignable = [
            AssignableMember(
                member_id,
                metadata.instance_id,
                self._subscriptions.resolve(metadata).topic_ids,
                self.state.target_of(member_id),
            )
            for member_id, metadata in members.items()
        ]
        topics = self._subscriptions.subscribed_topics(members.values())
        partition_counts = {topic.topic_id: topic.partition_count for topic in topics}
        for member_id, partitions in ASSIGNORS[self._assignor_name()](assignable, partition_counts).items():
            if partitions != self.state.target_of(member_id):
                self._change(TargetAssignmentChanged(member_id, partitions))
        self._change(TargetEpochChanged(TargetEpoch(self.state.group.epoch, now_ms)))

    def _assignor_name(self) -> str:
        """The assignor that most members request; on a tie, or without requests, the first of the settings."""
        wishes = [metadata.server_assignor for metadata in self.state.members.values()]
        return max(self.settings.assignors, key=wishes.count)

    def _reconcile(self, member_id: str, owned: frozenset[TopicIdPartition] | None, now_ms: int) -> CurrentAssignment:
        before = self.state.current(member_id)
        owners = self.state.owners

        def is_taken(partition: TopicIdPartition) -> bool:
            return owners.get(partition, member_id) != member_id

        current = reconcile(
            before,
            self.state.target_of(member_id),
            self.state.target.assignment_epoch,
            owned,
            is_taken,
        )
        if current is before or current == before:
            return before
        self._change(CurrentAssignmentChanged(member_id, current))
        self._time_revocation(member_id, now_ms)
        return current

    def _time_revocation(self, member_id: str, now_ms: int) -> None:
        if self.state.current(member_id).state is MemberState.UNREVOKED_PARTITIONS:
            timeout_ms = max(0, self.state.members[member_id].rebalance_timeout_ms)
            self.deadlines.start_rebalance(member_id, now_ms + timeout_ms)
        else:
            self.deadlines.end_rebalance(member_id)

    def topic_names(self) -> dict[bytes, str]:
        return self._subscriptions.topic_names()

    def topic_ids(self) -> dict[str, bytes]:
        return {name: topic_id for topic_id, name in self.topic_names().items()}

    def topics_changed(self, catalogue: TopicCatalogue) -> None:
        """The cluster's topics have changed. The next heartbeat checks whether subscribed topics are among them."""
        self._subscriptions.replace_catalogue(catalogue)
        self._topics_may_have_changed = True

    # Deadlines

    def next_deadline_ms(self) -> int | None:
        """When to call `tick`: never too late, but possibly too early, because heartbeats extend sessions."""
        return self.deadlines.next_ms()

    def tick(self, now_ms: int) -> list[ConsumerGroupChange]:
        """Removes the members whose session or rebalance timeout has expired."""
        if expired := self.deadlines.expired(now_ms):
            self.remove(expired)
        return self.take_changes()

    # Queries

    @property
    def is_empty(self) -> bool:
        return not self.state.members

    @property
    def phase(self) -> GroupPhase:
        return self.state.phase

    def is_subscribed_to(self, topic_name: str) -> bool:
        return self._subscriptions.include(topic_name, self.state.members.values())

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, member_epoch: int, *, api_version: int, transactional: bool
    ) -> frozenset[TopicIdPartition] | None:
        """None if the member may commit all offsets, else the partitions for which it may (KIP-1251).

        The others fail with STALE_MEMBER_EPOCH. Raises BrokerError if no commit is allowed.
        """
        if member_epoch < 0 and self.is_empty:
            return None  # an administrator, not a member
        if transactional and member_epoch == LEAVE_EPOCH and not member_id and instance_id is None:
            return None  # a transactional producer that does not identify a member
        self.check_known(member_id, None)
        is_classic = self.state.members[member_id].classic is not None
        if not transactional and not is_classic and api_version < _EPOCH_ONLY_COMMITS_SINCE:
            raise BrokerError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"A member of the group {self.group_id!r} must commit with OffsetCommit 9 or newer.",
            )
        current = self.state.current(member_id)
        if member_epoch == current.member_epoch:
            return None
        if is_classic:
            raise BrokerError(ErrorCode.ILLEGAL_GENERATION)
        if member_epoch > current.member_epoch:
            raise self._stale_epoch(member_epoch, current.member_epoch)
        held = {**current.pending_revocation, **current.assigned}
        return frozenset(partition for partition, since_epoch in held.items() if since_epoch <= member_epoch)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raises BrokerError. A request without id and epoch does not come from a member and is allowed."""
        if member_id is None and member_epoch < 0:
            return
        self.check_known(member_id or "", None)
        current_epoch = self.state.current(member_id or "").member_epoch
        if member_epoch != current_epoch:
            raise self._stale_epoch(member_epoch, current_epoch)

    def _stale_epoch(self, given: int, current: int) -> BrokerError:
        return BrokerError(
            ErrorCode.STALE_MEMBER_EPOCH, f"The request is of member epoch {given}, the member is at epoch {current}."
        )

    def describe(self) -> DescribedGroup:
        return described_group(self.group_id, self.state, self._assignor_name(), self._subscriptions.topic_names())

    def delete(self) -> list[ConsumerGroupChange]:
        """The tombstones of the group. Raises BrokerError(NON_EMPTY_GROUP) while it has members."""
        if not self.is_empty:
            raise BrokerError(ErrorCode.NON_EMPTY_GROUP, f"The group {self.group_id!r} has members.")
        return self.tombstones()

    def tombstones(self) -> list[ConsumerGroupChange]:
        """What makes the log forget the group with all of its members."""
        of_members = [change for member_id in self.state.members for change in member_removed(member_id)]
        return [*of_members, TargetEpochChanged(None), GroupEpochChanged(None)]

    def _change(self, change: ConsumerGroupChange) -> None:
        self.state.apply(change)
        self._unwritten.append(change)

    def take_changes(self) -> list[ConsumerGroupChange]:
        unwritten, self._unwritten = self._unwritten, []
        return unwritten
