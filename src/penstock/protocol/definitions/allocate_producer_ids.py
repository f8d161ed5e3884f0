"""The messages of allocate_producer_ids, API key 67. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT16, INT32, INT64, Message, wire


class AllocateProducerIdsRequest(Message, api_key=67, versions=(0, 0), flexible_since=0):
    broker_id: int = wire(INT32)
    broker_epoch: int = wire(INT64, default=-1)


class AllocateProducerIdsResponse(Message, api_key=67, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    producer_id_start: int = wire(INT64)
    producer_id_len: int = wire(INT32)
