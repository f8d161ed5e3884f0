"""From the protocol's error codes to what the wire client raises.

A refusal is a `BrokerError` whose message names what was refused; a newer producer of the same transactional id is
`ProducerFenced`; a broken connection is `ConnectionLost`, which never leaves the wire client: the request is retried,
and the error becomes `BrokerUnreachable` at the call's deadline.
"""

from __future__ import annotations

import shlex
from typing import Final, NamedTuple

from penstock.core.errors import ProducerFenced
from penstock.protocol.error_codes import BrokerError, ErrorCode, known_code, response_error

_FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})


class Right(NamedTuple):
    """What a request needs: an operation on a resource, by Kafka's names."""

    operation: str
    resource: str
    """`topic`, `group` or `transactional id`."""
    name: str


_DENIED: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "group",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional id",
}


class ConnectionLost(Exception):
    """The connection broke, or no response arrived in time. The outcome of requests in flight is unknown."""


def require_success(code: int, subject: str, detail: str | None = None, *, needs: tuple[Right, ...] = ()) -> None:
    """`subject` begins the sentence; `detail` is the broker's own message, where it has one.

    `needs` are the rights that the request needs. A client that lacks one is told which, and how it is granted.
    """
    if not code:
        return
    if code in _FENCED:
        raise ProducerFenced(f"{subject}: another producer has taken over ({ErrorCode(code).name})")
    denied = _DENIED.get(known_code(code))
    for right in needs:
        if right.resource == denied:
            raise _denied(known_code(code), right)
    raise response_error(code, subject, detail)


def _denied(code: ErrorCode, right: Right) -> BrokerError:
    option = right.resource.replace(" ", "-")
    return BrokerError(
        code,
        f"{right.resource} '{right.name}': this client may not {right.operation} ({code.name}); to allow it: "
        f"penstock acl create --allow-principal User:NAME --operation {right.operation} --{option} "
        f"{shlex.quote(right.name)}",
    )
