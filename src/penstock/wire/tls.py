"""TLS for the wire client: a context for its sockets, made from Kafka's settings.

Invariant: no error message contains a secret.
"""

from __future__ import annotations

import os
import ssl
import tempfile

from penstock.core.errors import InvalidClientSetting
from penstock.wire.settings import TlsSettings


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
    # Python loads certificates from files only, so text goes into a file that no other user can read.
    with tempfile.TemporaryDirectory(prefix="penstock-tls-") as scratch:
        certificate = settings.certificate_file or _private_file(scratch, "certificate", settings.certificate_pem or "")
        key = settings.key_file or _private_file(scratch, "key", settings.key_pem or "")
        try:
            # Without a password OpenSSL would ask for one on the terminal.
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
