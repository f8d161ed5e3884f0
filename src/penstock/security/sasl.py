"""The client's side of SASL: each mechanism as an exchange of messages.

Mechanisms: PLAIN (RFC 4616), SCRAM (RFC 5802) and OAUTHBEARER (RFC 7628) with a token that is passed in. Knows no
socket and no source of randomness: `protocol/exchange.py` carries the messages, and the caller passes the nonce.

Invariant: no error message contains a secret.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Final

from penstock.core.errors import AccessDenied
from penstock.protocol.exchange import SaslMessages

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
# With fewer iterations, passwords can be guessed from a recorded exchange; more only cost the client time.
_SCRAM_ITERATIONS_MIN: Final = 4096
_SCRAM_ITERATIONS_MAX: Final = 10_000_000


class UntrustedBroker(AccessDenied):
    """The broker did not prove that it knows the password, or violated the mechanism's rules."""


def client_messages(mechanism: str, username: str, password: str, nonce: str) -> SaslMessages:
    """`password` is the token where the mechanism is OAUTHBEARER. Only SCRAM uses the nonce, which must be random."""
    if mechanism == "PLAIN":
        return _plain(username, password)
    if mechanism == "OAUTHBEARER":
        return _oauthbearer(password)
    return _scram(mechanism.removeprefix("SCRAM-").replace("-", "").lower(), username, password, nonce)


def _plain(username: str, password: str) -> SaslMessages:
    yield f"\0{username}\0{password}".encode()


def _oauthbearer(token: str) -> SaslMessages:
    refusal = yield f"n,,\x01auth=Bearer {token}\x01\x01".encode()
    if refusal:
        # The broker has given its reason. This message acknowledges it; the error code follows.
        yield b"\x01"


def _scram(digest: str, username: str, password: str, nonce: str) -> SaslMessages:
    client_first = f"n={username.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
    server_first = (yield f"n,,{client_first}".encode()).decode()
    server_nonce, salt, iterations = _server_first(server_first, nonce)
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)
    client_final = f"c=biws,r={server_nonce}"
    signed = f"{client_first},{server_first},{client_final}".encode()
    client_key = hmac.digest(salted, b"Client Key", digest)
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    server_final = yield f"{client_final},p={base64.b64encode(proof).decode()}".encode()
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)
    if not hmac.compare_digest(server_final, b"v=" + base64.b64encode(expected)):
        raise UntrustedBroker("the broker did not prove that it knows the password: it may be an impostor")


def _server_first(message: str, nonce: str) -> tuple[str, bytes, int]:
    fields = dict(part.partition("=")[::2] for part in message.split(","))
    try:
        server_nonce, salt, iterations = fields["r"], base64.b64decode(fields["s"], validate=True), int(fields["i"])
    except (KeyError, ValueError):
        raise UntrustedBroker("the broker's SCRAM challenge is malformed") from None
    if not server_nonce.startswith(nonce) or server_nonce == nonce:
        raise UntrustedBroker("the broker's SCRAM challenge belongs to another exchange")
    if not _SCRAM_ITERATIONS_MIN <= iterations <= _SCRAM_ITERATIONS_MAX:
        raise UntrustedBroker(
            f"the broker requires {iterations} SCRAM iterations;"
            f" from {_SCRAM_ITERATIONS_MIN} to {_SCRAM_ITERATIONS_MAX} are accepted"
        )
    return server_nonce, salt, iterations
