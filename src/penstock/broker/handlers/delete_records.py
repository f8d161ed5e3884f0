"""DeleteRecords: forgets everything before an offset (-1: everything). Versions: 0 to 2."""

from __future__ import annotations

from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclOperation
from penstock.protocol.definitions.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode


def handle(request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse:
    response = DeleteRecordsResponse()
    deleted: list[DeleteRecordsPartitionResult] = []
    for topic in request.topics:
        results: list[DeleteRecordsPartitionResult] = []
        response.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
        for wanted in topic.partitions:
            result = DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=-1)
            results.append(result)
            try:
                context.access.check_topic(AclOperation.DELETE, topic.name)
                partition = context.node.topics.partition(topic.name, wanted.partition_index)
                result.low_watermark = partition.delete_records_before(wanted.offset)
                deleted.append(result)
            except BrokerError as error:
                result.error_code = error.code
    if deleted:
        try:
            context.node.log_starts_changed()
        except OSError:
            # The records are gone for now, but a restart may bring them back: that is no success.
            for result in deleted:
                result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
                result.low_watermark = -1
    return response
