"""Waits for new records without reading them: one long-polling fetch per leader, at the ends of its partitions.

Owns the connections of these polls, because a poll blocks its connection. It must never report what arrived: the caller
lists the offsets.

Invariant: a call takes no longer than its timeout. An error ends it early, but only after a short pause, so that
callers need no backoff of their own.
"""

from __future__ import annotations

import select
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Final, NamedTuple, Self

from penstock.core.errors import ProtocolError
from penstock.core.ids import TopicPartition
from penstock.core.isolation import ISOLATION_LEVELS, IsolationLevel
from penstock.protocol.definitions.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.error_codes import BrokerError
from penstock.wire.cluster import Cluster, Leader
from penstock.wire.connection import Connection, Pending
from penstock.wire.errors import ConnectionLost
from penstock.wire.fetch import NO_SESSION_EPOCH, TOPIC_IDS_SINCE

# The broker returns the first batch whole, however small the limit is.
_BYTES_WANTED: Final = 1
_ERROR_PAUSE_S: Final = 0.1


class _Poll(NamedTuple):
    connection: Connection
    pending: Pending
    ends: dict[TopicPartition, int]


class RecordWatch:
    def __init__(self, cluster: Cluster, isolation_level: IsolationLevel) -> None:
        self._cluster = cluster
        self._isolation_level = isolation_level
        self._polls: dict[int, _Poll] = {}
        self._idle: dict[int, Connection] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def wait(self, ends: Mapping[TopicPartition, int], timeout_ms: int) -> None:
        """Returns when one of the partitions has a record at its end, or after `timeout_ms`."""
        deadline = time.monotonic() + timeout_ms / 1000
        try:
            self._send_polls(ends, timeout_ms)
            self._await_response(deadline)
        except (ConnectionLost, BrokerError, ProtocolError):
            # The caller's next request meets the same error and retries.
            self.close()
            self._cluster.invalidate_topics({partition.topic for partition in ends})
            time.sleep(max(0.0, min(_ERROR_PAUSE_S, deadline - time.monotonic())))

    def close(self) -> None:
        for connection in [poll.connection for poll in self._polls.values()] + list(self._idle.values()):
            connection.close()
        self._polls.clear()
        self._idle.clear()

    def _send_polls(self, ends: Mapping[TopicPartition, int], timeout_ms: int) -> None:
        self._cluster.refresh_topics({partition.topic for partition in ends})
        by_node: dict[int, dict[TopicPartition, Leader]] = {}
        for partition in ends:
            leader = self._cluster.leader(partition)
            by_node.setdefault(leader.node_id, {})[partition] = leader
        for node_id, leaders in by_node.items():
            wanted = {partition: ends[partition] for partition in leaders}
            poll = self._polls.get(node_id)
            if poll is not None and poll.ends == wanted:
                continue
            if poll is not None:
                # New records have completed it, or it times out soon.
                self._take_response(node_id)
            connection = self._idle.pop(node_id, None) or self._cluster.dedicated_connection(node_id)
            request, version = self._request(connection, leaders, wanted, timeout_ms)
            pending = connection.send(request, version, timeout_s=timeout_ms / 1000)
            self._polls[node_id] = _Poll(connection, pending, wanted)

    def _request(
        self,
        connection: Connection,
        leaders: Mapping[TopicPartition, Leader],
        ends: Mapping[TopicPartition, int],
        timeout_ms: int,
    ) -> tuple[FetchRequest, int]:
        version = connection.version_for(FetchRequest)
        topics: dict[str, FetchTopic] = {}
        for partition, leader in leaders.items():
            named = {"topic_id": leader.topic_id} if version >= TOPIC_IDS_SINCE else {"topic": partition.topic}
            topics.setdefault(partition.topic, FetchTopic(**named)).partitions.append(
                FetchPartition(
                    partition=partition.partition,
                    current_leader_epoch=leader.epoch,
                    fetch_offset=ends[partition],
                    partition_max_bytes=_BYTES_WANTED,
                )
            )
        request = FetchRequest(
            max_wait_ms=timeout_ms,
            min_bytes=1,
            max_bytes=_BYTES_WANTED,
            isolation_level=ISOLATION_LEVELS[self._isolation_level],
            session_epoch=NO_SESSION_EPOCH,
            topics=list(topics.values()),
        )
        return request, version

    def _await_response(self, deadline: float) -> None:
        poller = select.poll()
        nodes = {}
        for node_id, poll in self._polls.items():
            descriptor = poll.connection.fileno()
            nodes[descriptor] = node_id
            poller.register(descriptor, select.POLLIN)
        for descriptor, _ in poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
            self._take_response(nodes[descriptor])

    def _take_response(self, node_id: int) -> None:
        poll = self._polls.pop(node_id)
        self._idle[node_id] = poll.connection
        response = poll.pending.response()
        codes = [response.error_code]
        codes += [answer.error_code for topic in response.responses for answer in topic.partitions]
        if any(codes):
            raise ConnectionLost(f"a leader refused a long poll (error codes {sorted(set(codes))})")
