"""The settings of a cluster's metadata store: `metadata.store` as an address, and what belongs to it.

Checked when a broker loads its configuration. Opens no file and no connection.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from penstock.metadata.cluster_definitions import METADATA_STORE
from penstock.metadata.config_definition import ConfigError, ConfigValue

_SCHEME: Final = "etcd://"
_DEFAULT_PORT: Final = 2379
_PORT_MAX: Final = 65535
_PREFIX: Final = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")
_EXAMPLE: Final = "write etcd://host:port[,host:port...][/prefix]"
_HEARTBEATS_PER_SESSION: Final = 3


@dataclass(frozen=True, slots=True)
class MetadataStoreSettings:
    """`prefix` begins and ends with a slash. Without `ssl_enable` the files of TLS are None."""

    members: tuple[tuple[str, int], ...]
    prefix: str
    user: str | None
    password_file: str | None
    ssl_enable: bool
    ssl_truststore_location: str | None
    ssl_keystore_location: str | None
    session_timeout_ms: int
    heartbeat_interval_ms: int


def metadata_store_settings(
    effective: Callable[[str], ConfigValue], *, has_node_id: bool
) -> MetadataStoreSettings | None:
    """None if `metadata.store` is not set. Raises ConfigError for what does not fit together."""
    address = _text(effective(METADATA_STORE))
    user, password_file = (_text(effective(f"{METADATA_STORE}.{name}")) for name in ("user", "password.file"))
    truststore, keystore = (
        _text(effective(f"{METADATA_STORE}.ssl.{name}.location")) for name in ("truststore", "keystore")
    )
    if address is None:
        return None
    members, prefix = parse_address(address)
    if not has_node_id:
        raise ConfigError(f"{METADATA_STORE}: a broker of a cluster needs an id of its own; set node.id")
    if (user is None) != (password_file is None):
        raise ConfigError(f"{METADATA_STORE}.user and {METADATA_STORE}.password.file belong together; set both or none")
    ssl_enable = effective(f"{METADATA_STORE}.ssl.enable") is True
    if (truststore or keystore) and not ssl_enable:
        raise ConfigError(f"{METADATA_STORE}.ssl.enable is false, but certificates are set; set it to true")
    session, heartbeat = effective("broker.session.timeout.ms"), effective("broker.heartbeat.interval.ms")
    assert isinstance(session, int)
    assert isinstance(heartbeat, int)
    if session < _HEARTBEATS_PER_SESSION * heartbeat:
        raise ConfigError(
            f"broker.session.timeout.ms ({session}) must be at least {_HEARTBEATS_PER_SESSION} times "
            f"broker.heartbeat.interval.ms ({heartbeat})"
        )
    return MetadataStoreSettings(
        members, prefix, user, password_file, ssl_enable, truststore, keystore, session, heartbeat
    )


def parse_address(address: str) -> tuple[tuple[tuple[str, int], ...], str]:
    """The members' hosts and ports, and the prefix of the cluster's keys."""
    if not address.startswith(_SCHEME):
        raise ConfigError(f"{METADATA_STORE}: {address!r} is not an address of etcd; {_EXAMPLE}")
    hosts, _, path = address.removeprefix(_SCHEME).partition("/")
    if "@" in hosts:
        raise ConfigError(
            f"{METADATA_STORE}: a password in an address ends up in logs; set {METADATA_STORE}.user and "
            f"{METADATA_STORE}.password.file"
        )
    members = tuple(_member(address, text) for text in hosts.split(","))
    if path and not _PREFIX.fullmatch(path.removesuffix("/")):
        raise ConfigError(f"{METADATA_STORE}: {path!r} is not a prefix; use letters, digits and . _ - /")
    return members, f"/penstock/{path.removesuffix('/')}/" if path else "/penstock/"


def _member(address: str, text: str) -> tuple[str, int]:
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?", text.strip())
    port = int(match[2]) if match is not None and match[2] is not None else _DEFAULT_PORT
    if match is None or not 0 < port <= _PORT_MAX:
        raise ConfigError(f"{METADATA_STORE}: {text!r} in {address!r} is not host:port; {_EXAMPLE}")
    return match[1].strip("[]"), port


def _text(value: ConfigValue) -> str | None:
    return value.strip() if isinstance(value, str) and value.strip() else None
