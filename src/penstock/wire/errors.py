"""From the protocol's error codes to what the wire client raises.

A refusal is a `BrokerError` whose message names what was refused; a newer producer of the same transactional id is
`ProducerFenced`; a connection that broke is `ConnectionLost`, which never leaves the wire client: it is tried again,
and becomes `BrokerUnreachable` when the time is up.
"""

from __future__ import annotations

from typing import Final

from penstock.core.errors import ProducerFenced
from penstock.protocol.error_codes import BrokerError, ErrorCode

_FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})


class ConnectionLost(Exception):
    """The connection broke, or no answer came in time. What was under way may or may not have been done."""


def known_code(code: int) -> ErrorCode:
    """A code that a newer broker has and we do not know is an error that nobody foresaw."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def require_success(code: int, subject: str, detail: str | None = None) -> None:
    """`subject` begins the sentence; `detail` is what the broker says itself, where it says something."""
    if not code:
        return
    error = known_code(code)
    if error in _FENCED:
        raise ProducerFenced(f"{subject}: another producer has taken over ({error.name})")
    raise BrokerError(error, f"{subject}: {detail or error.text} ({error.name if error == code else code})")
