"""Groups that change their kind while they have members (KIP-848): classic to consumer and back.

A classic group becomes one of the newer protocol when the first member of that protocol joins it, and a group of the
newer protocol becomes a classic one when the last such member has left and classic ones remain. Members keep their ids
and partitions, the generation continues as the group epoch, and offsets are not touched.

`group.consumer.migration.policy` decides which ways are open. Groups without members change their kind in any case.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from penstock.coordinator.classic_group import ClassicGroup
from penstock.coordinator.classic_messages import GroupSnapshot, MemberSnapshot
from penstock.coordinator.classic_subscription import CONSUMER_PROTOCOL_TYPE
from penstock.coordinator.consumer_group import ConsumerGroup
from penstock.coordinator.consumer_group_changes import (
    ClassicProtocols,
    ConsumerGroupChange,
    CurrentAssignment,
    CurrentAssignmentChanged,
    GroupEpoch,
    GroupEpochChanged,
    MemberMetadata,
    MemberMetadataChanged,
    TargetAssignmentChanged,
    TargetEpoch,
    TargetEpochChanged,
)
from penstock.coordinator.consumer_protocol import read_assignment, read_subscription, version_of, write_assignment
from penstock.coordinator.topic_partitions import TopicCatalogue
from penstock.core.errors import ProtocolError
from penstock.protocol.error_codes import BrokerError, ErrorCode


class MigrationPolicy(StrEnum):
    """The values of `group.consumer.migration.policy`, which Kafka reads in either case."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


def upgraded(
    group: ClassicGroup, catalogue: TopicCatalogue, policy: MigrationPolicy, max_size: int
) -> list[ConsumerGroupChange]:
    """The changes that make a consumer group of a classic one with members. GROUP_ID_NOT_FOUND where it must not be."""
    if not policy.allows_upgrade:
        raise _not_upgraded(group, f"group.consumer.migration.policy is {policy}")
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise _not_upgraded(group, f"its members use the protocol {group.protocol_type!r}")
    members = group.members()
    if len(members) > max_size:
        raise _not_upgraded(group, f"it has more than {max_size} members")
    topic_ids = {topic.name: topic.topic_id for topic in catalogue.values()}
    epoch = group.generation_id
    changes: list[ConsumerGroupChange] = [
        GroupEpochChanged(GroupEpoch(epoch, 0)),
        # Without a time, so that the member that joins gets its assignment at once.
        TargetEpochChanged(TargetEpoch(epoch, 0)),
    ]
    for member in members:
        try:
            subscription = read_subscription(member.protocols[0].metadata, topic_ids)
            assigned = read_assignment(member.assignment, topic_ids)
        except ProtocolError as error:
            raise _not_upgraded(group, str(error)) from None
        metadata = MemberMetadata(
            member_id=member.member_id,
            instance_id=member.instance_id,
            rack_id=subscription.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=subscription.topics,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            classic=ClassicProtocols(member.session_timeout_ms, member.protocols),
        )
        changes += [
            MemberMetadataChanged(member.member_id, metadata),
            TargetAssignmentChanged(member.member_id, assigned),
            CurrentAssignmentChanged(
                member.member_id, CurrentAssignment(epoch, epoch, assigned=dict.fromkeys(assigned, epoch))
            ),
        ]
    return changes


def is_to_be_downgraded(group: ConsumerGroup, policy: MigrationPolicy, max_size: int) -> bool:
    """Whether only classic members are left of it."""
    members = group.state.members
    return (
        policy.allows_downgrade
        and 0 < len(members) <= max_size
        and all(member.classic is not None for member in members.values())
    )


def downgraded(group: ConsumerGroup, now_ms: int) -> GroupSnapshot:
    """The classic group of the members. It has to rebalance: none of them leads, and partitions are unassigned."""
    classic = {
        member_id: (member, member.classic)
        for member_id, member in group.state.members.items()
        if member.classic is not None
    }
    protocol_name = _common_protocol([protocols for _, protocols in classic.values()])
    topic_names = group.topic_names()
    members: list[MemberSnapshot] = []
    for member_id, (member, protocols) in classic.items():
        subscription = next(each.metadata for each in protocols.protocols if each.name == protocol_name)
        assigned = group.state.current(member_id).assigned
        members.append(
            MemberSnapshot(
                member_id=member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=protocols.session_timeout_ms,
                subscription=subscription,
                assignment=write_assignment(assigned, topic_names, version_of(subscription)),
            )
        )
    return GroupSnapshot(
        group_id=group.group_id,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        generation_id=group.state.group.epoch,
        protocol_name=protocol_name,
        leader_id=members[0].member_id,
        state_timestamp_ms=now_ms,
        members=tuple(members),
    )


def _common_protocol(members: list[ClassicProtocols]) -> str:
    """The protocol that most members prefer among those that all have; a join without one was refused."""
    common = frozenset.intersection(*(member.names for member in members))
    votes = Counter(next(each.name for each in member.protocols if each.name in common) for member in members)
    return votes.most_common(1)[0][0]


def _not_upgraded(group: ClassicGroup, reason: str) -> BrokerError:
    return BrokerError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"The classic group {group.group_id!r} cannot become a consumer group: {reason}.",
    )
