"""Reads record batches of one partition as bytes: by a single fetch, or by a stream that reads ahead.

Owns the fetch position and the receive buffers. It must never look into a batch beyond its header.

Invariants:
- Results contain whole batches only; a batch that the broker truncated is fetched again.
- `records` of a stream are views of two alternating buffers: they are valid until the second next fetch.
"""

from __future__ import annotations

import time
from struct import Struct as Packing
from types import TracebackType
from typing import Final, NamedTuple, Self

from penstock.core.errors import ClientError, ProtocolError
from penstock.core.ids import TopicPartition
from penstock.core.isolation import ISOLATION_LEVELS, IsolationLevel
from penstock.protocol.definitions.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from penstock.protocol.error_codes import BrokerError
from penstock.protocol.exchange import ReceiveBuffer
from penstock.protocol.record_batch import HEADER_BYTES, LOG_OVERHEAD, parse_header
from penstock.wire.cluster import Cluster, Leader
from penstock.wire.connection import Connection, Pending
from penstock.wire.errors import ConnectionLost, Right, require_success

DEFAULT_MAX_BYTES: Final = 4 * 1024 * 1024
DEFAULT_MAX_WAIT_MS: Final = 500
TOPIC_IDS_SINCE: Final = 13
_BATCH_LENGTH: Final = Packing(">i")
_BATCH_LENGTH_AT: Final = 8
NO_SESSION_EPOCH: Final = -1  # a fetch outside of any fetch session (KIP-227)
_EMPTY: Final = memoryview(b"")


class FetchOptions(NamedTuple):
    max_bytes: int = DEFAULT_MAX_BYTES
    """Of one response. A larger first batch is returned whole."""
    min_bytes: int = 1
    max_wait_ms: int = DEFAULT_MAX_WAIT_MS
    """How long the broker waits for `min_bytes` to be available."""
    isolation_level: IsolationLevel = "read_uncommitted"


class Fetched(NamedTuple):
    next_offset: int
    """The offset of the next fetch."""
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[tuple[int, int]]
    """Producer id and first offset of each aborted transaction among the records; empty unless read_committed."""
    records: memoryview
    """Whole batches; the first may begin before the requested offset. Empty if there were none."""


def send_fetch(cluster: Cluster, partition: TopicPartition, offset: int, options: FetchOptions) -> Pending | None:
    """Sends a fetch whose response `fetch` takes. None if it could not be sent: `fetch` then retries."""
    try:
        return _send_to_leader(cluster, partition, offset, options)
    except (ConnectionLost, BrokerError, ClientError):
        return None


def fetch(
    cluster: Cluster,
    partition: TopicPartition,
    offset: int,
    options: FetchOptions,
    timeout_s: float | None,
    sent: Pending | None = None,
) -> Fetched:
    """One fetch; the result stays valid. `sent` is a fetch in flight, whose response is taken first."""
    retry = cluster.retry(str(partition), timeout_s)
    while True:
        try:
            pending, sent = sent or _send_to_leader(cluster, partition, offset, options), None
            return _read(pending, partition, offset)
        except (ConnectionLost, BrokerError) as cause:
            cluster.invalidate_topics([partition.topic])
            retry.pause(cause)


def _send_to_leader(cluster: Cluster, partition: TopicPartition, offset: int, options: FetchOptions) -> Pending:
    leader = cluster.leader(partition)
    return _send(cluster.connection(leader.node_id), partition, leader, offset, options, None)


class FetchStream:
    """Iterates over [start_offset, end_offset) of one partition as `Fetched`; the last one may reach beyond the end.

    Without an end it never stops, and returns an empty `Fetched` if no record arrived within `max_wait_ms`. With an end
    it waits for records, and raises if none arrives for `default.api.timeout.ms`. A context manager with a connection
    of its own.
    """

    def __init__(
        self,
        cluster: Cluster,
        partition: TopicPartition,
        start_offset: int,
        end_offset: int | None,
        options: FetchOptions,
        timeout_s: float | None,
    ) -> None:
        self.offset = start_offset
        self._cluster = cluster
        self._partition = partition
        self._end_offset = end_offset
        self._options = options
        self._idle_timeout_s = cluster.settings.seconds("default.api.timeout.ms") if timeout_s is None else timeout_s
        self._connection: Connection | None = None
        self._leader: Leader | None = None
        self._buffers = (ReceiveBuffer(), ReceiveBuffer())
        self._ahead: Pending | None = None

    def __iter__(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._disconnect()

    def __next__(self) -> Fetched:
        retry = self._cluster.retry(str(self._partition), self._idle_timeout_s)
        started = time.monotonic()
        while not self._is_done:
            try:
                fetched = self._next_result()
            except (ConnectionLost, BrokerError) as cause:
                self._disconnect()
                self._cluster.invalidate_topics([self._partition.topic])
                retry.pause(cause)
                continue
            self.offset = fetched.next_offset
            self._send_ahead()
            if fetched.records or self._end_offset is None:
                return fetched
            if time.monotonic() - started > self._idle_timeout_s:
                raise ClientError(
                    f"{self._partition}: no records at offset {self.offset} for {self._idle_timeout_s:.0f} s, although"
                    f" the requested range ends at {self._end_offset}; the high watermark is {fetched.high_watermark}"
                )
        self._disconnect()
        raise StopIteration

    @property
    def _is_done(self) -> bool:
        return self._end_offset is not None and self.offset >= self._end_offset

    def _next_result(self) -> Fetched:
        if self._ahead is None:
            self._ahead = self._send_next()
        pending, self._ahead = self._ahead, None
        return _read(pending, self._partition, self.offset)

    def _send_ahead(self) -> None:
        """The broker prepares the next response while the caller processes the current one."""
        if self._is_done:
            return
        try:
            self._ahead = self._send_next()
        except (ConnectionLost, BrokerError):
            # The current result is valid. The next call meets the same error and retries.
            self._disconnect()

    def _send_next(self) -> Pending:
        if self._connection is None or self._leader is None:
            self._cluster.refresh_topics([self._partition.topic])
            self._leader = self._cluster.leader(self._partition)
            self._connection = self._cluster.dedicated_connection(self._leader.node_id)
        # The buffer of the result before the one that the caller is using.
        self._buffers = (self._buffers[1], self._buffers[0])
        return _send(self._connection, self._partition, self._leader, self.offset, self._options, self._buffers[0])

    def _disconnect(self) -> None:
        self._ahead = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _send(
    connection: Connection,
    partition: TopicPartition,
    leader: Leader,
    offset: int,
    options: FetchOptions,
    into: ReceiveBuffer | None,
) -> Pending:
    wanted = FetchPartition(
        partition=partition.partition,
        current_leader_epoch=leader.epoch,
        fetch_offset=offset,
        partition_max_bytes=options.max_bytes,
    )
    version = connection.version_for(FetchRequest)
    if version >= TOPIC_IDS_SINCE:
        topic = FetchTopic(topic_id=leader.topic_id, partitions=[wanted])
    else:
        topic = FetchTopic(topic=partition.topic, partitions=[wanted])
    request = FetchRequest(
        max_wait_ms=options.max_wait_ms,
        min_bytes=options.min_bytes,
        max_bytes=options.max_bytes,
        isolation_level=ISOLATION_LEVELS[options.isolation_level],
        session_epoch=NO_SESSION_EPOCH,
        topics=[topic],
    )
    return connection.send(request, version, timeout_s=options.max_wait_ms / 1000, into=into)


def _read(pending: Pending, partition: TopicPartition, offset: int) -> Fetched:
    response: FetchResponse = pending.response()
    subject = f"{partition} at offset {offset}"
    require_success(response.error_code, subject)
    if len(response.responses) != 1 or len(response.responses[0].partitions) != 1:
        raise ProtocolError(f"{subject}: the response to a fetch does not contain exactly this partition")
    answer: PartitionData = response.responses[0].partitions[0]
    require_success(answer.error_code, subject, needs=(Right("Read", "topic", partition.topic),))
    records = _EMPTY if answer.records is None else answer.records
    size, next_offset = whole_batches(records, subject) if records else (0, offset)
    return Fetched(
        next_offset=max(next_offset, offset),
        high_watermark=answer.high_watermark,
        last_stable_offset=answer.last_stable_offset,
        log_start_offset=answer.log_start_offset,
        aborted=[(each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()],
        records=records[:size],
    )


def whole_batches(records: memoryview, subject: str) -> tuple[int, int]:
    """(The size of the complete batches in bytes, the offset after the last of them)."""
    position, last, available = 0, -1, len(records)
    while position + HEADER_BYTES <= available:
        (length,) = _BATCH_LENGTH.unpack_from(records, position + _BATCH_LENGTH_AT)
        following = position + LOG_OVERHEAD + length
        if length < HEADER_BYTES - LOG_OVERHEAD:
            raise ProtocolError(f"{subject}: a record batch has an invalid length of {length} bytes")
        if following > available:
            break
        last, position = position, following
    if last < 0:
        raise ProtocolError(f"{subject}: {available} bytes without one complete record batch")
    return position, parse_header(records, last).end_offset
