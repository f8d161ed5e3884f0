"""DescribeProducers: who has written to a partition lately, and whose transaction is open there. Version: 0."""

from __future__ import annotations

from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclOperation
from penstock.protocol.definitions.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from penstock.protocol.error_codes import BrokerError
from penstock.protocol.record_batch import NO_SEQUENCE


def handle(request: DescribeProducersRequest, context: RequestContext) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_described(topic.name, index, context) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _described(topic: str, index: int, context: RequestContext) -> PartitionResponse:
    try:
        context.access.check_topic(AclOperation.READ, topic)
        partition = context.node.topics.partition(topic, index)
    except BrokerError as error:
        return PartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=producer_id,
                producer_epoch=entry.epoch,
                last_sequence=entry.batches[-1].last_sequence if entry.batches else NO_SEQUENCE,
                last_timestamp=entry.last_seen_ms,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=entry.current_transaction_first_offset,
            )
            for producer_id, entry in partition.log.producer_state.entries.items()
        ],
    )
