"""How this broker proves to others who it is: TLS and SASL of the listener between brokers, from its settings.

As in Kafka, a broker is a client of `inter.broker.listener.name`: it trusts the authorities of that listener's trust
store, shows that listener's certificate, and logs in with `username` and `password` of the listener's JAAS settings for
`sasl.mechanism.inter.broker.protocol`.

Invariant: no error message and no `repr` contains a secret.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from penstock.broker.network.tls import TlsError, client_context
from penstock.core.jaas import MalformedJaas, parse_jaas
from penstock.metadata.config_definition import ConfigError

if TYPE_CHECKING:
    from penstock.metadata.broker_config import BrokerConfig

_MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"
_LOGIN_MODULES: Final = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
}


@dataclass(frozen=True, slots=True)
class SaslLogin:
    mechanism: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class PeerCredentials:
    """`tls` is None on a listener without TLS, `sasl` on one without SASL."""

    tls: ssl.SSLContext | None = None
    sasl: SaslLogin | None = None


def peer_credentials(config: BrokerConfig) -> PeerCredentials:
    """Raises ConfigError, in one line, for settings with which no broker could be reached."""
    name = config.inter_broker_listener_name
    security = config.listener_security[name]
    tls = None
    if security.tls is not None:
        try:
            tls = client_context(security.tls, checks_host_names=bool(config.ssl_endpoint_identification_algorithm))
        except TlsError as error:
            raise ConfigError(f"inter.broker.listener.name={name}: {error}") from None
    if security.sasl is None:
        return PeerCredentials(tls)
    mechanism = config.sasl_mechanism_inter_broker_protocol
    if mechanism is None:
        raise ConfigError(f"{_MECHANISM} is missing: brokers need a mechanism of SASL on the listener {name}")
    if mechanism not in security.sasl.mechanisms:
        raise ConfigError(
            f"{_MECHANISM}: {mechanism} is not enabled on the listener {name}; add it to sasl.enabled.mechanisms"
        )
    return PeerCredentials(tls, _login(name, mechanism, config))


def _login(listener_name: str, mechanism: str, config: BrokerConfig) -> SaslLogin:
    module_name = _LOGIN_MODULES.get(mechanism)
    if module_name is None:
        raise ConfigError(
            f"{_MECHANISM}: {mechanism} is not available between brokers; use one of {', '.join(_LOGIN_MODULES)}"
        )
    name = f"listener.name.{listener_name.lower()}.{mechanism.lower()}.sasl.jaas.config"
    text = config.layers.static.get(name)
    if text is None:
        raise ConfigError(f"{name} is missing: it holds the username and the password that brokers log in with")
    try:
        module, options = parse_jaas(text)
    except MalformedJaas as error:
        raise ConfigError(f"{name}: {error}") from None
    if module != module_name:
        raise ConfigError(f"{name}: the mechanism {mechanism} requires {module_name}, not {module}")
    username, password = options.get("username"), options.get("password")
    if not username or not password:
        raise ConfigError(f"{name}: username and password are missing; brokers log in with them")
    return SaslLogin(mechanism, username, password)
