"""The messages of add_offsets_to_txn, API key 25. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT16, INT32, INT64, STRING, Message, wire


class AddOffsetsToTxnRequest(Message, api_key=25, versions=(0, 4), flexible_since=3):
    transactional_id: str = wire(STRING)
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    group_id: str = wire(STRING)


class AddOffsetsToTxnResponse(Message, api_key=25, versions=(0, 4), flexible_since=3):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
