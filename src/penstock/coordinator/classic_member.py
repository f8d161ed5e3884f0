"""A member of a classic group: its metadata, its assignment, and the responses it waits for.

It knows no group. Its session expires after the session timeout without a request. The timeout is suspended while the
member waits for a response, except for a new member: its client may be gone, and it cannot heartbeat before its first
response.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from penstock.coordinator.classic_messages import JoinRequest, MemberProtocol, MemberSnapshot, ReplyToken


@dataclass(slots=True, eq=False)
class ClassicMember:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[MemberProtocol, ...]
    assignment: bytes = b""
    is_new: bool = False
    """Whether its first join has not been answered yet."""
    awaits_sync: bool = False
    """Whether it received the generation and has not requested its assignment yet."""
    join_token: ReplyToken | None = None
    sync_token: ReplyToken | None = None
    expires_at_ms: int = 0

    @classmethod
    def joining(cls, member_id: str, request: JoinRequest) -> ClassicMember:
        return cls(
            member_id=member_id,
            instance_id=request.instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.join_timeout_ms,
            protocols=request.protocols,
            is_new=True,
        )

    @classmethod
    def restored(cls, snapshot: MemberSnapshot, protocol_name: str) -> ClassicMember:
        # Records of the first version have no rebalance timeout.
        rebalance_timeout_ms = snapshot.rebalance_timeout_ms
        return cls(
            member_id=snapshot.member_id,
            instance_id=snapshot.instance_id,
            client_id=snapshot.client_id,
            client_host=snapshot.client_host,
            session_timeout_ms=snapshot.session_timeout_ms,
            rebalance_timeout_ms=snapshot.session_timeout_ms if rebalance_timeout_ms == -1 else rebalance_timeout_ms,
            protocols=(MemberProtocol(protocol_name, snapshot.subscription),),
            assignment=snapshot.assignment,
        )

    def snapshot(self, protocol_name: str | None) -> MemberSnapshot:
        return MemberSnapshot(
            member_id=self.member_id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            subscription=self.metadata(protocol_name),
            assignment=self.assignment,
        )

    @property
    def session_deadline_ms(self) -> int | None:
        """None while it waits for a response."""
        is_waiting = self.join_token is not None or self.sync_token is not None
        return None if is_waiting and not self.is_new else self.expires_at_ms

    @property
    def protocol_names(self) -> frozenset[str]:
        return frozenset(protocol.name for protocol in self.protocols)

    def metadata(self, protocol_name: str | None) -> bytes:
        """Its metadata for a protocol; empty for one that it does not support."""
        return next((protocol.metadata for protocol in self.protocols if protocol.name == protocol_name), b"")

    def vote(self, candidates: Collection[str]) -> str:
        """Its preferred candidate. Members list their protocols in order of preference."""
        return next(protocol.name for protocol in self.protocols if protocol.name in candidates)
