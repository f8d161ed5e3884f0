"""ConsumerGroupHeartbeat requests and responses as plain values.

Owns: the validation that does not depend on the group's state, and the meaning of omitted fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.coordinator.consumer_group_changes import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH, MemberMetadata
from penstock.coordinator.topic_partitions import PartitionsByTopic
from penstock.core.ids import TopicIdPartition
from penstock.protocol.error_codes import BrokerError, ErrorCode

NOT_GIVEN_MS: Final = -1


@dataclass(frozen=True, slots=True)
class ConsumerGroupSettings:
    """The broker's `group.consumer.*` settings, or a group's own `consumer.*` settings."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    """Names from `assignors.ASSIGNORS`. The first is the default."""
    assignment_interval_ms: int = 0
    """The shortest time between two target assignments (KIP-1263)."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """One ConsumerGroupHeartbeat request. None (-1 for the timeout) means unchanged since the last heartbeat."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = NOT_GIVEN_MS
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    owned_partitions: frozenset[TopicIdPartition] | None = None
    client_id: str = ""
    client_host: str = ""

    @property
    def is_full(self) -> bool:
        """Whether it has all fields, as a client sends them after an error or a lost response."""
        return self.member_epoch == JOIN_EPOCH or (
            self.rebalance_timeout_ms != NOT_GIVEN_MS
            and (self.subscribed_topic_names is not None or self.subscribed_topic_regex is not None)
            and self.owned_partitions is not None
        )

    @property
    def describes_member(self) -> bool:
        """Whether it has any metadata of the member. Most heartbeats have none."""
        return (
            self.subscribed_topic_names is not None
            or self.subscribed_topic_regex is not None
            or self.rebalance_timeout_ms != NOT_GIVEN_MS
            or self.server_assignor is not None
            or self.rack_id is not None
            or self.instance_id is not None
        )


@dataclass(frozen=True, slots=True)
class HeartbeatResult:
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: PartitionsByTopic | None = None
    """The member's new assignment; None if it is unchanged."""


def check_heartbeat(heartbeat: Heartbeat, api_version: int, settings: ConsumerGroupSettings) -> None:
    """Raises BrokerError for an invalid request. Call it before the group is looked up.

    Since version 1 clients generate their member id (KIP-1082); before, an empty id requests one from the broker.
    """
    joins = heartbeat.member_epoch == JOIN_EPOCH
    names_itself = api_version >= 1 or heartbeat.member_epoch > JOIN_EPOCH or heartbeat.member_epoch == LEAVE_EPOCH
    wrong: str | None = None
    if names_itself and not heartbeat.member_id:
        wrong = "The member id must not be empty."
    elif not heartbeat.group_id:
        wrong = "The group id must not be empty."
    elif heartbeat.instance_id is not None and not heartbeat.instance_id:
        wrong = "The instance id must not be empty."
    elif heartbeat.rack_id is not None and not heartbeat.rack_id:
        wrong = "The rack id must not be empty."
    elif joins and heartbeat.rebalance_timeout_ms == NOT_GIVEN_MS:
        wrong = "A member that joins must give its rebalance timeout."
    elif joins and (heartbeat.owned_partitions is None or heartbeat.owned_partitions):
        wrong = "A member that joins must say that it owns no partitions."
    elif joins and heartbeat.subscribed_topic_names is None and heartbeat.subscribed_topic_regex is None:
        wrong = "A member that joins must subscribe to topics, by name or by a pattern."
    elif heartbeat.member_epoch == STATIC_LEAVE_EPOCH and heartbeat.instance_id is None:
        wrong = "Only a member with an instance id can leave for a while."
    elif heartbeat.member_epoch < STATIC_LEAVE_EPOCH:
        wrong = f"The member epoch {heartbeat.member_epoch} is not valid."
    if wrong is not None:
        raise BrokerError(ErrorCode.INVALID_REQUEST, wrong)
    if heartbeat.server_assignor is not None and heartbeat.server_assignor not in settings.assignors:
        raise BrokerError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"The assignor {heartbeat.server_assignor!r} is not supported; use one of {', '.join(settings.assignors)}.",
        )


def updated_metadata(before: MemberMetadata | None, heartbeat: Heartbeat) -> MemberMetadata:
    """The member's metadata after a heartbeat, which contains only changes; `before` itself if there are none."""
    known = before or MemberMetadata(heartbeat.member_id)
    is_same_client = (known.member_id, known.client_id, known.client_host) == (
        heartbeat.member_id,
        heartbeat.client_id,
        heartbeat.client_host,
    )
    if before is not None and is_same_client and not heartbeat.describes_member:
        return before
    names = heartbeat.subscribed_topic_names
    regex, timeout_ms = heartbeat.subscribed_topic_regex, heartbeat.rebalance_timeout_ms
    updated = MemberMetadata(
        member_id=heartbeat.member_id,
        instance_id=known.instance_id if heartbeat.instance_id is None else heartbeat.instance_id,
        rack_id=known.rack_id if heartbeat.rack_id is None else heartbeat.rack_id,
        client_id=heartbeat.client_id,
        client_host=heartbeat.client_host,
        subscribed_topic_names=known.subscribed_topic_names if names is None else tuple(sorted(set(names))),
        subscribed_topic_regex=known.subscribed_topic_regex if regex is None else regex,
        rebalance_timeout_ms=known.rebalance_timeout_ms if timeout_ms == NOT_GIVEN_MS else timeout_ms,
        server_assignor=known.server_assignor if heartbeat.server_assignor is None else heartbeat.server_assignor,
    )
    return before if updated == before else updated
