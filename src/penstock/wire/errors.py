"""From the protocol's error codes to what the wire client raises.

A refusal is a `BrokerError` whose message names what was refused; a newer producer of the same transactional id is
`ProducerFenced`; a broken connection is `ConnectionLost`, which never leaves the wire client: the request is retried,
and the error becomes `BrokerUnreachable` at the call's deadline.
"""

from __future__ import annotations

from typing import Final

from penstock.core.errors import ProducerFenced
from penstock.protocol.error_codes import ErrorCode, response_error

_FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})


class ConnectionLost(Exception):
    """The connection broke, or no response arrived in time. The outcome of requests in flight is unknown."""


def require_success(code: int, subject: str, detail: str | None = None) -> None:
    """`subject` begins the sentence; `detail` is the broker's own message, where it has one."""
    if not code:
        return
    if code in _FENCED:
        raise ProducerFenced(f"{subject}: another producer has taken over ({ErrorCode(code).name})")
    raise response_error(code, subject, detail)
