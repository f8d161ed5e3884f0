"""Kafka's security settings in librdkafka's names: PEM stores (KIP-651) and `sasl.jaas.config`.

It must never know what a client does. Everything else of `ssl.*` and `sasl.*` has the same name in both.

Invariant: no error message contains a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

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


def in_librdkafka_names(config: Mapping[str, Any]) -> dict[str, Any]:
    """The same configuration, without the names that only Java has."""
    translated = dict(config)
    if "sasl.jaas.config" in translated:
        _translate_jaas(translated)
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
