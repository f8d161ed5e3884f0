"""SaslAuthenticate: the messages of the mechanism that SaslHandshake has chosen. Versions: 0 to 2.

From version 1 the answer says how long the session lasts (KIP-368). A failure is answered after
`connection.failed.authentication.delay.ms`, always with the same words, and then the connection ends.
"""

from __future__ import annotations

import asyncio

from penstock.broker.deferred import Barrier, Deferred
from penstock.broker.request_context import RequestContext
from penstock.protocol.definitions.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.security.sasl_server import AuthenticationFailed


def handle(request: SaslAuthenticateRequest, context: RequestContext) -> SaslAuthenticateResponse | Deferred:
    node, connection = context.node, context.connection
    if connection.authentication is None:
        return _refused(BrokerError(ErrorCode.ILLEGAL_SASL_STATE))
    try:
        progress = connection.authentication.authenticate(
            bytes(request.auth_bytes), node.now_ms(), node.clock.monotonic_ms()
        )
    except BrokerError as error:
        connection.hang_up_after_answer(f"SaslAuthenticate: {error.message}")
        return _refused(error)
    except AuthenticationFailed as failure:
        return _DelayedFailure(context, f"authentication failed: {failure}")
    if progress.user is not None:
        connection.authenticated()
    return SaslAuthenticateResponse(auth_bytes=progress.message, session_lifetime_ms=progress.session_lifetime_ms)


def _refused(error: BrokerError) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=error.code, error_message=error.message)


class _DelayedFailure(Barrier):
    """Held back, so that passwords cannot be tried quickly; later requests of the connection are not looked at."""

    __slots__ = ("_context", "_reason", "_timer")

    def __init__(self, context: RequestContext, reason: str) -> None:
        super().__init__()
        self._context = context
        self._reason = reason
        delay_s = context.node.config.connection_failed_authentication_delay_ms / 1000
        self._timer: asyncio.TimerHandle = context.node.loop.call_later(delay_s, self._answer)

    def abandon(self) -> None:
        self._timer.cancel()

    def _answer(self) -> None:
        self._context.connection.hang_up_after_answer(self._reason)
        self.complete(_refused(BrokerError(ErrorCode.SASL_AUTHENTICATION_FAILED, "Authentication failed.")))
