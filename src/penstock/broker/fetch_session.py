"""Incremental fetch sessions (KIP-227): a consumer names its partitions once, then only what changed.

A session remembers, for each partition, what the client asked for last and what it was told last. The cache of sessions
is bounded; a client that cannot get one, or whose session was dropped, simply sends everything again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from penstock.core import limits
from penstock.protocol.error_codes import BrokerError, ErrorCode

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_EPOCH_MAX: Final = (1 << 31) - 1


class PartitionKey(NamedTuple):
    """A topic's id (from version 13 on) or its name, and the partition's index."""

    topic: str | bytes
    partition: int


class FetchPosition:
    """What one client wants of one partition, and what it was told of it last."""

    __slots__ = (
        "bytes_max",
        "current_leader_epoch",
        "fetch_offset",
        "key",
        "last_fetched_epoch",
        "told_high_watermark",
        "told_last_stable_offset",
        "told_log_start_offset",
    )

    def __init__(
        self, key: PartitionKey, fetch_offset: int, bytes_max: int, current_leader_epoch: int, last_fetched_epoch: int
    ) -> None:
        self.key = key
        self.fetch_offset = fetch_offset
        self.bytes_max = bytes_max
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.told_high_watermark = -1
        self.told_last_stable_offset = -1
        self.told_log_start_offset = -1

    def take(self, newer: FetchPosition) -> None:
        """The client asks for something else of this partition."""
        self.fetch_offset = newer.fetch_offset
        self.bytes_max = newer.bytes_max
        self.current_leader_epoch = newer.current_leader_epoch
        self.last_fetched_epoch = newer.last_fetched_epoch


class FetchSession:
    """One client's partitions, in the order in which they are served."""

    def __init__(self, session_id: int, uses_topic_ids: bool, positions: Iterable[FetchPosition], now_ms: int) -> None:
        self.session_id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.next_epoch = 1
        self.last_used_ms = now_ms
        self._positions: OrderedDict[PartitionKey, FetchPosition] = OrderedDict(
            (position.key, position) for position in positions
        )

    def __len__(self) -> int:
        return len(self._positions)

    def __iter__(self) -> Iterator[FetchPosition]:
        return iter(self._positions.values())

    def update(self, changed: Iterable[FetchPosition], forgotten: Iterable[PartitionKey]) -> None:
        for position in changed:
            known = self._positions.get(position.key)
            if known is None:
                self._positions[position.key] = position
            else:
                known.take(position)
        for key in forgotten:
            self._positions.pop(key, None)

    def serve_last(self, key: PartitionKey) -> None:
        """A partition that was served goes to the end, so that a full response starves none of the others."""
        if key in self._positions:
            self._positions.move_to_end(key)


class FetchSessionCache:
    """All sessions of this broker, least recently used first."""

    def __init__(self, slots: int, eviction_ms: int, new_session_id: Callable[[], int]) -> None:
        self._slots = slots
        self._eviction_ms = eviction_ms
        self._new_session_id = new_session_id
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._partitions = 0  # of all sessions

    def __len__(self) -> int:
        return len(self._sessions)

    def create(self, uses_topic_ids: bool, positions: list[FetchPosition], now_ms: int) -> FetchSession | None:
        """A new session, or None where every slot is held by a session in use, or too much is remembered already."""
        if not positions or not self._make_room(now_ms):
            return None
        if self._partitions + len(positions) > limits.FETCH_SESSION_PARTITIONS_MAX:
            return None
        session_id = self._new_session_id()
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._new_session_id()
        session = FetchSession(session_id, uses_topic_ids, positions, now_ms)
        self._sessions[session_id] = session
        self._partitions += len(session)
        return session

    def resume(self, session_id: int, epoch: int, uses_topic_ids: bool, now_ms: int) -> FetchSession:
        """The session that an incremental fetch continues. BrokerError: the client must start a new one."""
        session = self._sessions.get(session_id)
        if session is None:
            raise BrokerError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"There is no fetch session {session_id}.")
        if epoch != session.next_epoch:
            raise BrokerError(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                f"Fetch session {session_id} expects epoch {session.next_epoch}, not {epoch}.",
            )
        if uses_topic_ids != session.uses_topic_ids:
            raise BrokerError(
                ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, "A fetch session names topics either by id or by name."
            )
        session.next_epoch = 1 if epoch == _EPOCH_MAX else epoch + 1
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session_id)
        return session

    def update(
        self, session: FetchSession, changed: Iterable[FetchPosition], forgotten: Iterable[PartitionKey]
    ) -> None:
        """What an incremental fetch adds, changes and drops. A session that grows too large is dropped."""
        before = len(session)
        session.update(changed, forgotten)
        self._partitions += len(session) - before
        if self._partitions > limits.FETCH_SESSION_PARTITIONS_MAX and len(session) > before:
            self.drop(session.session_id)
            raise BrokerError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, "There is no room for more partitions in sessions.")

    def drop(self, session_id: int) -> None:
        dropped = self._sessions.pop(session_id, None)
        if dropped is not None:
            self._partitions -= len(dropped)

    def _make_room(self, now_ms: int) -> bool:
        if len(self._sessions) < self._slots:
            return True
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now_ms - oldest.last_used_ms < self._eviction_ms:
            return False
        self.drop(oldest.session_id)
        return True
