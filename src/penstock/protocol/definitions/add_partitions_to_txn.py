"""The messages of add_partitions_to_txn, API key 24. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BOOL, INT16, INT32, INT64, STRING, Message, Struct, array_of, wire


class AddPartitionsToTxnTopic(Struct):
    name: str = wire(STRING)
    partitions: list[int] = array_of(INT32)


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: str = wire(STRING)
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    verify_only: bool = wire(BOOL)
    topics: list[AddPartitionsToTxnTopic] = array_of(AddPartitionsToTxnTopic)


class AddPartitionsToTxnRequest(Message, api_key=24, versions=(0, 5), flexible_since=3):
    v3_and_below_transactional_id: str = wire(STRING, until=3)
    v3_and_below_producer_id: int = wire(INT64, until=3)
    v3_and_below_producer_epoch: int = wire(INT16, until=3)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array_of(AddPartitionsToTxnTopic, until=3)
    transactions: list[AddPartitionsToTxnTransaction] = array_of(AddPartitionsToTxnTransaction, since=4)


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int = wire(INT32)
    partition_error_code: int = wire(INT16)


class AddPartitionsToTxnTopicResult(Struct):
    name: str = wire(STRING)
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array_of(AddPartitionsToTxnPartitionResult)


class AddPartitionsToTxnResult(Struct):
    transactional_id: str = wire(STRING)
    topic_results: list[AddPartitionsToTxnTopicResult] = array_of(AddPartitionsToTxnTopicResult)


class AddPartitionsToTxnResponse(Message, api_key=24, versions=(0, 5), flexible_since=3):
    throttle_time_ms: int = wire(INT32)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array_of(
        AddPartitionsToTxnTopicResult, until=3
    )
    error_code: int = wire(INT16, since=4)
    results_by_transaction: list[AddPartitionsToTxnResult] = array_of(AddPartitionsToTxnResult, since=4)
