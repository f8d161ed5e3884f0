"""Listener addresses: `NAME://host:port`, as `listeners` and `advertised.listeners` write them.

Parses addresses and checks names. The broker opens the sockets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.metadata.config_definition import ConfigError
from penstock.metadata.listener_security import PROTOCOLS


@dataclass(frozen=True, slots=True)
class Listener:
    """One address. An empty host means every interface; port 0 lets the system choose."""

    name: str
    host: str
    port: int
    protocol: str = "PLAINTEXT"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_listener(key: str, text: str) -> Listener:
    name, separator, address = text.partition("://")
    host, colon, port_text = address.rpartition(":")
    port_is_number = port_text.isascii() and port_text.isdigit() and len(port_text) <= 5
    if not (separator and name and colon and port_is_number and int(port_text) <= 65535):
        raise ConfigError(f"{key}: {text!r} is not an address; write it as PLAINTEXT://host:port")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    return Listener(name.upper(), host, int(port_text))


def parse_protocol_map(text: str) -> dict[str, str]:
    """`listener.security.protocol.map`: listener names to security protocols."""
    protocols: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = entry.partition(":")
        if not colon or not name or not protocol:
            raise ConfigError(f"listener.security.protocol.map: {entry!r} is not a NAME:PROTOCOL pair")
        if protocol.strip().upper() not in PROTOCOLS:
            raise ConfigError(
                f"listener.security.protocol.map: {protocol.strip()} is not a security protocol; expected one of "
                f"{', '.join(PROTOCOLS)}"
            )
        protocols[name.strip().upper()] = protocol.strip().upper()
    return protocols


def parse_listeners(
    key: str, addresses: Sequence[str], protocols: Mapping[str, str], controller_names: Sequence[str]
) -> tuple[Listener, ...]:
    """The addresses that this broker serves, with their protocols. Those of Kafka's controllers are left out."""
    controllers = {name.upper() for name in controller_names}
    listeners: list[Listener] = []
    for address in addresses:
        listener = parse_listener(key, address)
        if listener.name in controllers:
            continue
        protocol = protocols.get(listener.name)
        if protocol is None:
            raise ConfigError(
                f"{key}: the listener name {listener.name} has no protocol; add it to listener.security.protocol.map"
            )
        if any(other.name == listener.name for other in listeners):
            raise ConfigError(f"{key}: the listener name {listener.name} is used twice; give each its own name")
        listeners.append(replace(listener, protocol=protocol))
    return tuple(listeners)


def check_ports(listeners: Sequence[Listener]) -> None:
    """Each listener has a port of its own; an IPv4 and an IPv6 address may share one, and port 0 is always free."""
    taken: dict[tuple[int, bool], Listener] = {}
    for listener in listeners:
        other = taken.setdefault((listener.port, ":" in listener.host), listener)
        if other is not listener and listener.port != 0:
            raise ConfigError(f"listeners: {other} and {listener} use the same port; give each its own")


def advertised_by_name(listeners: Sequence[Listener], advertised: Sequence[Listener]) -> tuple[Listener, ...]:
    """What clients are told of each listener: its entry in `advertised.listeners`, or the listener itself."""
    by_name = {listener.name: listener for listener in advertised}
    missing = by_name.keys() - {listener.name for listener in listeners}
    if missing:
        raise ConfigError(f"advertised.listeners: {min(missing)} is not one of the names in listeners; add it there")
    return tuple(by_name.get(listener.name, listener) for listener in listeners)


def inter_broker_listener(listeners: Sequence[Listener], configured: str | None) -> str:
    """The name of the listener that brokers reach each other by; the first one where none is configured."""
    names = [listener.name for listener in listeners]
    if configured is None:
        return names[0]
    if configured.upper() not in names:
        raise ConfigError(
            f"inter.broker.listener.name: {configured} is not one of the names in listeners ({', '.join(names)}); "
            "add it there"
        )
    return configured.upper()
