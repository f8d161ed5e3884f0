"""The wire client's settings: validated once, in a form that can be pickled to Spark tasks.

Owns the setting names that the wire client accepts (Kafka's, and for certificates also librdkafka's). It must never
know sockets.

Invariants: every accepted setting has an effect; no `repr` and no error message contains a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from penstock.core.addresses import parse_bootstrap_servers
from penstock.core.errors import InvalidClientSetting
from penstock.core.jaas import MalformedJaas, parse_jaas
from penstock.security.sasl import MECHANISMS

if TYPE_CHECKING:
    from penstock.wire.tokens import TokenEndpoint

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_STORE_REMEDY: Final = "convert it to PEM (openssl pkcs12 -nokeys -in STORE -out ca.pem) and set ssl.ca.location"
_KEY_STORE_REMEDY: Final = "convert it to PEM (openssl pkcs12) and set ssl.certificate.location and ssl.key.location"

# Milliseconds: Kafka's default and the minimum.
_TIMES_MS: Final[Mapping[str, tuple[int, int]]] = {
    "connections.max.idle.ms": (540_000, 0),
    "default.api.timeout.ms": (60_000, 1),
    "metadata.max.age.ms": (300_000, 0),
    "reconnect.backoff.max.ms": (1_000, 0),
    "reconnect.backoff.ms": (50, 0),
    "request.timeout.ms": (30_000, 1),
    "retry.backoff.max.ms": (1_000, 0),
    "retry.backoff.ms": (100, 0),
    "socket.connection.setup.timeout.ms": (10_000, 1),
}
_TLS_NAMES: Final = frozenset(
    {
        "enable.ssl.certificate.verification",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
_SASL_NAMES: Final = frozenset(
    {
        "sasl.jaas.config",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.password",
        "sasl.username",
    }
)
WIRE_SETTING_NAMES: Final = (
    frozenset({"bootstrap.servers", "client.id", "security.protocol", *_TIMES_MS}) | _TLS_NAMES | _SASL_NAMES
)
"""All accepted names; a caller with settings for several clients selects these."""


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Sources of certificates. Without a CA the system's authorities are used; a client certificate is optional."""

    ca_file: str | None = None
    ca_pem: str | None = None
    certificate_file: str | None = None
    certificate_pem: str | None = None
    key_file: str | None = None
    key_pem: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    verify_certificate: bool = True
    verify_host: bool = True


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """For OAUTHBEARER, `password` is the token, unless it comes from `token_endpoint`."""

    mechanism: str
    username: str = field(repr=False)
    password: str = field(repr=False)
    token_endpoint: TokenEndpoint | None = None


@dataclass(frozen=True, slots=True)
class WireSettings:
    servers: tuple[tuple[str, int], ...]
    client_id: str
    tls: TlsSettings | None
    sasl: SaslSettings | None
    times_ms: Mapping[str, int]

    def seconds(self, name: str) -> float:
        """A setting whose name ends in `.ms`, in seconds."""
        return self.times_ms[name] / 1000

    @classmethod
    def parse(cls, settings: Mapping[str, str]) -> WireSettings:
        """Raises InvalidClientSetting with one line that names the setting and the remedy."""
        for name in settings:
            if name not in WIRE_SETTING_NAMES:
                raise _unknown(name)
        values = {name: str(value).strip() for name, value in settings.items()}
        try:
            servers = parse_bootstrap_servers(values.get("bootstrap.servers", ""))
        except ValueError as mistake:
            raise InvalidClientSetting(f"bootstrap.servers: {mistake}") from mistake
        protocol = values.get("security.protocol", "PLAINTEXT").upper()
        if protocol not in _PROTOCOLS:
            raise InvalidClientSetting(f"security.protocol={protocol}: expected one of {', '.join(_PROTOCOLS)}")
        _reject_without_effect(values, protocol)
        return cls(
            servers=tuple(servers),
            client_id=values.get("client.id", "penstock"),
            tls=_tls(values) if protocol.endswith("SSL") else None,
            sasl=_sasl(values) if protocol.startswith("SASL") else None,
            times_ms={
                name: _time_ms(name, values[name], minimum) if name in values else default
                for name, (default, minimum) in _TIMES_MS.items()
            },
        )


def _unknown(name: str) -> InvalidClientSetting:
    from difflib import get_close_matches

    nearest = get_close_matches(str(name).lower().replace("_", "."), WIRE_SETTING_NAMES, n=1)
    hint = f"; did you mean '{nearest[0]}'?" if nearest else ""
    return InvalidClientSetting(f"'{name}' is not a setting of the wire client{hint}")


def _reject_without_effect(values: Mapping[str, str], protocol: str) -> None:
    """Rejects security settings that the protocol ignores: the connection would be less secure than expected."""
    for name in sorted(values):
        if name in _TLS_NAMES and not protocol.endswith("SSL"):
            raise InvalidClientSetting(f"{name}: no effect with security.protocol={protocol}; set SSL or SASL_SSL")
        if name in _SASL_NAMES and not protocol.startswith("SASL"):
            raise InvalidClientSetting(
                f"{name}: no effect with security.protocol={protocol}; set SASL_SSL or SASL_PLAINTEXT"
            )


def _time_ms(name: str, text: str, minimum: int) -> int:
    try:
        value = int(text)
    except ValueError:
        raise InvalidClientSetting(f"{name}={text}: expected a whole number of milliseconds") from None
    if value < minimum:
        raise InvalidClientSetting(f"{name}={text}: must be at least {minimum}")
    return value


def _tls(values: Mapping[str, str]) -> TlsSettings:
    _require_pem(values, "ssl.truststore", _STORE_REMEDY)
    _require_pem(values, "ssl.keystore", _KEY_STORE_REMEDY)
    algorithm = values.get("ssl.endpoint.identification.algorithm", "https").lower()
    if algorithm not in ("https", "none", ""):
        raise InvalidClientSetting(f"ssl.endpoint.identification.algorithm={algorithm}: expected https or none")
    verify = values.get("enable.ssl.certificate.verification", "true").lower()
    if verify not in ("true", "false"):
        raise InvalidClientSetting(f"enable.ssl.certificate.verification={verify}: expected true or false")
    # A PEM key store of Kafka is one file with the key and the certificates.
    key_store = values.get("ssl.keystore.location")
    settings = TlsSettings(
        ca_file=values.get("ssl.ca.location", values.get("ssl.truststore.location")),
        ca_pem=values.get("ssl.ca.pem", values.get("ssl.truststore.certificates")),
        certificate_file=values.get("ssl.certificate.location", key_store),
        certificate_pem=values.get("ssl.certificate.pem", values.get("ssl.keystore.certificate.chain")),
        key_file=values.get("ssl.key.location", key_store),
        key_pem=values.get("ssl.key.pem", values.get("ssl.keystore.key")),
        key_password=values.get("ssl.key.password"),
        verify_certificate=verify == "true",
        verify_host=algorithm == "https",
    )
    has_key = settings.key_file is not None or settings.key_pem is not None
    if has_key != (settings.certificate_file is not None or settings.certificate_pem is not None):
        raise InvalidClientSetting("ssl.certificate.location and ssl.key.location: set both or neither")
    return settings


def _require_pem(values: Mapping[str, str], store: str, remedy: str) -> None:
    kind = values.get(f"{store}.type", "JKS").upper()
    if f"{store}.location" in values and kind != "PEM":
        raise InvalidClientSetting(f"{store}.location: a {kind} store is a Java format; {remedy}")
    if f"{store}.type" in values and kind != "PEM":
        raise InvalidClientSetting(f"{store}.type={kind}: only PEM is supported; {remedy}")
    if f"{store}.password" in values:
        raise InvalidClientSetting(
            f"{store}.password: a PEM store has no password; remove the setting (or set ssl.key.password)"
        )


def _sasl(values: Mapping[str, str]) -> SaslSettings:
    mechanism = values.get("sasl.mechanism", values.get("sasl.mechanisms", "")).upper()
    if mechanism not in MECHANISMS:
        raise InvalidClientSetting(f"sasl.mechanism={mechanism or '(missing)'}: expected {', '.join(MECHANISMS)}")
    if mechanism == "OAUTHBEARER":
        return _oauthbearer(values)
    for name in sorted(values):
        if name.startswith("sasl.oauthbearer."):
            raise InvalidClientSetting(f"{name}: no effect with sasl.mechanism={mechanism}")
    username, password = values.get("sasl.username"), values.get("sasl.password")
    if "sasl.jaas.config" in values:
        if username is not None or password is not None:
            raise InvalidClientSetting("sasl.jaas.config: set either it or sasl.username and sasl.password, not both")
        username, password = _jaas_credentials(values["sasl.jaas.config"], mechanism)
    if username is None or password is None:
        raise InvalidClientSetting("sasl.username and sasl.password (or sasl.jaas.config) are missing")
    return SaslSettings(mechanism, username, password)


def _oauthbearer(values: Mapping[str, str]) -> SaslSettings:
    prefix = "sasl.oauthbearer."
    token, url = values.get(prefix + "token"), values.get(prefix + "token.endpoint.url")
    for name in ("sasl.jaas.config", "sasl.username", "sasl.password"):
        if name in values:
            raise InvalidClientSetting(
                f"{name}: no effect with sasl.mechanism=OAUTHBEARER; set {prefix}client.id and {prefix}client.secret"
            )
    if values.get(prefix + "method", "oidc").lower() not in ("oidc", "default"):
        raise InvalidClientSetting(f"{prefix}method={values[prefix + 'method']}: expected oidc or default")
    if token and url:
        raise InvalidClientSetting(f"{prefix}token: set either it or {prefix}token.endpoint.url, not both")
    if token:
        return SaslSettings("OAUTHBEARER", "", token)
    if not url:
        raise InvalidClientSetting(
            f"{prefix}token is missing; set it, or {prefix}token.endpoint.url to a file: URL with a token or to the "
            "https: URL of a token endpoint"
        )
    parts = urlsplit(url)
    if parts.scheme not in ("file", "http", "https") or not (parts.hostname or parts.scheme == "file"):
        raise InvalidClientSetting(f"{prefix}token.endpoint.url={url}: expected a file:, http: or https: URL")
    client_id, secret = values.get(prefix + "client.id", ""), values.get(prefix + "client.secret", "")
    if parts.scheme != "file" and not (client_id and secret):
        raise InvalidClientSetting(f"{prefix}client.id and {prefix}client.secret are missing: {url} asks for them")
    from penstock.wire.tokens import TokenEndpoint

    endpoint = TokenEndpoint(url, client_id, values.get(prefix + "scope", ""), secret)
    return SaslSettings("OAUTHBEARER", "", "", endpoint)


_JAAS_EXPECTED: Final = 'expected org.apache.kafka...LoginModule required username="..." password="...";'


def _jaas_credentials(text: str, mechanism: str) -> tuple[str, str]:
    """Error messages never contain the text, which includes the password."""
    try:
        module, options = parse_jaas(text)
    except MalformedJaas:
        raise InvalidClientSetting(f"sasl.jaas.config cannot be parsed: {_JAAS_EXPECTED}") from None
    wanted = "PlainLoginModule" if mechanism == "PLAIN" else "ScramLoginModule"
    if module != wanted:
        raise InvalidClientSetting(f"sasl.jaas.config: sasl.mechanism={mechanism} requires {wanted}, not {module}")
    if "username" not in options or "password" not in options:
        raise InvalidClientSetting(f"sasl.jaas.config has no username or no password: {_JAAS_EXPECTED}")
    return options["username"], options["password"]
