"""The message end_txn_marker. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT32, Message, wire


class EndTxnMarker(Message, versions=(0, 0)):
    coordinator_epoch: int = wire(INT32)
