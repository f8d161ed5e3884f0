"""How each listener is secured: the settings of TLS and SASL, by listener.

Kafka's rule: `listener.name.<name>.<setting>` holds for one listener, the plain setting for all others. A setting of
one mechanism has its name in between: `listener.name.<name>.oauthbearer.<setting>`. The users of PLAIN are options of
`listener.name.<name>.plain.sasl.jaas.config`. Parses and checks text only: certificates are opened by
`broker/network/tls.py`, key sets by `broker/network/token_keys.py`.

Invariant: no `repr` and no error message contains a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from penstock.core.jaas import MalformedJaas, parse_jaas
from penstock.metadata.config_definition import ConfigDefinition, ConfigError, ConfigType, ConfigValue, nearest_name

PREFIX: Final = "listener.name."
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SASL_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
VALIDATOR_CLASSES: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
)
"""Kafka's own, by its newer and its older name."""
_HANDLER: Final = "sasl.server.callback.handler.class"
_OAUTH_PREFIX: Final = "sasl.oauthbearer."
_JAAS: Final = "sasl.jaas.config"
_USER_OPTION: Final = "user_"

JAAS_CONFIG: Final = ConfigDefinition(
    _JAAS, ConfigType.PASSWORD, None, "The login module of one mechanism on one listener, with the users of PLAIN."
)

CALLBACK_HANDLER: Final = ConfigDefinition(
    _HANDLER, ConfigType.CLASS, None, "What checks the tokens of OAUTHBEARER: Kafka's own validator.",
    choices=VALIDATOR_CLASSES,
)  # fmt: skip

Lookup = Callable[[str], ConfigValue]


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Where the broker's certificate and its authorities come from. Files are PEM; text is PEM too (KIP-651)."""

    keystore_file: str | None
    certificate_chain: str | None
    truststore_file: str | None
    truststore_certificates: str | None
    client_auth: str
    enabled_protocols: tuple[str, ...]
    cipher_suites: tuple[str, ...]
    principal_mapping_rules: str
    key: str | None = field(repr=False)
    key_password: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class OAuthSettings:
    """Where the keys of OAUTHBEARER come from, and what a token has to say."""

    jwks_url: str
    refresh_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    expected_audience: tuple[str, ...]
    expected_issuer: str | None
    subject_claim: str
    scope_claim: str
    clock_skew_seconds: int


@dataclass(frozen=True, slots=True)
class SaslSettings:
    mechanisms: tuple[str, ...]
    max_reauth_ms: int
    plain_users: Mapping[str, str] = field(repr=False)
    oauth: OAuthSettings | None = None


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    listener_name: str
    protocol: str = "PLAINTEXT"
    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None

    @property
    def authenticates(self) -> bool:
        """Whether a client has to prove who it is."""
        return self.sasl is not None or (self.tls is not None and self.tls.client_auth == "required")


def split_listener_name(name: str) -> tuple[str, str] | None:
    """The listener and the rest of `listener.name.<name>.<rest>`; None for any other name."""
    if not name.startswith(PREFIX):
        return None
    listener, dot, rest = name[len(PREFIX) :].partition(".")
    return (listener, rest) if listener and dot and rest else None


def definition_of_listener_setting(name: str, definitions: Mapping[str, ConfigDefinition]) -> ConfigDefinition:
    """The definition behind a name with a listener's prefix. Raises ConfigError for names that cannot have one."""
    parts = split_listener_name(name)
    if parts is not None:
        _, rest = parts
        if rest in definitions and definitions[rest].per_listener:
            return definitions[rest]
        mechanism, _, setting = rest.partition(".")
        if setting == _JAAS and mechanism.upper() in SASL_MECHANISMS:
            return JAAS_CONFIG
        if mechanism == "oauthbearer" and setting == _HANDLER:
            return CALLBACK_HANDLER
        if mechanism == "oauthbearer" and setting.startswith(_OAUTH_PREFIX) and setting in definitions:
            return definitions[setting]
        if rest == _JAAS:
            raise ConfigError(f"{name}: name the mechanism too: {PREFIX}{parts[0]}.plain.{_JAAS}")
    known = [each for each in definitions if definitions[each].per_listener]
    nearest = nearest_name(parts[1], known) if parts is not None else None
    remedy = f"did you mean {nearest}?" if nearest else "remove the prefix"
    raise ConfigError(f"{name!r} is not a setting that a listener can have for itself; {remedy}")


def listener_security(
    listener_name: str, protocol: str, effective: Lookup, static: Mapping[str, str]
) -> ListenerSecurity:
    """`effective` gives the value of a setting for this listener."""
    return ListenerSecurity(
        listener_name,
        protocol,
        tls=_tls(listener_name, effective) if protocol.endswith("SSL") else None,
        sasl=_sasl(listener_name, effective, static) if protocol.startswith("SASL") else None,
    )


def _tls(listener_name: str, effective: Lookup) -> TlsSettings:
    settings = TlsSettings(
        keystore_file=_text(effective("ssl.keystore.location")),
        certificate_chain=_text(effective("ssl.keystore.certificate.chain")),
        truststore_file=_text(effective("ssl.truststore.location")),
        truststore_certificates=_text(effective("ssl.truststore.certificates")),
        client_auth=str(effective("ssl.client.auth")),
        enabled_protocols=_names(effective("ssl.enabled.protocols")),
        cipher_suites=_names(effective("ssl.cipher.suites")),
        principal_mapping_rules=str(effective("ssl.principal.mapping.rules")),
        key=_text(effective("ssl.keystore.key")),
        key_password=_text(effective("ssl.key.password")),
    )
    if settings.keystore_file is None and settings.certificate_chain is None:
        raise ConfigError(
            f"listeners: {listener_name}: TLS needs a certificate; set ssl.keystore.location to a PEM file with the "
            "private key and the certificates"
        )
    if settings.keystore_file is not None and (settings.certificate_chain or settings.key):
        raise ConfigError(
            "ssl.keystore.location: set either it or ssl.keystore.certificate.chain and ssl.keystore.key, not both"
        )
    if settings.certificate_chain is not None and settings.key is None:
        raise ConfigError("ssl.keystore.key is missing: ssl.keystore.certificate.chain needs its private key")
    if settings.truststore_file is not None and settings.truststore_certificates is not None:
        raise ConfigError("ssl.truststore.location: set either it or ssl.truststore.certificates, not both")
    without_authorities = settings.truststore_file is None and settings.truststore_certificates is None
    if settings.client_auth != "none" and without_authorities:
        raise ConfigError(
            f"ssl.client.auth={settings.client_auth} needs authorities to check client certificates by; set "
            "ssl.truststore.location to a PEM file"
        )
    return settings


def _sasl(listener_name: str, effective: Lookup, static: Mapping[str, str]) -> SaslSettings:
    mechanisms = _names(effective("sasl.enabled.mechanisms"))
    if not mechanisms:
        raise ConfigError(
            f"listener {listener_name}: SASL needs a mechanism; set sasl.enabled.mechanisms to some of "
            f"{', '.join(SASL_MECHANISMS)}"
        )
    users: dict[str, str] = {}
    jaas = static.get(f"{PREFIX}{listener_name.lower()}.plain.{_JAAS}")
    if jaas is not None:
        users = _plain_users(f"{PREFIX}{listener_name.lower()}.plain.{_JAAS}", jaas)
    elif "PLAIN" in mechanisms:
        raise ConfigError(
            f"listener {listener_name}: PLAIN needs users; set {PREFIX}{listener_name.lower()}.plain.{_JAAS} to "
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="...";'
        )
    max_reauth_ms = effective("connections.max.reauth.ms")
    assert isinstance(max_reauth_ms, int)
    oauth = _oauth(listener_name, effective, static) if "OAUTHBEARER" in mechanisms else None
    return SaslSettings(mechanisms, max_reauth_ms, users, oauth)


def _oauth(listener_name: str, effective: Lookup, static: Mapping[str, str]) -> OAuthSettings:
    _check_login_module(f"{PREFIX}{listener_name.lower()}.oauthbearer.{_JAAS}", static)

    def of_mechanism(name: str) -> ConfigValue:
        return effective(f"oauthbearer.{_OAUTH_PREFIX}{name}")

    def number(name: str) -> int:
        value = of_mechanism(name)
        assert isinstance(value, int)
        return value

    return OAuthSettings(
        jwks_url=_key_set_url(listener_name, _text(of_mechanism("jwks.endpoint.url"))),
        refresh_ms=number("jwks.endpoint.refresh.ms"),
        retry_backoff_ms=number("jwks.endpoint.retry.backoff.ms"),
        retry_backoff_max_ms=number("jwks.endpoint.retry.backoff.max.ms"),
        expected_audience=_names(of_mechanism("expected.audience")),
        expected_issuer=_text(of_mechanism("expected.issuer")),
        subject_claim=str(of_mechanism("sub.claim.name")),
        scope_claim=str(of_mechanism("scope.claim.name")),
        clock_skew_seconds=number("clock.skew.seconds"),
    )


def _key_set_url(listener_name: str, url: str | None) -> str:
    name = f"{_OAUTH_PREFIX}jwks.endpoint.url"
    if url is None:
        raise ConfigError(
            f"listener {listener_name}: OAUTHBEARER needs keys to check tokens by; set {name} to the URL of a JSON Web "
            "Key Set, https://... or file:///..."
        )
    try:
        parts = urlsplit(url)
        has_secret = parts.username is not None or parts.password is not None
        host = parts.hostname
    except ValueError:
        raise ConfigError(f"{name}: not a URL; write https://host/path or file:///path") from None
    if has_secret:
        raise ConfigError(f"{name}: a user or a password in a URL ends up in logs; remove it")
    if parts.scheme == "file":
        if host or not parts.path.startswith("/"):
            raise ConfigError(f"{name}: {url!r} is not accepted; write file:///path with three slashes")
    elif parts.scheme not in ("http", "https") or not host:
        raise ConfigError(f"{name}: {url!r} is not accepted; write https://host/path or file:///path")
    return url


def _check_login_module(name: str, static: Mapping[str, str]) -> None:
    """Kafka asks for this setting; its options are those of unsigned tokens, which are never accepted here."""
    text = static.get(name)
    if text is None:
        return
    try:
        module, options = parse_jaas(text)
    except MalformedJaas as error:
        raise ConfigError(f"{name}: {error}") from None
    if module != "OAuthBearerLoginModule":
        raise ConfigError(f"{name}: the mechanism OAUTHBEARER requires OAuthBearerLoginModule, not {module}")
    if options:
        raise ConfigError(
            f"{name}: the option {next(iter(options))} is not supported; tokens must be signed: remove it"
        )


def _plain_users(name: str, text: str) -> dict[str, str]:
    try:
        module, options = parse_jaas(text)
    except MalformedJaas as error:
        raise ConfigError(f"{name}: {error}") from None
    if module != "PlainLoginModule":
        raise ConfigError(f"{name}: the mechanism PLAIN requires PlainLoginModule, not {module}")
    users = {
        option.removeprefix(_USER_OPTION): password
        for option, password in options.items()
        if option.startswith(_USER_OPTION)
    }
    unknown = [option for option in options if option not in ("username", "password") and option[5:] not in users]
    if unknown:
        raise ConfigError(f"{name}: the option {unknown[0]} is not known; users are written as user_NAME")
    if not all(users.values()):
        raise ConfigError(f"{name}: a user has an empty password")
    return users


def _text(value: ConfigValue) -> str | None:
    return None if value is None or value == "" else str(value)


def _names(value: ConfigValue) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()
