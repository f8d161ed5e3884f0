"""Deadlines of group members: the session timeout of each, and the rebalance timeout of those that must revoke
partitions, or as classic members must join or sync.

Every heartbeat extends a session, so the next deadline is a lower bound: it is never late, may be early, and becomes
exact when it is reached. The cost of a heartbeat does not depend on the number of members.
"""

from __future__ import annotations


class MemberDeadlines:
    def __init__(self) -> None:
        self._sessions: dict[str, int] = {}
        self._rebalances: dict[str, int] = {}
        self._next_ms: int | None = None

    def start_session(self, member_id: str, deadline_ms: int) -> None:
        self._sessions[member_id] = deadline_ms
        self._bring_forward(deadline_ms)

    def start_rebalance(self, member_id: str, deadline_ms: int) -> None:
        self._rebalances[member_id] = deadline_ms
        self._bring_forward(deadline_ms)

    def is_rebalancing(self, member_id: str) -> bool:
        return member_id in self._rebalances

    def end_rebalance(self, member_id: str) -> None:
        self._rebalances.pop(member_id, None)

    def remove(self, member_id: str) -> None:
        self._sessions.pop(member_id, None)
        self._rebalances.pop(member_id, None)
        if not self._sessions:
            self._next_ms = None

    def next_ms(self) -> int | None:
        return self._next_ms

    def expired(self, now_ms: int) -> list[str]:
        """The members whose session or rebalance timeout has expired, sorted by member id.

        The caller must remove them: they no longer count for the next deadline.
        """
        if self._next_ms is None or now_ms < self._next_ms:
            return []
        expired = {
            member_id
            for deadlines in (self._sessions, self._rebalances)
            for member_id, deadline_ms in deadlines.items()
            if deadline_ms <= now_ms
        }
        remaining = (
            deadline_ms
            for deadlines in (self._sessions, self._rebalances)
            for member_id, deadline_ms in deadlines.items()
            if member_id not in expired
        )
        self._next_ms = min(remaining, default=None)
        return sorted(expired)

    def _bring_forward(self, deadline_ms: int) -> None:
        if self._next_ms is None or deadline_ms < self._next_ms:
            self._next_ms = deadline_ms
