"""Fetch: record batches from the logs to a client, waiting for them where it asks to.

A fetch that finds fewer than min_bytes is parked on its partitions until enough has arrived or max_wait_ms is over.
The first batch of the first partition that has any is always returned whole, however small the limits; what follows may
be cut anywhere, as clients expect. Records are handed on as slices of their files and never pass through this process.

A `read_committed` fetch ends at the last stable offset, and names the aborted transactions among what it returns: the
client leaves their records out. It waits for transactions to end, not for records that it may not read yet.

Versions: 4 to 18. Sessions (KIP-227) from 7, topic ids from 13, the current leader with an error from 16
(KIP-951). Preferred read replicas (KIP-392) from 11; from then on a consumer may also read from a follower, up to the
high watermark that the follower knows. A follower's fetch (`replication/follower_fetch.py`) names its broker epoch
from 15 (KIP-903).

A broker whose session in the cluster may have ended answers no record: another broker may lead by now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from penstock.broker.current_leader import LEADER_ERRORS, CurrentLeader, current_leader
from penstock.broker.deferred import Deferred
from penstock.broker.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchPosition,
    FetchSession,
    PartitionKey,
)
from penstock.broker.node import Node
from penstock.broker.partition import Partition
from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclOperation
from penstock.core.isolation import READ_COMMITTED
from penstock.protocol.definitions.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode

if TYPE_CHECKING:
    from penstock.broker.replication.follower_fetch import FollowerFetch

TOPIC_IDS_SINCE: Final = 13
LEADERS_SINCE: Final = 16
FOLLOWERS_SINCE: Final = 11
NO_RECORDS: Final = b""


def handle(request: FetchRequest, context: RequestContext) -> FetchResponse | Deferred:
    try:
        fetch = _Fetch(request, context)
    except BrokerError as error:
        context.node.request_metrics.failed("Fetch", error.code)
        return FetchResponse(error_code=error.code)
    fetch.read()
    if fetch.is_satisfied or request.max_wait_ms <= 0:
        return fetch.response()
    return ParkedFetch(fetch, request.max_wait_ms / 1000)


class _Fetch:
    """One fetch: which partitions, and what was found in them at the last look."""

    def __init__(self, request: FetchRequest, context: RequestContext) -> None:
        self.node: Node = context.node
        self._context = context
        self._uses_topic_ids = context.api_version >= TOPIC_IDS_SINCE
        # Imported where there is something to replicate.
        self.follower: FollowerFetch | None = None
        if self.node.replication is not None:
            from penstock.broker.replication.follower_fetch import FollowerFetch

            self.follower = FollowerFetch.of(request, self.node)
        self._rack = request.rack_id
        self.read_committed = request.isolation_level == READ_COMMITTED
        self._bytes_max = min(request.max_bytes, self.node.config.fetch_max_bytes)
        quotas = self.node.quotas
        if quotas is not None and self.follower is None:
            allowed = quotas.fetch_bytes_max(context.access.client.user, context.client_id or "")
            self._bytes_max = self._bytes_max if allowed is None else min(self._bytes_max, allowed)
        self.bytes_min = min(request.min_bytes, self._bytes_max)
        self._session: FetchSession | None = None
        self._is_incremental = False
        self._positions: Iterable[FetchPosition] = self._open(request)
        self._found: list[tuple[FetchPosition, PartitionData]] = []
        self._leaders: dict[int, CurrentLeader] = {}  # named to the client, by broker id
        self._failed = False
        self.bytes_found = 0

    def _open(self, request: FetchRequest) -> Iterable[FetchPosition]:
        """Resolves the session; afterwards the request itself is not needed any more."""
        sessions = self.node.fetch_sessions
        if request.session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
            session = sessions.resume(
                request.session_id, request.session_epoch, self._uses_topic_ids, self.node.now_ms()
            )
            sessions.update(session, self._requested(request), self._forgotten(request))
            self._session = session
            self._is_incremental = True
            return session
        if request.session_id != NO_SESSION:
            sessions.drop(request.session_id)
        positions = list(self._requested(request))
        if request.session_epoch == FINAL_EPOCH:
            return positions
        self._session = sessions.create(self._uses_topic_ids, positions, self.node.now_ms())
        return positions

    def _requested(self, request: FetchRequest) -> Iterable[FetchPosition]:
        for topic in request.topics:
            name = topic.topic_id if self._uses_topic_ids else topic.topic
            for partition in topic.partitions:
                if self.follower is not None:
                    yield self.follower.position(PartitionKey(name, partition.partition), partition)
                    continue
                yield FetchPosition(
                    PartitionKey(name, partition.partition),
                    partition.fetch_offset,
                    partition.partition_max_bytes,
                    partition.current_leader_epoch,
                    partition.last_fetched_epoch,
                )

    def _forgotten(self, request: FetchRequest) -> Iterable[PartitionKey]:
        for topic in request.forgotten_topics_data:
            name = topic.topic_id if self._uses_topic_ids else topic.topic
            for index in topic.partitions:
                yield PartitionKey(name, index)

    def partitions(self) -> Iterable[Partition]:
        """Those that exist, to wait on."""
        for position in self._positions:
            try:
                yield self._partition(position.key)
            except BrokerError:
                continue

    def _partition(self, key: PartitionKey) -> Partition:
        topic, index = key
        topics = self.node.topics
        if self.node.replication is not None and self.follower is None and self._context.api_version >= FOLLOWERS_SINCE:
            return topics.readable_by_id(topic, index) if isinstance(topic, bytes) else topics.readable(topic, index)
        if isinstance(topic, bytes):
            return topics.partition_by_id(topic, index)
        return topics.partition(topic, index)

    @property
    def is_satisfied(self) -> bool:
        return (
            self.bytes_found >= self.bytes_min
            or self._failed
            or not self._found
            or (self.follower is not None and self.follower.has_news)
        )

    def read(self) -> None:
        """Looks into every partition; finds where records lie, reads none of them."""
        self._found = []
        self._failed = False
        self.bytes_found = 0
        for position in self._positions:
            data = PartitionData(partition_index=position.key.partition, records=NO_RECORDS)
            try:
                self._read_partition(position, data)
            except BrokerError as error:
                self._fail(position, data, error)
            self._found.append((position, data))
        if self.follower is not None:
            self.follower.is_first_look = False

    def _fail(self, position: FetchPosition, data: PartitionData, error: BrokerError) -> None:
        data.error_code = error.code
        data.high_watermark = -1
        self._failed = True
        if error.code in LEADER_ERRORS and self._context.api_version >= LEADERS_SINCE:
            self._name_leader(position.key, data)

    def _name_leader(self, key: PartitionKey, data: PartitionData) -> None:
        leader = current_leader(self._context, key.topic, key.partition)
        if leader is not None:
            data.current_leader = LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.leader_epoch)
            self._leaders[leader.leader_id] = leader

    def _read_partition(self, position: FetchPosition, data: PartitionData) -> None:
        access = self._context.connection.access
        if self.follower is not None:
            access.check_cluster(AclOperation.CLUSTER_ACTION)
        elif access.is_restricted:
            topic = position.key.topic
            name = self.node.topics.name_of(topic) if isinstance(topic, bytes) else topic
            access.check_topic(AclOperation.READ, name)
        partition = self._partition(position.key)
        partition.check_leader_epoch(position.current_leader_epoch)
        if not partition.is_leader and position.fetch_offset > partition.log.log_end_offset:
            raise BrokerError(ErrorCode.OFFSET_NOT_AVAILABLE, f"This follower of {partition} has not got that far.")
        data.high_watermark = partition.high_watermark
        data.last_stable_offset = last_stable_offset = partition.last_stable_offset
        data.log_start_offset = partition.log.log_start_offset
        data.aborted_transactions = [] if self.read_committed else None
        if position.last_fetched_epoch >= 0 and self._diverges(position, partition, data):
            return
        room = self._bytes_max - self.bytes_found
        first = self.bytes_found == 0
        if self.follower is not None:
            data.records = self.follower.read(partition, position, min(position.bytes_max, max(room, 0)), first)
            data.high_watermark = partition.high_watermark  # the fetch itself may have moved it
            if data.records is None:
                data.records = NO_RECORDS
            self.bytes_found += len(data.records)
            return
        if self._rack and self._is_better_read_elsewhere(partition, position, data):
            return
        end_offset = last_stable_offset if self.read_committed else None
        records = partition.read(position.fetch_offset, min(position.bytes_max, max(room, 0)), first, end_offset)
        if records is not None and len(records):
            data.records = records
            self.bytes_found += len(records)
            if self.read_committed:
                data.aborted_transactions = [
                    AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
                    for aborted in partition.log.aborted_transactions_in(records, position.fetch_offset)
                ]

    def _is_better_read_elsewhere(self, partition: Partition, position: FetchPosition, data: PartitionData) -> bool:
        replication = self.node.replication
        if replication is None or replication.selector is None:
            return False
        replica = replication.selector(partition, self._rack, position.fetch_offset)
        if replica is None:
            return False
        data.preferred_read_replica = replica
        self._failed = True  # answered at once: the consumer goes there
        return True

    def _diverges(self, position: FetchPosition, partition: Partition, data: PartitionData) -> bool:
        """The reader's log and ours part ways before its offset (KIP-595): it must truncate before it reads on."""
        epoch, end_offset = partition.log.leader_epochs.end_offset_for(
            position.last_fetched_epoch, partition.log.log_end_offset
        )
        if epoch < 0 or end_offset < 0:
            raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{partition} knows no such leader epoch.")
        if epoch >= position.last_fetched_epoch and end_offset >= position.fetch_offset:
            return False
        data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
        self._failed = True
        return True

    def response(self) -> FetchResponse:
        session = self._session
        if self.node.replication is not None and self.node.is_fenced:
            self._refuse_all()
        topics: dict[str | bytes, FetchableTopicResponse] = {}
        for position, data in self._found:
            if session is not None and not self._tell(position, data) and self._is_incremental:
                continue
            name = position.key.topic
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = (
                    FetchableTopicResponse(topic_id=name)
                    if isinstance(name, bytes)
                    else FetchableTopicResponse(topic=name)
                )
            topic.partitions.append(data)
            if data.records:
                self._partition(position.key).traffic.bytes_out.value += len(data.records)
            elif data.error_code:
                self.node.request_metrics.failed("Fetch", data.error_code)
            if session is not None and data.records:
                session.serve_last(position.key)
        response = FetchResponse(
            session_id=session.session_id if session is not None else NO_SESSION, responses=list(topics.values())
        )
        if self._leaders:
            response.node_endpoints = [
                NodeEndpoint(node_id=leader.leader_id, host=leader.host, port=leader.port, rack=leader.rack)
                for leader in self._leaders.values()
            ]
        return response

    def _refuse_all(self) -> None:
        """Decided when the answer is made: what was found may have been read a while ago."""
        error = BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "The session of this broker may have ended.")
        for number, (position, data) in enumerate(self._found):
            refused = PartitionData(partition_index=data.partition_index, records=NO_RECORDS)
            self._fail(position, refused, error)
            self._found[number] = (position, refused)

    def _tell(self, position: FetchPosition, data: PartitionData) -> bool:
        """Notes what the client learns of a partition; False where it would learn nothing new."""
        news = (
            bool(data.records)
            or data.error_code != ErrorCode.NONE
            or data.high_watermark != position.told_high_watermark
            or data.last_stable_offset != position.told_last_stable_offset
            or data.log_start_offset != position.told_log_start_offset
            or data.diverging_epoch is not None
            or data.preferred_read_replica >= 0
        )
        position.told_high_watermark = data.high_watermark
        position.told_last_stable_offset = data.last_stable_offset
        position.told_log_start_offset = data.log_start_offset
        return news


class ParkedFetch(Deferred):
    """A fetch that waits on its partitions for records, and on the clock."""

    __slots__ = ("_bytes_arrived", "_fetch", "_look", "_partitions", "_timer")

    def __init__(self, fetch: _Fetch, wait_seconds: float) -> None:
        super().__init__()
        self._fetch = fetch
        self._bytes_arrived = fetch.bytes_found
        self._partitions = list(fetch.partitions())
        for partition in self._partitions:
            if fetch.follower is None:
                partition.add_waiter(self)
            else:
                partition.add_append_waiter(self)
        self._look: asyncio.Handle | None = None
        self._timer = fetch.node.loop.call_later(wait_seconds, self._time_is_up)

    def records_arrived(self, new_bytes: int) -> None:
        """Told by a partition. The answer is made after this turn of the loop: more may have arrived by then."""
        self._bytes_arrived += new_bytes
        # A few bytes of a marker may let many be read, and many bytes of an open transaction none.
        enough = self._bytes_arrived >= self._fetch.bytes_min or self._fetch.read_committed
        if enough and self._look is None:
            self._look = self._fetch.node.loop.call_soon(self._look_again)

    def abandon(self) -> None:
        """The connection is gone."""
        self._leave()

    def _look_again(self) -> None:
        self._look = None
        self._fetch.read()
        if self._fetch.is_satisfied or not self._fetch.read_committed:
            self._answer()

    def _time_is_up(self) -> None:
        self._fetch.read()
        self._answer()

    def _answer(self) -> None:
        self._leave()
        self.complete(self._fetch.response())

    def _leave(self) -> None:
        self._timer.cancel()
        if self._look is not None:
            self._look.cancel()
        for partition in self._partitions:
            partition.remove_waiter(self)
        self._partitions = []
