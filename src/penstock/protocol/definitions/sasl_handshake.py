"""The messages of sasl_handshake, API key 17. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT16, STRING, Message, array_of, wire


class SaslHandshakeRequest(Message, api_key=17, versions=(0, 1)):
    mechanism: str = wire(STRING)


class SaslHandshakeResponse(Message, api_key=17, versions=(0, 1)):
    error_code: int = wire(INT16)
    mechanisms: list[str] = array_of(STRING)
