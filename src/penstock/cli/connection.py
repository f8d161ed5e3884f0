"""Connects a command to a broker.

Owns the precedence (`--bootstrap-server`, its environment variable, the embedded broker) and the librdkafka settings of
all commands. It must not know what a command does with the connection.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.cli.command_error import usage_error
from penstock.cli.options import parse_assignments
from penstock.client.local_broker.bootstrap import embedded_broker, require_listener
from penstock.core.addresses import DEFAULT_DATA_DIR, parse_bootstrap_servers

if TYPE_CHECKING:
    from penstock.wire.client import WireClient


@contextlib.contextmanager
def connected(bootstrap_server: str | None, client_properties: Sequence[str] | None) -> Iterator[dict[str, Any]]:
    """Yields the librdkafka configuration for a broker that accepts connections while the context lasts."""
    properties: dict[str, Any] = dict(parse_assignments(client_properties or (), "-X"))
    named = bootstrap_server or properties.get("bootstrap.servers")
    if named is not None:
        try:
            require_listener(parse_bootstrap_servers(named))
        except ValueError as mistake:
            raise usage_error(f"--bootstrap-server {mistake}") from mistake
        yield _configuration(named, properties)
        return
    with embedded_broker(DEFAULT_DATA_DIR, on_start=_announce) as address:
        yield _configuration(address, properties)


@contextlib.contextmanager
def wire_connected(configuration: Mapping[str, Any]) -> Iterator[WireClient]:
    """The wire client to the same broker, for requests that librdkafka does not have."""
    from penstock.wire.client import WIRE_SETTING_NAMES, WireClient

    with WireClient(
        {name: str(value) for name, value in configuration.items() if name in WIRE_SETTING_NAMES}
    ) as client:
        yield client


def _announce(address: str) -> None:
    if sys.stderr.isatty():
        print(
            f"penstock: started the embedded broker of ./{DEFAULT_DATA_DIR}/ on {address} for this command",
            file=sys.stderr,
        )


def _configuration(servers: str, properties: dict[str, Any]) -> dict[str, Any]:
    # librdkafka would log every failure on stderr; the command prints one line instead.
    quiet = {} if "debug" in properties else {"log_level": 0}
    return {"client.id": "penstock-cli", **quiet, **properties, "bootstrap.servers": servers}
