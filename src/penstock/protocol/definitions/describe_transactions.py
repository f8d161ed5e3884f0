"""The messages of describe_transactions, API key 65. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT16, INT32, INT64, STRING, Message, Struct, array_of, wire


class DescribeTransactionsRequest(Message, api_key=65, versions=(0, 0), flexible_since=0):
    transactional_ids: list[str] = array_of(STRING)


class TopicData(Struct):
    topic: str = wire(STRING)
    partitions: list[int] = array_of(INT32)


class TransactionState(Struct):
    error_code: int = wire(INT16)
    transactional_id: str = wire(STRING)
    transaction_state: str = wire(STRING)
    transaction_timeout_ms: int = wire(INT32)
    transaction_start_time_ms: int = wire(INT64)
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    topics: list[TopicData] = array_of(TopicData)


class DescribeTransactionsResponse(Message, api_key=65, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    transaction_states: list[TransactionState] = array_of(TransactionState)
