"""TLS and SASL for the wire client: a context for sockets, and authentication as an exchange of messages.

`wire_connection.py` carries the messages; this module never sees a socket. Mechanisms: PLAIN, SCRAM (RFC 5802) and
OAUTHBEARER (RFC 7628) with a token that is at hand.

Invariant: a secret is in no error message.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
import ssl
import tempfile
from collections.abc import Generator
from typing import Final

from penstock.core.errors import ClientError, InvalidClientSetting
from penstock.wire.settings import SaslSettings, TlsSettings

# Fewer iterations make a stolen exchange too easy to guess passwords from; more than these only burn the client's time.
_SCRAM_ITERATIONS_MIN: Final = 4096
_SCRAM_ITERATIONS_MAX: Final = 10_000_000

SaslExchange = Generator[bytes, bytes, None]
"""Yields what goes to the broker and is sent what came back; ends when the mechanism has nothing more to say."""


class UntrustedBroker(ClientError):
    """The broker could not prove that it knows the password, or broke off the exchange's rules."""


def tls_context(settings: TlsSettings) -> ssl.SSLContext:
    """Raises InvalidClientSetting when a certificate or a key cannot be loaded."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.verify_host and settings.verify_certificate
    if not settings.verify_certificate:
        context.verify_mode = ssl.CERT_NONE
    try:
        if settings.ca_file is not None or settings.ca_pem is not None:
            context.load_verify_locations(cafile=settings.ca_file, cadata=settings.ca_pem)
        else:
            context.load_default_certs()
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        raise InvalidClientSetting(f"ssl.ca.location: cannot be loaded ({_reason(error)})") from None
    if settings.certificate_file is not None or settings.certificate_pem is not None:
        _load_own_certificate(context, settings)
    return context


def _load_own_certificate(context: ssl.SSLContext, settings: TlsSettings) -> None:
    # Python takes certificates from files only, so what came as text is put into one that nobody else may read.
    with tempfile.TemporaryDirectory(prefix="penstock-tls-") as scratch:
        certificate = settings.certificate_file or _private_file(scratch, "certificate", settings.certificate_pem or "")
        key = settings.key_file or _private_file(scratch, "key", settings.key_pem or "")
        try:
            # Without a password of ours OpenSSL would ask for one on the terminal.
            context.load_cert_chain(certificate, key, password=settings.key_password or "")
        except (OSError, ValueError) as error:
            raise InvalidClientSetting(
                f"ssl.certificate.location, ssl.key.location: cannot be loaded ({_reason(error)})"
            ) from None


def _private_file(directory: str, name: str, content: str) -> str:
    path = os.path.join(directory, name)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(content)
    return path


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or getattr(error, "strerror", None) or type(error).__name__


def sasl_exchange(settings: SaslSettings) -> SaslExchange:
    if settings.mechanism == "PLAIN":
        return _plain(settings)
    if settings.mechanism == "OAUTHBEARER":
        return _oauthbearer(settings)
    return _scram(settings, settings.mechanism.removeprefix("SCRAM-").replace("-", "").lower())


def _plain(settings: SaslSettings) -> SaslExchange:
    yield f"\0{settings.username}\0{settings.password}".encode()


def _oauthbearer(settings: SaslSettings) -> SaslExchange:
    refusal = yield f"n,,\x01auth=Bearer {settings.password}\x01\x01".encode()
    if refusal:
        # The broker has said why; this acknowledges it, and then comes the error code.
        yield b"\x01"


def _scram(settings: SaslSettings, digest: str, nonce: str | None = None) -> SaslExchange:
    """`nonce` is for tests, which know what an exchange with a certain nonce looks like."""
    nonce = nonce or secrets.token_urlsafe(24)
    client_first = f"n={settings.username.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
    server_first = (yield f"n,,{client_first}".encode()).decode()
    server_nonce, salt, iterations = _server_first(server_first, nonce)
    salted = hashlib.pbkdf2_hmac(digest, settings.password.encode(), salt, iterations)
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
        raise UntrustedBroker("the broker's SCRAM challenge cannot be read") from None
    if not server_nonce.startswith(nonce) or server_nonce == nonce:
        raise UntrustedBroker("the broker's SCRAM challenge does not belong to this exchange")
    if not _SCRAM_ITERATIONS_MIN <= iterations <= _SCRAM_ITERATIONS_MAX:
        raise UntrustedBroker(f"the broker asks for {iterations} SCRAM iterations")
    return server_nonce, salt, iterations
