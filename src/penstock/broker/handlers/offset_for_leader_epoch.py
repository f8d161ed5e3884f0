"""OffsetForLeaderEpoch: where a leader epoch ended, so that a reader can tell whether its log was truncated (KIP-320).

Versions: 2 to 4.
"""

from __future__ import annotations

from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclOperation
from penstock.protocol.definitions.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from penstock.protocol.error_codes import BrokerError


def handle(request: OffsetForLeaderEpochRequest, context: RequestContext) -> OffsetForLeaderEpochResponse:
    response = OffsetForLeaderEpochResponse()
    for topic in request.topics:
        results: list[EpochEndOffset] = []
        response.topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=results))
        for wanted in topic.partitions:
            result = EpochEndOffset(partition=wanted.partition)
            results.append(result)
            try:
                context.access.check_topic(AclOperation.DESCRIBE, topic.topic)
                partition = context.node.topics.partition(topic.topic, wanted.partition)
                partition.check_leader_epoch(wanted.current_leader_epoch)
                result.leader_epoch, result.end_offset = partition.log.leader_epochs.end_offset_for(
                    wanted.leader_epoch, partition.log.log_end_offset
                )
            except BrokerError as error:
                result.error_code = error.code
    return response
