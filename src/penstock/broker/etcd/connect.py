"""Joins the cluster that the broker's settings name: makes the connection to etcd, with TLS, user and password.

The password is read from its file once, at a start.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

from penstock.broker.etcd.broker_directory import BrokerDirectory
from penstock.broker.etcd.gateway import CALL_TIMEOUT_S, EtcdGateway
from penstock.broker.etcd.http_connection import Member, reason_of
from penstock.broker.etcd.metadata_store import EtcdMetadataStore
from penstock.broker.etcd.start import ClusterSettings, open_metadata_store
from penstock.core.clock import Clock, Entropy
from penstock.core.ids import BrokerId
from penstock.metadata.broker_config import BrokerConfig
from penstock.metadata.config_definition import ConfigError
from penstock.metadata.metadata_store_settings import MetadataStoreSettings


async def join_cluster(
    config: BrokerConfig, directory: Path, *, clock: Clock, entropy: Entropy, on_fatal: Callable[[str], None]
) -> EtcdMetadataStore:
    """Waits until etcd answers. Raises ConfigError and StoreError."""
    settings = config.metadata_store
    assert settings is not None
    gateway = gateway_of(settings)
    broker_directory = BrokerDirectory(directory, config.node_id)
    try:
        return await open_metadata_store(
            gateway,
            ClusterSettings(
                settings.prefix,
                BrokerId(config.node_id),
                settings.session_timeout_ms,
                settings.heartbeat_interval_ms,
                config.request_timeout_ms,
            ),
            broker_directory,
            clock=clock,
            entropy=entropy,
            on_fatal=on_fatal,
        )
    except BaseException:
        broker_directory.close()
        await gateway.close()
        raise


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
