"""Kafka's security settings in librdkafka's names: PEM stores (KIP-651), `sasl.jaas.config` and tokens.

It must never know what a client does. Everything else of `ssl.*` and `sasl.*` has the same name in both.

Invariant: no error message contains a secret.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from penstock.core.errors import InvalidClientSetting
from penstock.core.jaas import MalformedJaas, parse_jaas

_MODULES: Final = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
}
_REMEDIES: Final = {
    "ssl.truststore": "convert it to PEM (openssl pkcs12 -nokeys -in STORE -out ca.pem); set ssl.truststore.type=PEM",
    "ssl.keystore": "convert it to PEM (openssl pkcs12 -noenc -in STORE -out client.pem) and set ssl.keystore.type=PEM",
}


_TOKEN: Final = "sasl.oauthbearer.token"  # noqa: S105 - a name
_TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 - a name
_UNKNOWN_LIFETIME_S: Final = 300.0


class GivenToken:
    """librdkafka's `oauth_cb` for a token in a setting or in a file, which is read again for every renewal."""

    def __init__(self, setting: str, value: str) -> None:
        self.settings = {setting: value}
        """As the wire client takes them."""
        self._token = value if setting == _TOKEN else None
        self._path = Path(unquote(urlsplit(value).path))

    def __call__(self, _: str) -> tuple[str, float]:
        token = self._token
        if token is None:
            try:
                token = self._path.read_text(encoding="ascii").strip()
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "not a token"
                raise InvalidClientSetting(f"{_TOKEN_URL}: {self._path}: {reason}") from None
        return token, _expires_s(token)


def _expires_s(token: str) -> float:
    """When a JSON Web Token expires, by its own words; the broker decides. A token of another kind is kept a while."""
    try:
        part = token.split(".")[1]
        expires = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))["exp"]
        return float(expires)
    except (IndexError, KeyError, TypeError, ValueError):
        return time.time() + _UNKNOWN_LIFETIME_S


def in_librdkafka_names(config: Mapping[str, Any]) -> dict[str, Any]:
    """The same configuration, without the names that only Java has."""
    translated = dict(config)
    if "sasl.jaas.config" in translated:
        _translate_jaas(translated)
    _translate_token(translated)
    _translate_store(translated, "ssl.truststore", ("ssl.ca.location",))
    _translate_store(translated, "ssl.keystore", ("ssl.certificate.location", "ssl.key.location"))
    return translated


def _translate_jaas(config: dict[str, Any]) -> None:
    mechanism = str(config.get("sasl.mechanism", config.get("sasl.mechanisms", ""))).upper()
    if "sasl.username" in config or "sasl.password" in config:
        raise InvalidClientSetting("sasl.jaas.config: set either it or sasl.username and sasl.password, not both")
    if mechanism not in _MODULES:
        raise InvalidClientSetting(f"sasl.jaas.config needs sasl.mechanism: one of {', '.join(_MODULES)}")
    try:
        module, options = parse_jaas(str(config.pop("sasl.jaas.config")))
    except MalformedJaas as mistake:
        raise InvalidClientSetting(f"sasl.jaas.config: {mistake}") from None
    if module != _MODULES[mechanism]:
        raise InvalidClientSetting(
            f"sasl.jaas.config: sasl.mechanism={mechanism} requires {_MODULES[mechanism]}, not {module}"
        )
    if "username" not in options or "password" not in options:
        raise InvalidClientSetting("sasl.jaas.config has no username or no password")
    config["sasl.username"], config["sasl.password"] = options["username"], options["password"]


def _translate_token(config: dict[str, Any]) -> None:
    if _TOKEN not in config and not str(config.get(_TOKEN_URL, "")).startswith("file:"):
        return
    if (_TOKEN in config and _TOKEN_URL in config) or "oauth_cb" in config:
        raise InvalidClientSetting(f"{_TOKEN}: set one of it, {_TOKEN_URL} and oauth_cb")
    name = _TOKEN if _TOKEN in config else _TOKEN_URL
    config["oauth_cb"] = GivenToken(name, str(config.pop(name)))


def _translate_store(config: dict[str, Any], store: str, targets: tuple[str, ...]) -> None:
    location, kind = f"{store}.location", f"{store}.type"
    if kind not in config:
        return  # librdkafka reads PKCS#12 key stores by itself, and settings.py refuses Java's trust stores
    if str(config.pop(kind)).upper() != "PEM":
        raise InvalidClientSetting(f"{kind}: only PEM is supported; {_REMEDIES[store]}")
    if f"{store}.password" in config:
        raise InvalidClientSetting(f"{store}.password: a PEM store has no password; set ssl.key.password for its key")
    if location in config:
        path = config.pop(location)
        config.update(dict.fromkeys(targets, path))
