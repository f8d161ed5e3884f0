"""DescribeTransactions: where transactional ids stand. An unknown one is TRANSACTIONAL_ID_NOT_FOUND. Version: 0."""

from __future__ import annotations

from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclOperation
from penstock.protocol.definitions.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from penstock.protocol.error_codes import BrokerError


def handle(request: DescribeTransactionsRequest, context: RequestContext) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[_described(transactional_id, context) for transactional_id in request.transactional_ids]
    )


def _described(transactional_id: str, context: RequestContext) -> TransactionState:
    try:
        context.access.check_transactional_id(AclOperation.DESCRIBE, transactional_id)
        found = context.node.transactions.find(transactional_id)
    except BrokerError as error:
        return TransactionState(transactional_id=transactional_id, error_code=error.code)
    topics: dict[str, TopicData] = {}
    for topic, partition in sorted(found.partitions):
        if context.access.may_with_topic(AclOperation.DESCRIBE, topic):
            topics.setdefault(topic, TopicData(topic=topic)).partitions.append(partition)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=found.state.label,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.start_ms,
        producer_id=found.producer_id,
        producer_epoch=found.epoch,
        topics=list(topics.values()),
    )
