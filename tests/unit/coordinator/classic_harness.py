"""A classic group with a clock, and a ledger of its responses: each token is answered once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

from penstock.coordinator.classic_group import ClassicGroup, ClassicGroupSettings
from penstock.coordinator.classic_messages import (
    ClassicGroupState,
    Effect,
    GroupChanged,
    GroupSnapshot,
    JoinReply,
    JoinRequest,
    JoinResult,
    LeaveResult,
    LeavingMember,
    MemberProtocol,
    SyncReply,
    SyncRequest,
    SyncResult,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode

SESSION_MS = 10_000
REBALANCE_MS = 60_000
INITIAL_DELAY_MS = 3_000
RANGE = MemberProtocol("range", b"metadata")


class Harness:
    def __init__(self, settings: ClassicGroupSettings | None = None) -> None:
        self.now_ms = 1_000_000
        self.settings = settings or ClassicGroupSettings()
        self._uuids = count(1)
        self._tokens = count(1)
        self._unanswered: set[int] = set()
        self._joins: dict[int, JoinResult] = {}
        self._syncs: dict[int, SyncResult] = {}
        self._leaves: dict[int, tuple[LeaveResult, ...]] = {}
        self.history: list[Effect] = []
        self.start_again()

    def new_uuid(self) -> str:
        return f"uuid{next(self._uuids)}"

    def start_again(self) -> None:
        self.group = ClassicGroup("readers", self.settings, self.new_uuid)

    def restart(self, snapshot: GroupSnapshot) -> None:
        self.group = ClassicGroup.restore(snapshot, self.settings, self.new_uuid, self.now_ms)

    def join(
        self,
        member_id: str = "",
        instance_id: str | None = None,
        *,
        version: int = 9,
        client_id: str = "client",
        session_timeout_ms: int = SESSION_MS,
        rebalance_timeout_ms: int = REBALANCE_MS,
        protocol_type: str = "consumer",
        protocols: Sequence[MemberProtocol] = (RANGE,),
    ) -> int:
        request = JoinRequest(
            version,
            member_id,
            instance_id,
            client_id,
            "/127.0.0.1",
            session_timeout_ms,
            rebalance_timeout_ms,
            protocol_type,
            tuple(protocols),
        )
        return self._ask(lambda token: self.group.join(request, token, self.now_ms))

    def sync(
        self,
        member_id: str,
        generation_id: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance_id: str | None = None,
        version: int = 5,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
    ) -> int:
        pairs = tuple((assignments or {}).items())
        request = SyncRequest(version, member_id, instance_id, generation_id, protocol_type, protocol_name, pairs)
        return self._ask(lambda token: self.group.sync(request, token, self.now_ms))

    def leave(self, *members: LeavingMember) -> list[ErrorCode]:
        token = self._ask(lambda token: self.group.leave(members, token, self.now_ms))
        return [result.error for result in self._leaves[token]]

    def heartbeat(self, member_id: str, generation_id: int, instance_id: str | None = None) -> ErrorCode:
        try:
            self.group.heartbeat(member_id, instance_id, generation_id, self.now_ms)
        except BrokerError as error:
            return error.code
        return ErrorCode.NONE

    def close(self, error: ErrorCode) -> None:
        self._account(self.group.close(error, self.now_ms))

    def advance(self, elapsed_ms: int) -> None:
        """Like the shell: a tick at every deadline."""
        end_ms = self.now_ms + elapsed_ms
        while (deadline_ms := self.group.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.tick()
        self.now_ms = end_ms

    def tick(self) -> None:
        self._account(self.group.tick(self.now_ms))
        deadline_ms = self.group.next_deadline_ms()
        assert deadline_ms is None or deadline_ms > self.now_ms

    def is_waiting(self, token: int) -> bool:
        return token in self._unanswered

    def joined(self, token: int) -> JoinResult:
        return self._joins[token]

    def synced(self, token: int) -> SyncResult:
        return self._syncs[token]

    def state(self) -> ClassicGroupState:
        return self.group.state

    def is_idle(self) -> bool:
        return self.group.is_idle

    @property
    def changes(self) -> list[GroupSnapshot]:
        return self.changes_until(len(self.history))

    def changes_until(self, position: int) -> list[GroupSnapshot]:
        return [effect.snapshot for effect in self.history[:position] if isinstance(effect, GroupChanged)]

    # Ways to get there.

    def admit(self, **options: object) -> tuple[str, int]:
        """A dynamic member requests its id and joins with it; returns the id and the token of the pending join."""
        asking = self.joined(self.join(**options))  # type: ignore[arg-type]
        assert asking.error is ErrorCode.MEMBER_ID_REQUIRED
        return asking.member_id, self.join(asking.member_id, **options)  # type: ignore[arg-type]

    def stable(self, size: int = 1) -> list[str]:
        """A stable group of dynamic members in its first generation; the leader comes first."""
        admitted = [self.admit() for _ in range(size)]
        self.advance(INITIAL_DELAY_MS if size == 1 else 2 * INITIAL_DELAY_MS)
        member_ids = [member_id for member_id, _ in admitted]
        self.settle(member_ids)
        return member_ids

    def settle(self, member_ids: Sequence[str]) -> None:
        """All members sync, the leader first, with an assignment that contains the member id."""
        generation_id = self.group.generation_id
        for member_id in member_ids[1:]:
            self.sync(member_id, generation_id)
        self.sync(member_ids[0], generation_id, {member_id: member_id.encode() for member_id in member_ids})

    def _ask(self, call: Callable[[int], list[Effect]]) -> int:
        token = next(self._tokens)
        self._unanswered.add(token)
        self._account(call(token))
        return token

    def _account(self, effects: list[Effect]) -> None:
        self.history += effects
        for effect in effects:
            if isinstance(effect, GroupChanged):
                continue
            assert isinstance(effect.token, int)
            self._unanswered.remove(effect.token)
            if isinstance(effect, JoinReply):
                self._joins[effect.token] = effect.result
            elif isinstance(effect, SyncReply):
                self._syncs[effect.token] = effect.result
            else:
                self._leaves[effect.token] = effect.results
