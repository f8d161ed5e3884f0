"""A worker's membership in the group of workers: which partitions it owns, and until when it may rely on it.

A worker is a member of an ordinary consumer group whose topic is the offsets topic. It reads no records of it: a
partition stands for the connectors whose names hash to it.

Owns the membership, in a thread of its own. It must not know connectors; `is_released` tells it when nothing runs.

Invariants:
- A partition is given up (left out of the next JoinGroup) only when nothing of it runs.
- `lease_until` counts from the moment at which a confirmed request was sent, so it always ends before the session does
  at the coordinator: what runs has a third of the session timeout to stop before another worker may start it.
- Heartbeats go on while JoinGroup waits for other members.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from penstock.connect.herder.assignment import assign
from penstock.connect.herder.ownership import partition_of_connector
from penstock.core.errors import ClientError, ProtocolError
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.wire.errors import ConnectionLost
from penstock.wire.group_member import Claim, GroupConnections, GroupSettings, Joined

_log = logging.getLogger(__name__)

PROTOCOL: Final = "penstock-connect"
_LEADER_PARTITION: Final = 0
_LEASE_PART_OF_SESSION: Final = 2 / 3
_RETRY_PAUSE_S: Final = 0.2
_EXPELLED: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID})
_NEVER: Final = float("-inf")


class Membership:
    def __init__(
        self, settings: Mapping[str, str], group: GroupSettings, partition_count: int, heartbeat_interval_ms: int
    ) -> None:
        # A lost request leaves time for another one before the lease ends. JoinGroup has a timeout of its own.
        request_timeout_ms = str(group.session_timeout_ms // 3)
        bounded = dict.fromkeys(("request.timeout.ms", "socket.connection.setup.timeout.ms"), request_timeout_ms)
        self._connections = GroupConnections({**settings, **bounded}, group)
        self._group = group
        self._partition_count = partition_count
        self._heartbeat_interval_s = heartbeat_interval_ms / 1000
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._member_id = ""
        self._generation = -1
        self._owned: frozenset[int] = frozenset()
        self._releasing: frozenset[int] = frozenset()  # revoked, and something of it may still run
        self._confirmed_at = _NEVER
        self._heartbeat_sent_at = _NEVER
        self._must_join = True
        self._is_released: Callable[[frozenset[int]], bool] = lambda _partitions: True
        self._on_change: Callable[[], None] = lambda: None

    def start(self, is_released: Callable[[frozenset[int]], bool], on_change: Callable[[], None]) -> None:
        self._is_released, self._on_change = is_released, on_change
        name = f"member of {self._group.group_id}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        self._connections.close()

    def wake(self) -> None:
        self._wake.set()

    def owns(self, name: str, now: float) -> bool:
        with self._lock:
            return self.partition_of(name) in self._owned and now < self.lease_until

    def partition_of(self, name: str) -> int:
        return partition_of_connector(name, self._partition_count)

    @property
    def lease_until(self) -> float:
        return self._confirmed_at + self._group.session_timeout_ms / 1000 * _LEASE_PART_OF_SESSION

    @property
    def generation(self) -> int:
        return self._generation

    @property
    def owned(self) -> frozenset[int]:
        return self._owned

    @property
    def is_leader(self) -> bool:
        with self._lock:
            return _LEADER_PARTITION in self._owned and time.monotonic() < self.lease_until

    @property
    def is_rebalancing(self) -> bool:
        return self._must_join or bool(self._releasing) or time.monotonic() >= self.lease_until

    # In the thread

    def _run(self) -> None:
        has_failed = False
        while not self._stopping.is_set():
            try:
                if self._must_join:
                    self._join()
                else:
                    self._stay()
                has_failed = False
            except (ConnectionLost, BrokerError, ClientError, ProtocolError) as error:
                if not has_failed:
                    _log.warning("group %s: trying again after: %s", self._group.group_id, error)
                has_failed = True
                self._stopping.wait(_RETRY_PAUSE_S)
        self._leave()

    def _join(self) -> None:
        still_runs = self._releasing and not self._is_released(self._releasing)
        claim = Claim(self._owned | (self._releasing if still_runs else frozenset()), self._generation)
        self._connections.begin_join(self._member_id, claim)
        joined = self._await_join()
        if joined is None:
            return
        if joined.error == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = joined.member_id
        elif joined.error in _EXPELLED:
            self._lose()
        elif joined.error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            raise BrokerError(
                joined.error,
                f"group '{self._group.group_id}' has members of another kind, such as workers of Kafka Connect; stop "
                "them, or choose another group.id",
            )
        elif joined.error != ErrorCode.NONE:
            raise BrokerError(joined.error, f"group '{self._group.group_id}': {joined.error.text}")
        else:
            self._member_id = joined.member_id
            self._sync(joined)

    def _await_join(self) -> Joined | None:
        while not self._stopping.is_set():
            is_member = self._generation >= 0
            joined = self._connections.joined(self._until_heartbeat() if is_member else self._heartbeat_interval_s)
            if joined is not None:
                return joined
            # The generation may have ended at this moment: only an unknown member was expelled.
            if is_member and self._until_heartbeat() <= 0 and self._heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID:
                self._lose()
                return None
        return None

    def _sync(self, joined: Joined) -> None:
        assignments = {} if joined.claims is None else assign(joined.claims, self._partition_count)
        sent_at = time.monotonic()
        error, assigned = self._connections.sync(self._member_id, joined.generation, assignments)
        if error in _EXPELLED:
            self._lose()
        elif error == ErrorCode.REBALANCE_IN_PROGRESS:
            self._confirmed_at = sent_at
        elif error != ErrorCode.NONE:
            raise BrokerError(error, f"group '{self._group.group_id}': {error.text}")
        else:
            with self._lock:
                self._releasing = (self._owned | self._releasing) - assigned
                self._owned = assigned
                self._generation = joined.generation
                self._confirmed_at = self._heartbeat_sent_at = sent_at
                self._must_join = False
            _log.info("generation %d: %d partitions", joined.generation, len(assigned))
            self._on_change()

    def _stay(self) -> None:
        """Until the group rebalances, or a revoked partition can be given up."""
        while not self._stopping.is_set():
            self._wake.clear()
            if self._releasing and self._is_released(self._releasing):
                with self._lock:
                    self._releasing = frozenset()
                    self._must_join = True
                return
            self._wake.wait(max(self._until_heartbeat(), 0))
            if self._until_heartbeat() > 0:
                continue
            error = self._heartbeat()
            if error in _EXPELLED:
                self._lose()
                return
            if error == ErrorCode.REBALANCE_IN_PROGRESS:
                self._must_join = True
                return
            if error != ErrorCode.NONE:
                raise BrokerError(error, f"group '{self._group.group_id}': {error.text}")

    def _until_heartbeat(self) -> float:
        return self._heartbeat_sent_at + self._heartbeat_interval_s - time.monotonic()

    def _heartbeat(self) -> ErrorCode:
        self._heartbeat_sent_at = sent_at = time.monotonic()
        error = self._connections.heartbeat(self._member_id, self._generation)
        if error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            was_expired = sent_at >= self.lease_until
            self._confirmed_at = sent_at
            if was_expired:
                self._on_change()
        return error

    def _lose(self) -> None:
        """The coordinator has expelled this member: its partitions may belong to others already."""
        if self._owned:
            _log.warning("group %s: this worker was expelled; its connectors stop", self._group.group_id)
        with self._lock:
            self._owned = self._releasing = frozenset()
            self._member_id, self._generation = "", -1
            self._must_join = True
        self._on_change()

    def _leave(self) -> None:
        if not self._member_id:
            return
        try:
            self._connections.leave(self._member_id)
        except (ConnectionLost, BrokerError, ClientError, ProtocolError) as error:
            _log.info("group %s: left without a goodbye: %s", self._group.group_id, error)
