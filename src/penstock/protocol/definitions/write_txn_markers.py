"""The messages of write_txn_markers, API key 27. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BOOL, INT8, INT16, INT32, INT64, STRING, Message, Struct, array_of, wire


class WritableTxnMarkerTopic(Struct):
    name: str = wire(STRING)
    partition_indexes: list[int] = array_of(INT32)


class WritableTxnMarker(Struct):
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    transaction_result: bool = wire(BOOL)
    topics: list[WritableTxnMarkerTopic] = array_of(WritableTxnMarkerTopic)
    coordinator_epoch: int = wire(INT32)
    transaction_version: int = wire(INT8, since=2)


class WriteTxnMarkersRequest(Message, api_key=27, versions=(1, 2), flexible_since=1):
    markers: list[WritableTxnMarker] = array_of(WritableTxnMarker)


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)


class WritableTxnMarkerTopicResult(Struct):
    name: str = wire(STRING)
    partitions: list[WritableTxnMarkerPartitionResult] = array_of(WritableTxnMarkerPartitionResult)


class WritableTxnMarkerResult(Struct):
    producer_id: int = wire(INT64)
    topics: list[WritableTxnMarkerTopicResult] = array_of(WritableTxnMarkerTopicResult)


class WriteTxnMarkersResponse(Message, api_key=27, versions=(1, 2), flexible_since=1):
    markers: list[WritableTxnMarkerResult] = array_of(WritableTxnMarkerResult)
