"""DeleteRecords: forgets everything before an offset (-1: everything). Versions: 0 to 2.

Answered when the live followers have forgotten the records too: the low watermark is the smallest log start offset of
the live replicas. Those that take longer than the request's timeout are REQUEST_TIMED_OUT; they follow all the same.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from penstock.broker.deferred import Deferred
from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclOperation
from penstock.protocol.definitions.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode

if TYPE_CHECKING:
    from penstock.broker.node import Node
    from penstock.broker.partition import Partition

UNKNOWN_OFFSET: Final = -1
# Followers tell their log start offset with every fetch.
_LOOK_INTERVAL_MS: Final = 20


def handle(request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse | Deferred:
    response = DeleteRecordsResponse()
    deleted: list[tuple[Partition, DeleteRecordsPartitionResult]] = []
    for topic in request.topics:
        results: list[DeleteRecordsPartitionResult] = []
        response.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
        for wanted in topic.partitions:
            result = DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=UNKNOWN_OFFSET)
            results.append(result)
            try:
                context.access.check_topic(AclOperation.DELETE, topic.name)
                partition = context.node.topics.partition(topic.name, wanted.partition_index)
                result.low_watermark = partition.delete_records_before(wanted.offset)
                deleted.append((partition, result))
            except BrokerError as error:
                result.error_code = error.code
    if deleted:
        try:
            context.node.log_starts_changed()
        except OSError:
            # The records are gone for now, but a restart may bring them back: that is no success.
            for _, result in deleted:
                _fail(result, ErrorCode.KAFKA_STORAGE_ERROR)
            return response
    awaited = [(partition, result) for partition, result in deleted if _followers(context.node, partition)]
    return _FollowersWait(context.node, response, awaited, request.timeout_ms) if awaited else response


def _fail(result: DeleteRecordsPartitionResult, code: ErrorCode) -> None:
    result.error_code = code
    result.low_watermark = UNKNOWN_OFFSET


def _followers(node: Node, partition: Partition) -> list[int]:
    """The log start offset of every live follower; -1 where it has not told one yet."""
    leader = partition.leader
    if leader is None:
        return []
    progress = [leader.progress_of(replica) for replica in leader.replicas if replica in node.image.brokers]
    return [each.log_start_offset for each in progress if each is not None]


class _FollowersWait(Deferred):
    """The answer, as long as followers hold records that the leader has forgotten."""

    __slots__ = ("_answer", "_awaited", "_node", "_overdue_ms", "_timer")

    def __init__(
        self,
        node: Node,
        answer: DeleteRecordsResponse,
        awaited: list[tuple[Partition, DeleteRecordsPartitionResult]],
        timeout_ms: int,
    ) -> None:
        super().__init__()
        self._node = node
        self._answer = answer
        self._awaited = awaited
        self._overdue_ms = node.clock.monotonic_ms() + timeout_ms
        self._timer: asyncio.TimerHandle | None = None
        self._look()

    def _look(self) -> None:
        self._timer = None
        is_overdue = self._node.clock.monotonic_ms() >= self._overdue_ms
        outstanding = []
        for partition, result in self._awaited:
            if partition.is_deleted or not partition.is_leader:
                _fail(result, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            elif min(_followers(self._node, partition), default=result.low_watermark) < result.low_watermark:
                outstanding.append((partition, result))
        self._awaited = outstanding
        if is_overdue:
            for _, result in outstanding:
                _fail(result, ErrorCode.REQUEST_TIMED_OUT)
        if is_overdue or not outstanding:
            self.complete(self._answer)
        else:
            self._timer = self._node.loop.call_later(_LOOK_INTERVAL_MS / 1000, self._look)

    def abandon(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
