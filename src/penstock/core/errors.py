"""Errors that every layer may raise or meet. What only one layer knows stays with that layer.

`ProtocolError` is a peer's fault: its bytes cannot mean anything, so its connection is closed. Answers that a
well-behaved peer must expect are `BrokerError`s (`protocol/error_codes.py`).
"""

from __future__ import annotations


class ProtocolError(Exception):
    """A peer sent bytes that break the protocol. The connection cannot go on."""
