"""Who is in a classic group: members, static instances, promised member ids, the leader, and the protocols they share.

It knows neither states nor time. Invariants: the leader is a member, and there is one as long as there are members; an
instance id belongs to one member; every member offers at least one protocol that all the others offer too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from penstock.coordinator.classic_member import ClassicMember
from penstock.coordinator.classic_messages import MemberProtocol, ReplyToken
from penstock.protocol.error_codes import BrokerError, ErrorCode


class Roster:
    def __init__(self) -> None:
        self.members: dict[str, ClassicMember] = {}
        self.leader_id: str | None = None
        self.protocol_type: str | None = None
        self.promised: dict[str, int] = {}
        """Member ids that were given out and not yet used to join, with the time until which that may happen."""
        self.awaiting_join_count = 0
        self._member_ids_by_instance: dict[str, str] = {}
        self._support: Counter[str] = Counter()

    def find(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """The member that a request speaks for, or why it may not: an instance id fences all but its last owner."""
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
        """Nobody is missing in the rebalance, not even those who were promised a member id."""
        return self.awaiting_join_count == len(self.members) and not self.promised

    @property
    def rebalance_timeout_ms(self) -> int:
        """The most patient member decides. At least a moment, so that a rebalance always takes time."""
        return max(1, max((member.rebalance_timeout_ms for member in self.members.values()), default=0))

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        self.promised.pop(member.member_id, None)
        self.members[member.member_id] = member
        self._support.update(member.protocol_names)
        if member.instance_id is not None:
            self._member_ids_by_instance[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member: ClassicMember) -> None:
        assert member.join_token is None, "its answer would be lost"
        assert member.sync_token is None, "its answer would be lost"
        del self.members[member.member_id]
        self._withdraw_support(member)
        if member.instance_id is not None:
            del self._member_ids_by_instance[member.instance_id]
        if self.is_leader(member):
            self.leader_id = next(iter(self.members), None)

    def rename_static(self, member: ClassicMember, member_id: str) -> None:
        """The instance came back under a new member id; the old one is fenced from here on."""
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
            return  # so it is with nearly every member that comes back for a rebalance
        self._withdraw_support(member)
        member.protocols = protocols
        self._support.update(member.protocol_names)

    def await_join(self, member: ClassicMember, token: ReplyToken) -> None:
        assert member.join_token is None, "the earlier answer would be lost"
        member.join_token = token
        self.awaiting_join_count += 1

    def take_join_token(self, member: ClassicMember) -> ReplyToken | None:
        token, member.join_token = member.join_token, None
        if token is not None:
            self.awaiting_join_count -= 1
        return token

    def elect_joined_leader(self) -> bool:
        """Keeps the leader if it is back in this rebalance, else takes the first member that is; False if nobody is."""
        if self.leader_id is not None and self.members[self.leader_id].join_token is not None:
            return True
        joined = next((member for member in self.members.values() if member.join_token is not None), None)
        if joined is None:
            return False
        self.leader_id = joined.member_id
        return True

    def supports(self, protocol_type: str, protocols: Collection[MemberProtocol]) -> bool:
        """Whether somebody of this kind can be in the group. The first member decides what kind of group it is."""
        if not self.members:
            return protocol_type != "" and len(protocols) > 0
        return protocol_type == self.protocol_type and any(
            self._support[protocol.name] == len(self.members) for protocol in protocols
        )

    def select_protocol(self) -> str:
        """Of the protocols that all offer, the one that most members like best."""
        candidates = {name for name, count in self._support.items() if count == len(self.members)}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def _withdraw_support(self, member: ClassicMember) -> None:
        self._support -= Counter(member.protocol_names)
