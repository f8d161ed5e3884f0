"""ListOffsets: the first offset, the end, or the first record at or after a time.

Special timestamps: -1 the end (the high watermark, or the last stable offset for read_committed), -2 the start, -3 the
record with the largest timestamp (KIP-734), -4 the start of what is held locally, -5 and -6 the borders of tiered
storage, which this broker does not have. Each is UNSUPPORTED_VERSION in a version that is older than it.

Versions: 1 to 11.
"""

from __future__ import annotations

from collections import Counter
from enum import IntEnum
from typing import Final

from penstock.broker.partition import Partition
from penstock.broker.request_context import RequestContext
from penstock.core import limits
from penstock.core.acls import AclOperation
from penstock.core.errors import ProtocolError
from penstock.core.isolation import READ_COMMITTED
from penstock.log.reader import LogSlice
from penstock.protocol.definitions.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.protocol.records import record_positions

UNKNOWN: Final = -1
OFFSET_NOT_AVAILABLE_SINCE: Final = 5


class _Special(IntEnum):
    """Times that mean something else."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


# The first version in which each of the later ones may be asked for.
_SINCE: Final[dict[int, int]] = {
    _Special.MAX_TIMESTAMP: 7,
    _Special.EARLIEST_LOCAL: 8,
    _Special.LATEST_TIERED: 9,
    _Special.EARLIEST_PENDING_UPLOAD: 11,
}


def handle(request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse:
    response = ListOffsetsResponse()
    times_named = Counter(
        (topic.name, wanted.partition_index) for topic in request.topics for wanted in topic.partitions
    )
    for topic in request.topics:
        answers: list[ListOffsetsPartitionResponse] = []
        response.topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
        for wanted in topic.partitions:
            answer = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
            answers.append(answer)
            try:
                if times_named[topic.name, wanted.partition_index] > 1:
                    raise BrokerError(ErrorCode.INVALID_REQUEST, "Each partition may be named once only.")
                if context.api_version < _SINCE.get(wanted.timestamp, 0):
                    raise BrokerError(ErrorCode.UNSUPPORTED_VERSION)
                context.access.check_topic(AclOperation.DESCRIBE, topic.name)
                partition = context.node.topics.partition(topic.name, wanted.partition_index)
                partition.check_leader_epoch(wanted.current_leader_epoch)
                if context.node.replication is not None:
                    _check_end_offset(context, partition)
                _look_up(partition, wanted, request.isolation_level == READ_COMMITTED, answer)
            except BrokerError as error:
                answer.error_code = error.code
    return response


def _check_end_offset(context: RequestContext, partition: Partition) -> None:
    """A new leader may know a lower high watermark than the one before it told readers (KIP-207)."""
    if context.node.is_fenced:
        raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "The session of this broker may have ended.")
    if partition.leader is not None and not partition.leader.may_answer_end_offset:
        early = context.api_version < OFFSET_NOT_AVAILABLE_SINCE
        raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE if early else ErrorCode.OFFSET_NOT_AVAILABLE)


def _look_up(
    partition: Partition, wanted: ListOffsetsPartition, read_committed: bool, answer: ListOffsetsPartitionResponse
) -> None:
    log = partition.log
    end_offset = partition.last_stable_offset if read_committed else partition.high_watermark
    match wanted.timestamp:
        case _Special.LATEST:
            answer.offset = end_offset
            answer.leader_epoch = partition.leader_epoch
        case _Special.EARLIEST | _Special.EARLIEST_LOCAL:
            answer.offset = log.log_start_offset
            answer.leader_epoch = log.leader_epochs.epoch_at(log.log_start_offset)
        case _Special.MAX_TIMESTAMP:
            newest = log.max_timestamp()
            if newest is not None:
                assert newest.first_batch is not None
                _find(partition, newest, newest.first_batch.max_timestamp, end_offset, answer)
        case _Special.LATEST_TIERED | _Special.EARLIEST_PENDING_UPLOAD:
            answer.offset = UNKNOWN
        case timestamp if timestamp >= 0:
            batch = log.offset_for_timestamp(timestamp)
            if batch is not None:
                _find(partition, batch, timestamp, end_offset, answer)
        case timestamp:
            raise BrokerError(ErrorCode.UNSUPPORTED_VERSION, f"There is no offset with the special time {timestamp}.")


def _find(
    partition: Partition, batch: LogSlice, timestamp: int, end_offset: int, answer: ListOffsetsPartitionResponse
) -> None:
    """The log found the batch, this looks inside it: for the first record that is not earlier than `timestamp`."""
    header = batch.first_batch
    assert header is not None
    try:
        for record in record_positions(memoryview(batch.read()), header, limits.DECOMPRESSED_BATCH_BYTES_MAX):
            offset = header.base_offset + record.offset_delta
            if record.timestamp < timestamp or offset < partition.log.log_start_offset:
                continue
            if offset < end_offset:
                answer.timestamp = record.timestamp
                answer.offset = offset
                answer.leader_epoch = partition.log.leader_epochs.epoch_at(offset)
            return
    except ProtocolError as error:
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"{partition} at {header.base_offset}: {error}.") from error
