"""SASL exchanges, message by message."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from penstock.protocol.exchange import SaslMessages
from penstock.security.sasl import UntrustedBroker, client_messages

# The example of RFC 7677.
NONCE = "rOprNGfwEbeRWgbNEkqO"
CHALLENGE = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"


def pencil() -> SaslMessages:
    return client_messages("SCRAM-SHA-256", "user", "pencil", NONCE)


def test_scram_matches_the_example_of_the_rfc() -> None:
    exchange = pencil()
    assert next(exchange) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert exchange.send(CHALLENGE) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    with pytest.raises(StopIteration):
        exchange.send(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_scram_detects_a_broker_that_does_not_know_the_password() -> None:
    exchange = pencil()
    next(exchange)
    exchange.send(CHALLENGE)
    forged = base64.b64encode(hmac.digest(b"guess", b"", hashlib.sha256))
    with pytest.raises(UntrustedBroker, match="impostor"):
        exchange.send(b"v=" + forged)


@pytest.mark.parametrize(
    "challenge",
    [
        CHALLENGE.replace(b"i=4096", b"i=1"),
        CHALLENGE.replace(b"i=4096", b"i=2000000000"),
        CHALLENGE.replace(b"r=rOpr", b"r=xOpr"),
        f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode(),
        b"e=other-error",
        CHALLENGE.replace(b"s=W22", b"s=!!!"),
    ],
)
def test_scram_rejects_invalid_challenges(challenge: bytes) -> None:
    exchange = pencil()
    next(exchange)
    with pytest.raises(UntrustedBroker):
        exchange.send(challenge)


def test_scram_escapes_the_username() -> None:
    assert next(client_messages("SCRAM-SHA-512", "a=b,c", "x", "nonce")) == b"n,,n=a=3Db=2Cc,r=nonce"


def test_plain_and_oauthbearer() -> None:
    assert list(client_messages("PLAIN", "üser", "pass", NONCE)) == ["\0üser\0pass".encode()]
    bearer = client_messages("OAUTHBEARER", "", "token", NONCE)
    assert next(bearer) == b"n,,\x01auth=Bearer token\x01\x01"
    assert bearer.send(b'{"status":"invalid_token"}') == b"\x01"
