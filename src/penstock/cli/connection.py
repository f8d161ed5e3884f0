"""Connects a command to a broker.

Owns the precedence (`--bootstrap-server`, its environment variable, the embedded broker) and the librdkafka settings of
all commands. It must not know what a command does with the connection.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.cli.command_error import usage_error
from penstock.cli.options import parse_assignments
from penstock.client.local_broker.bootstrap import embedded_broker, require_listener
from penstock.client.security_settings import GivenToken, in_librdkafka_names
from penstock.core.addresses import DEFAULT_DATA_DIR, parse_bootstrap_servers
from penstock.core.errors import AccessDenied, BrokerUnreachable, PenstockError
from penstock.core.properties import PropertiesError, parse_properties

if TYPE_CHECKING:
    from penstock.wire.client import WireClient

_DIAGNOSIS_TIMEOUT_S: Final = 5.0
COMMAND_CONFIG_VARIABLE: Final = "PENSTOCK_COMMAND_CONFIG"
_SECRET_NAMES: Final = frozenset(
    {"sasl.jaas.config", "sasl.oauthbearer.client.secret", "sasl.oauthbearer.token", "sasl.password",
     "ssl.key.password", "ssl.keystore.key", "ssl.keystore.password", "ssl.key.pem"}
)  # fmt: skip


@contextlib.contextmanager
def connected(bootstrap_server: str | None, client_properties: Sequence[str] | None) -> Iterator[dict[str, Any]]:
    """Yields the librdkafka configuration for a broker that accepts connections while the context lasts."""
    properties: dict[str, Any] = in_librdkafka_names(
        _command_config() | parse_assignments(client_properties or (), "-X")
    )
    _warn_of_secrets(client_properties or ())
    named = bootstrap_server or properties.get("bootstrap.servers")
    if named is not None:
        try:
            require_listener(parse_bootstrap_servers(named))
        except ValueError as mistake:
            raise usage_error(f"--bootstrap-server {mistake}") from mistake
        configuration = _configuration(named, properties)
        try:
            yield configuration
        except (AccessDenied, BrokerUnreachable) as failure:
            _raise_if_denied(configuration)
            raise failure
        return
    with embedded_broker(DEFAULT_DATA_DIR, on_start=_announce) as address:
        yield _configuration(address, properties)


@contextlib.contextmanager
def wire_connected(configuration: Mapping[str, Any]) -> Iterator[WireClient]:
    """The wire client to the same broker, for requests that librdkafka does not have."""
    from penstock.wire.client import WIRE_SETTING_NAMES, WireClient

    settings = {name: str(value) for name, value in configuration.items() if name in WIRE_SETTING_NAMES}
    token = configuration.get("oauth_cb")
    if isinstance(token, GivenToken):
        settings |= token.settings
    with WireClient(settings) as client:
        yield client


def _raise_if_denied(configuration: Mapping[str, Any]) -> None:
    """librdkafka goes on trying if a broker refuses its credentials or its certificate, and says that none answered, or
    that authentication failed. The wire client says why: raises AccessDenied."""
    if "security.protocol" not in configuration:
        return
    try:
        with wire_connected(configuration) as client:
            client.metadata([], timeout_s=_DIAGNOSIS_TIMEOUT_S)
    except PenstockError as reason:
        if reason.entry.condition == AccessDenied.condition:
            raise AccessDenied(str(reason)) from None


def _command_config() -> dict[str, str]:
    """The client's settings in the file of --command-config, or the one that PENSTOCK_COMMAND_CONFIG names."""
    path = os.environ.get(COMMAND_CONFIG_VARIABLE)
    if not path:
        return {}
    try:
        entries = parse_properties(Path(path).read_text(encoding="utf-8"))
    except PropertiesError as mistake:
        raise usage_error(f"--command-config {path}:{mistake.line_number}: {mistake.reason}") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise usage_error(f"--command-config {path}: {reason}") from None
    return {entry.key: entry.value for entry in entries}


def _warn_of_secrets(words: Sequence[str]) -> None:
    for word in words:
        name = word.partition("=")[0].strip()
        if name in _SECRET_NAMES:
            print(
                f"penstock: every user of this machine can read {name} on the command line; write it to a file and "
                f"set {COMMAND_CONFIG_VARIABLE}",
                file=sys.stderr,
            )


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
