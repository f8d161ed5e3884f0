"""The membership of a classic group: members, static instances, pending members, the leader, and common protocols.

It knows neither states nor time. Invariants: the leader is a member, and there is one while there are members; an
instance id belongs to one member; every member supports at least one protocol that all others support.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from penstock.coordinator.classic_member import ClassicMember
from penstock.coordinator.classic_messages import MemberProtocol, ReplyToken
from penstock.protocol.error_codes import BrokerError, ErrorCode


class Membership:
    def __init__(self) -> None:
        self.members: dict[str, ClassicMember] = {}
        self.leader_id: str | None = None
        self.protocol_type: str | None = None
        self.pending_members: dict[str, int] = {}
        """Member ids that were assigned and not yet used to join (KIP-394), with their deadlines."""
        self.awaiting_join_count = 0
        self._member_ids_by_instance: dict[str, str] = {}
        self._support: Counter[str] = Counter()

    def find(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """The member of a request. Raises BrokerError; an instance id fences all member ids but its latest."""
        if instance_id is not None:
            owner = self._member_ids_by_instance.get(instance_id)
            if owner is None:
                raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID)
            if owner != member_id:
                raise BrokerError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def static_member(self, instance_id: str | None) -> ClassicMember | None:
        member_id = None if instance_id is None else self._member_ids_by_instance.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def is_leader(self, member: ClassicMember) -> bool:
        return member.member_id == self.leader_id

    @property
    def all_have_joined(self) -> bool:
        """Whether all members have joined the rebalance, and no pending member is left."""
        return self.awaiting_join_count == len(self.members) and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest of all members, and at least 1 ms, so that a rebalance always takes time."""
        return max(1, max((member.rebalance_timeout_ms for member in self.members.values()), default=0))

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        self.pending_members.pop(member.member_id, None)
        self.members[member.member_id] = member
        self._support.update(member.protocol_names)
        if member.instance_id is not None:
            self._member_ids_by_instance[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member: ClassicMember) -> None:
        assert member.join_token is None, "its response would be lost"
        assert member.sync_token is None, "its response would be lost"
        del self.members[member.member_id]
        self._withdraw_support(member)
        if member.instance_id is not None:
            del self._member_ids_by_instance[member.instance_id]
        if self.is_leader(member):
            self.leader_id = next(iter(self.members), None)

    def rename_static(self, member: ClassicMember, member_id: str) -> None:
        """The instance returned under a new member id; the old one is fenced from now on."""
        assert member.instance_id is not None
        was_leader = self.is_leader(member)
        del self.members[member.member_id]
        member.member_id = member_id
        self.members[member_id] = member
        self._member_ids_by_instance[member.instance_id] = member_id
        if was_leader:
            self.leader_id = member_id

    def change_protocols(self, member: ClassicMember, protocols: tuple[MemberProtocol, ...]) -> None:
        if protocols == member.protocols:
            return  # the usual case for a member that rejoins
        self._withdraw_support(member)
        member.protocols = protocols
        self._support.update(member.protocol_names)

    def await_join(self, member: ClassicMember, token: ReplyToken) -> None:
        assert member.join_token is None, "the earlier response would be lost"
        member.join_token = token
        self.awaiting_join_count += 1

    def take_join_token(self, member: ClassicMember) -> ReplyToken | None:
        token, member.join_token = member.join_token, None
        if token is not None:
            self.awaiting_join_count -= 1
        return token

    def elect_joined_leader(self) -> bool:
        """Keeps a leader that has joined this rebalance, or elects the first member that has; False if none has."""
        if self.leader_id is not None and self.members[self.leader_id].join_token is not None:
            return True
        joined = next((member for member in self.members.values() if member.join_token is not None), None)
        if joined is None:
            return False
        self.leader_id = joined.member_id
        return True

    def supports(self, protocol_type: str, protocols: Collection[MemberProtocol]) -> bool:
        """Whether a member with these protocols can join. The first member decides the protocol type of the group."""
        if not self.members:
            return protocol_type != "" and len(protocols) > 0
        return protocol_type == self.protocol_type and any(
            self._support[protocol.name] == len(self.members) for protocol in protocols
        )

    def select_protocol(self) -> str:
        """The protocol that most members prefer among those that all support."""
        candidates = {name for name, count in self._support.items() if count == len(self.members)}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def _withdraw_support(self, member: ClassicMember) -> None:
        self._support -= Counter(member.protocol_names)
