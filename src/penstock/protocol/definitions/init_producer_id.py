"""The messages of init_producer_id, API key 22. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BOOL, INT16, INT32, INT64, STRING, Message, wire


class InitProducerIdRequest(Message, api_key=22, versions=(0, 6), flexible_since=2):
    transactional_id: str | None = wire(STRING, nullable_since=0, default=None)
    transaction_timeout_ms: int = wire(INT32)
    producer_id: int = wire(INT64, since=3, default=-1)
    producer_epoch: int = wire(INT16, since=3, default=-1)
    enable2_pc: bool = wire(BOOL, since=6)
    keep_prepared_txn: bool = wire(BOOL, since=6)


class InitProducerIdResponse(Message, api_key=22, versions=(0, 6), flexible_since=2):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    producer_id: int = wire(INT64, default=-1)
    producer_epoch: int = wire(INT16)
    ongoing_txn_producer_id: int = wire(INT64, since=6, default=-1)
    ongoing_txn_producer_epoch: int = wire(INT16, since=6, default=-1)
