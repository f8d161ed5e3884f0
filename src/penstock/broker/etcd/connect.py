"""Makes the connection to etcd from the broker's settings: TLS, user and password.

The password is read from its file once, at a start.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from penstock.broker.etcd.gateway import CALL_TIMEOUT_S, EtcdGateway
from penstock.broker.etcd.http_connection import Member, reason_of
from penstock.metadata.config_definition import ConfigError
from penstock.metadata.metadata_store_settings import MetadataStoreSettings


def gateway_of(settings: MetadataStoreSettings) -> EtcdGateway:
    """Raises ConfigError for a file that cannot be used. Opens no connection."""
    return EtcdGateway(
        [Member(host, port) for host, port in settings.members],
        tls=_tls_of(settings) if settings.ssl_enable else None,
        user=settings.user,
        password=None if settings.password_file is None else _password_in(settings.password_file),
        call_timeout_s=CALL_TIMEOUT_S,
        # Two members can be tried before the session's deadline.
        keep_alive_timeout_s=min(CALL_TIMEOUT_S, settings.session_timeout_ms / 6000),
    )


def _tls_of(settings: MetadataStoreSettings) -> ssl.SSLContext:
    truststore, keystore = settings.ssl_truststore_location, settings.ssl_keystore_location
    try:
        context = ssl.create_default_context(cafile=truststore)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"metadata.store.ssl.truststore.location: {truststore}: {reason_of(error)}; expected certificates in PEM"
        ) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if keystore is not None:
        try:
            context.load_cert_chain(keystore)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"metadata.store.ssl.keystore.location: {keystore}: {reason_of(error)}; expected a private key and "
                "its certificate in PEM"
            ) from None
    return context


def _password_in(path: str) -> str:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"metadata.store.password.file: {path}: {reason_of(error)}") from None
    if not lines or not lines[0]:
        raise ConfigError(f"metadata.store.password.file: {path}: the first line is empty; write the password there")
    return lines[0]
