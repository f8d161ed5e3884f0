"""SASL exchanges, message by message."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from penstock.core.errors import InvalidClientSetting
from penstock.wire.security import UntrustedBroker, _scram, sasl_exchange, tls_context
from penstock.wire.settings import SaslSettings, TlsSettings

# The example of RFC 7677.
NONCE = "rOprNGfwEbeRWgbNEkqO"
CHALLENGE = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
PENCIL = SaslSettings("SCRAM-SHA-256", "user", "pencil")


def test_scram_as_the_rfc_shows_it() -> None:
    exchange = _scram(PENCIL, "sha256", NONCE)
    assert next(exchange) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert exchange.send(CHALLENGE) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    with pytest.raises(StopIteration):
        exchange.send(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_a_broker_that_does_not_know_the_password_is_found_out() -> None:
    exchange = _scram(PENCIL, "sha256", NONCE)
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
def test_challenges_that_are_refused(challenge: bytes) -> None:
    exchange = _scram(PENCIL, "sha256", NONCE)
    next(exchange)
    with pytest.raises(UntrustedBroker):
        exchange.send(challenge)


def test_nonces_differ_and_names_are_escaped() -> None:
    settings = SaslSettings("SCRAM-SHA-512", "a=b,c", "x")
    first, second = next(sasl_exchange(settings)), next(sasl_exchange(settings))
    assert first.startswith(b"n,,n=a=3Db=2Cc,r=")
    assert first != second


def test_plain_and_oauthbearer() -> None:
    assert list(sasl_exchange(SaslSettings("PLAIN", "üser", "pass"))) == ["\0üser\0pass".encode()]
    bearer = sasl_exchange(SaslSettings("OAUTHBEARER", "", "token"))
    assert next(bearer) == b"n,,\x01auth=Bearer token\x01\x01"
    assert bearer.send(b'{"status":"invalid_token"}') == b"\x01"


def test_certificates_that_cannot_be_loaded_are_named() -> None:
    with pytest.raises(InvalidClientSetting, match=r"ssl\.ca\.location.*No such file"):
        tls_context(TlsSettings(ca_file="/no/such/file.pem"))
    with pytest.raises(InvalidClientSetting, match=r"ssl\.ca\.location"):
        tls_context(TlsSettings(ca_pem="this is no certificate"))
    with pytest.raises(InvalidClientSetting, match=r"ssl\.certificate\.location") as refused:
        tls_context(TlsSettings(certificate_pem="none", key_pem="hush-hush", key_password="hush-hush"))
    assert "hush-hush" not in str(refused.value)
