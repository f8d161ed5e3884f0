"""Follows one leader broker: fetches for all replicas here whose partitions it leads, one request at a time.

A fetch says how far each replica has got, which is what moves the high watermark at the leader; its answer brings
records, the leader's high watermark and the start of its log, or says where the logs part ways. What is appended is as
durable as the topic asks for before the next fetch tells of it.

Errors are per partition. A partition that failed is left out for a while; the others go on. The first while is short,
because most errors come from a leader that hears of its election a moment later than its followers; the longest is
`replica.fetch.backoff.ms`. A leader that cannot be reached is asked again after the same times.

Must not know: who leads what (`fetchers.py`), how a follower changes its log (`follower_log.py`).

Invariant: an answer is used only for a partition that still follows the same leader in the same leader epoch.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from penstock.broker.replication import follower_log
from penstock.broker.replication.fetch_session_client import FetchSessionClient
from penstock.broker.replication.follower_log import DivergedLog
from penstock.core.ids import TopicIdPartition
from penstock.core.isolation import READ_UNCOMMITTED
from penstock.protocol.definitions.fetch import FetchPartition, FetchResponse, PartitionData, ReplicaState
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.protocol.exchange import ReceiveBuffer
from penstock.replication.roles import FollowerState

if TYPE_CHECKING:
    from penstock.broker.node import Node
    from penstock.broker.partition import Partition
    from penstock.core.ids import BrokerId

logger = logging.getLogger(__name__)

_REPLICA_STATE_SINCE: Final = 15  # with the broker epoch (KIP-903)
_FIRST_BACKOFF_S: Final = 0.02
_SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
# A leader that knows of its election later than its followers, or of a newer one earlier: the metadata settles it.
_ERRORS_OF_A_CHANGE: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


class _Followed:
    """One replica, and where it stands."""

    __slots__ = ("_asked", "_position", "failures", "last_error", "partition", "retry_s")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.retry_s = 0.0
        self.failures = 0  # since the last success
        self.last_error = ""
        self._position: tuple[int, ...] = ()
        self._asked = FetchPartition()

    def asked(self, bytes_max: int) -> FetchPartition:
        """What to ask for; the same object as before if nothing has changed."""
        log = self.partition.log
        position = (
            self.partition.leader_epoch,
            log.log_end_offset,
            log.leader_epochs.latest,
            log.log_start_offset,
            self.partition.high_watermark,
            bytes_max,
        )
        if position != self._position:
            self._position = position
            self._asked = FetchPartition(
                partition=self.partition.index,
                current_leader_epoch=position[0],
                fetch_offset=position[1],
                last_fetched_epoch=position[2],
                log_start_offset=position[3],
                partition_max_bytes=bytes_max,
                high_watermark=position[4],
            )
        return self._asked


class ReplicaFetcher:
    """One of the fetchers of a leader: `lane` names its connection. Belongs to the event loop."""

    def __init__(self, node: Node, leader: BrokerId, lane: str) -> None:
        self._node = node
        self._channel = node.peers.channel(leader, lane)
        self._followed: dict[TopicIdPartition, _Followed] = {}
        self._session = FetchSessionClient()
        self._buffer = ReceiveBuffer()
        self._changed = asyncio.Event()
        self._failures = 0  # to reach the leader, since the last success

    def __len__(self) -> int:
        return len(self._followed)

    def add(self, partition: Partition) -> None:
        """From its next fetch on. A partition that has changed its leader epoch is added again."""
        self._followed[TopicIdPartition(partition.topic_id, partition.index)] = _Followed(partition)
        self._changed.set()

    def remove(self, partition: Partition) -> None:
        self._followed.pop(TopicIdPartition(partition.topic_id, partition.index), None)

    def retry_now(self) -> None:
        """The leader came back, or the metadata has changed: what failed may succeed."""
        self._failures = 0
        for followed in self._followed.values():
            followed.retry_s = 0.0
        self._changed.set()

    async def run(self) -> None:
        while True:
            self._changed.clear()
            now_s = self._node.loop.time()
            due = {key: followed for key, followed in self._followed.items() if followed.retry_s <= now_s}
            if due:
                await self._fetch(due)
            else:
                await self._wait(now_s)

    async def _wait(self, now_s: float) -> None:
        """Until a partition is due."""
        retries_s = [followed.retry_s for followed in self._followed.values()]
        try:
            async with asyncio.timeout(min(retries_s) - now_s if retries_s else None):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def _fetch(self, due: dict[TopicIdPartition, _Followed]) -> None:
        config = self._node.config
        bytes_max = config.replica_fetch_max_bytes
        asked = {key: followed.asked(bytes_max) for key, followed in due.items()}
        request = self._session.request(
            asked,
            ReplicaState(replica_id=self._node.broker_id, replica_epoch=self._node.broker_epoch),
            max_wait_ms=config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
        )
        request.isolation_level = READ_UNCOMMITTED
        try:
            response: FetchResponse = await self._channel.request(
                request,
                timeout_s=config.replica_socket_timeout_ms / 1000,
                at_least=_REPLICA_STATE_SINCE,
                into=self._buffer,
            )
            if response.error_code:
                raise BrokerError(ErrorCode(response.error_code))
        except BrokerError as error:
            was_incremental = self._session.is_incremental
            self._session.reset()
            if not (was_incremental and error.code in _SESSION_ERRORS):
                self._leader_failed(due, error)
            return
        self._failures = 0
        self._session.answered(response)
        await self._use(response, asked)

    def _leader_failed(self, due: dict[TopicIdPartition, _Followed], error: BrokerError) -> None:
        """The channel has said so, where it matters."""
        logger.debug("no fetch from %s: %s", self._channel, error.message)
        retry_s = self._retry_s(self._failures)
        self._failures += 1
        for followed in due.values():
            followed.retry_s = retry_s

    def _retry_s(self, failures: int) -> float:
        """When to try again after so many failures before this one."""
        wait_s: float = min(
            _FIRST_BACKOFF_S * 2 ** min(failures, 10), self._node.config.replica_fetch_backoff_ms / 1000
        )
        return self._node.loop.time() + wait_s

    async def _use(self, response: FetchResponse, asked: dict[TopicIdPartition, FetchPartition]) -> None:
        must_flush: list[Partition] = []
        for topic in response.responses:
            for data in topic.partitions:
                key = TopicIdPartition(topic.topic_id, data.partition_index)
                followed = self._followed.get(key)
                if followed is None or key not in asked or not _still_follows(followed.partition, asked[key]):
                    continue
                self._use_partition(followed, data, asked[key])
                if followed.partition.must_flush and followed.partition.offline_reason is None:
                    must_flush.append(followed.partition)
        if must_flush:
            await self._flush(must_flush)

    def _use_partition(self, followed: _Followed, data: PartitionData, asked: FetchPartition) -> None:
        partition = followed.partition
        try:
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and data.log_start_offset > asked.fetch_offset:
                follower_log.restart(partition, data.log_start_offset)
            elif data.error_code:
                raise BrokerError(ErrorCode(data.error_code))
            elif data.diverging_epoch is not None and data.diverging_epoch.end_offset >= 0:
                follower_log.truncate(partition, data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
            else:
                if data.records:
                    records = memoryview(data.records)
                    follower_log.take_over(partition, records, self._node.now_ms(), self._node.save_gaps)
                follower_log.follow(partition, data.high_watermark, data.log_start_offset)
            followed.last_error = ""
            followed.failures = 0
        except BrokerError as error:
            self._back_off(followed, error.message, is_expected=error.code in _ERRORS_OF_A_CHANGE)
        except DivergedLog as error:
            self._back_off(followed, str(error), is_expected=False)
        except OSError as error:
            logger.error("%s: cannot write to %s: %s", partition, partition.log.directory, error.strerror)
            partition.disk_failed()
            self._back_off(followed, error.strerror or str(error), is_expected=True)

    def _back_off(self, followed: _Followed, reason: str, *, is_expected: bool) -> None:
        followed.retry_s = self._retry_s(followed.failures)
        followed.failures += 1
        if reason != followed.last_error:
            followed.last_error = reason
            level = logging.DEBUG if is_expected else logging.WARNING
            logger.log(level, "%s: the fetch from %s failed: %s", followed.partition, self._channel, reason)

    async def _flush(self, partitions: list[Partition]) -> None:
        """Until what was appended is on the disk. A failed fsync stops the broker."""
        waiting = len(partitions)
        flushed = self._node.loop.create_future()

        def settle(failure: OSError | None) -> None:
            nonlocal waiting
            waiting -= 1
            if not waiting and not flushed.done():
                flushed.set_result(None)

        for partition in partitions:
            self._node.flusher.request(partition, settle)
        await flushed


def _still_follows(partition: Partition, asked: FetchPartition) -> bool:
    return (
        not partition.is_deleted
        and partition.offline_reason is None
        and isinstance(partition.role, FollowerState)
        and partition.leader_epoch == asked.current_leader_epoch
        and partition.log.log_end_offset == asked.fetch_offset
    )
