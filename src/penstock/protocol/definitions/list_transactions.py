"""The messages of list_transactions, API key 66. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT16, INT32, INT64, STRING, Message, Struct, array_of, wire


class ListTransactionsRequest(Message, api_key=66, versions=(0, 2), flexible_since=0):
    state_filters: list[str] = array_of(STRING)
    producer_id_filters: list[int] = array_of(INT64)
    duration_filter: int = wire(INT64, since=1, default=-1)
    transactional_id_pattern: str | None = wire(STRING, since=2, nullable_since=2, default=None)


class TransactionState(Struct):
    transactional_id: str = wire(STRING)
    producer_id: int = wire(INT64)
    transaction_state: str = wire(STRING)


class ListTransactionsResponse(Message, api_key=66, versions=(0, 2), flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    unknown_state_filters: list[str] = array_of(STRING)
    transaction_states: list[TransactionState] = array_of(TransactionState)
