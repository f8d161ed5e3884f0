"""SaslHandshake: the client chooses a SASL mechanism of the listener. Version 1.

A mechanism that the listener does not offer is answered with those that it does, and the connection ends. On a listener
without SASL, and after an authentication that needs no renewal, the answer is ILLEGAL_SASL_STATE. Left out: version 0,
after which messages of the mechanism would follow without frames (before KIP-152).
"""

from __future__ import annotations

from penstock.broker.request_context import RequestContext
from penstock.protocol.definitions.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from penstock.protocol.error_codes import BrokerError, ErrorCode


def handle(request: SaslHandshakeRequest, context: RequestContext) -> SaslHandshakeResponse:
    authentication = context.connection.authentication
    if authentication is None:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    try:
        authentication.handshake(request.mechanism)
    except BrokerError as error:
        context.connection.hang_up_after_answer(f"SaslHandshake: {error.message}")
        return SaslHandshakeResponse(error_code=error.code, mechanisms=authentication.mechanisms)
    return SaslHandshakeResponse(mechanisms=authentication.mechanisms)
