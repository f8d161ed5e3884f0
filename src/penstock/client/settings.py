"""Validates client settings in Kafka's names and translates them into librdkafka's.

Owns the error messages about settings: one line with the name, the remedy and, for a typo, the most similar known name.
It must never know what a client does with a setting.

Invariant: every accepted setting has an effect; none is silently ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.client.security_settings import in_librdkafka_names
from penstock.client.setting_definitions import (
    ADMIN,
    ASSIGNORS,
    CONSUMER,
    DECIDED_BY_BROKER,
    EVERY_CLIENT,
    LIBRDKAFKA_ONLY,
    PRODUCER,
    UNSUPPORTED,
    Definition,
)
from penstock.core.addresses import parse_bootstrap_servers
from penstock.core.errors import InvalidClientSetting

# Of librdkafka's own settings. The others are about records, or callbacks of one client.
_CONNECTION_PREFIXES: Final = ("broker.", "enable.ssl.", "oauth_cb", "sasl.", "socket.", "ssl.")


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Effective values by Kafka's names, and the same settings for librdkafka."""

    values: Mapping[str, Any]
    given: frozenset[str]
    """The names that the caller set explicitly."""
    librdkafka: Mapping[str, Any]


def producer_settings(config: Mapping[str, Any]) -> ClientSettings:
    values, given = _checked(config, PRODUCER, "a producer")
    _check_idempotence(values, given)
    if "transactional.id" in values:
        # librdkafka 2.16 hangs in send_offsets_to_transaction when it rebootstraps meanwhile: the restart of a single
        # broker is enough.
        values.setdefault("metadata.recovery.strategy", "none")
    return ClientSettings(values, given, _translated(values, PRODUCER))


def consumer_settings(config: Mapping[str, Any]) -> ClientSettings:
    values, given = _checked(config, CONSUMER, "a consumer")
    if values["group.protocol"] == "consumer":
        for name in DECIDED_BY_BROKER:
            if name in given:
                raise InvalidClientSetting(
                    f"{name}: with group.protocol=consumer the broker decides it; remove the setting"
                )
            del values[name]
    elif "group.remote.assignor" in given:
        raise InvalidClientSetting("group.remote.assignor requires group.protocol=consumer")
    else:
        values["partition.assignment.strategy"] = _assignors(values["partition.assignment.strategy"])
    return ClientSettings(values, given, _translated(values, CONSUMER))


def admin_settings(config: Mapping[str, Any]) -> ClientSettings:
    values, given = _checked(config, ADMIN, "an admin client")
    return ClientSettings(values, given, _translated(values, ADMIN))


def connection_config(settings: ClientSettings) -> dict[str, Any]:
    """The settings that decide how to connect, in Kafka's names, for another client to the same brokers."""
    return {
        name: settings.values[name]
        for name in settings.given
        if name in EVERY_CLIENT or name.startswith(_CONNECTION_PREFIXES)
    }


def is_cooperative(settings: ClientSettings) -> bool:
    """Whether rebalances move single partitions instead of revoking all of them."""
    strategy = settings.values.get("partition.assignment.strategy")
    return strategy is None or strategy == "cooperative-sticky"


def _checked(
    config: Mapping[str, Any], definitions: Mapping[str, Definition], client: str
) -> tuple[dict[str, Any], frozenset[str]]:
    if not isinstance(config, Mapping):
        raise InvalidClientSetting(f"the configuration of {client} must be a dictionary, not {type(config).__name__}")
    values: dict[str, Any] = {
        name: definition.default for name, definition in definitions.items() if definition.default is not None
    }
    config = in_librdkafka_names(config)
    for name, value in config.items():
        definition = definitions.get(name)
        if definition is not None:
            values[name] = _parsed(name, value, definition)
        elif name in LIBRDKAFKA_ONLY:
            values[name] = value
        else:
            raise _unknown(name, definitions, client)
    if not values.get("bootstrap.servers"):
        raise InvalidClientSetting("bootstrap.servers is missing; set it to HOST:PORT,...")
    try:
        parse_bootstrap_servers(values["bootstrap.servers"])
    except ValueError as mistake:
        raise InvalidClientSetting(f"bootstrap.servers: {mistake}") from mistake
    return values, frozenset(config)


def _unknown(name: object, definitions: Mapping[str, Definition], client: str) -> InvalidClientSetting:
    from difflib import get_close_matches

    if not isinstance(name, str):
        return InvalidClientSetting(f"the name of a setting must be a string, not {name!r}")
    if name in UNSUPPORTED:
        return InvalidClientSetting(f"{name} {UNSUPPORTED[name]}")
    if name in PRODUCER or name in CONSUMER:
        return InvalidClientSetting(f"{name} is not a setting of {client}")
    nearest = get_close_matches(name.lower().replace("_", "."), [*definitions, *LIBRDKAFKA_ONLY], n=1)
    hint = f"; did you mean '{nearest[0]}'?" if nearest else ""
    return InvalidClientSetting(f"'{name}' is not a setting of {client}{hint}")


def _parsed(name: str, value: object, definition: Definition) -> Any:
    parsed = _as_kind(name, value, definition.kind)
    if definition.choices:
        # Kafka accepts values such as security.protocol in any letter case.
        by_folded = {choice.lower(): choice for choice in definition.choices}
        if str(parsed).lower() not in by_folded:
            raise InvalidClientSetting(f"{name}={value}: expected one of {', '.join(definition.choices)}")
        parsed = by_folded[str(parsed).lower()]
    if definition.minimum is not None and parsed < definition.minimum:
        raise InvalidClientSetting(f"{name}={value}: must be at least {definition.minimum:g}")
    return parsed


def _as_kind(name: str, value: object, kind: type) -> Any:
    text = str(value).strip()
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise InvalidClientSetting(f"{name}={value!r}: expected true or false")
        return text.lower() == "true"
    if kind is str:
        if isinstance(value, list | tuple):
            return ",".join(str(item) for item in value)
        if value is None or isinstance(value, bool):
            raise InvalidClientSetting(f"{name}={value!r}: expected text")
        return text
    if isinstance(value, bool):
        raise InvalidClientSetting(f"{name}={value!r}: expected a number")
    try:
        return kind(text)
    except ValueError:
        expected = "a whole number" if kind is int else "a number"
        raise InvalidClientSetting(f"{name}={value!r}: expected {expected}") from None


def _check_idempotence(values: dict[str, Any], given: frozenset[str]) -> None:
    """Kafka's rules: a conflicting setting disables idempotence, or is rejected where idempotence is set explicitly."""
    conflicts = []
    if values.get("acks", "all") not in ("all", "-1"):
        conflicts.append(f"acks={values['acks']}")
    if values.get("retries", 1) == 0:
        conflicts.append("retries=0")
    if values["max.in.flight.requests.per.connection"] > 5:
        conflicts.append("max.in.flight.requests.per.connection above 5")
    if "transactional.id" in given:
        if "enable.idempotence" in given and not values["enable.idempotence"]:
            conflicts.append("enable.idempotence=false")
        if conflicts:
            raise InvalidClientSetting(f"transactional.id cannot be used with {conflicts[0]}")
    elif conflicts:
        if "enable.idempotence" in given and values["enable.idempotence"]:
            raise InvalidClientSetting(f"enable.idempotence cannot be used with {conflicts[0]}")
        values["enable.idempotence"] = False


def _assignors(text: str) -> str:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in ASSIGNORS:
            known = ", ".join(name for name in ASSIGNORS if "." not in name)
            raise InvalidClientSetting(f"partition.assignment.strategy={name}: expected {known}")
    known_names = [ASSIGNORS[name] for name in names]
    if "cooperative-sticky" in known_names and len(known_names) > 1:
        raise InvalidClientSetting(
            "partition.assignment.strategy: cooperative-sticky cannot be combined with other assignors"
        )
    return ",".join(known_names)


def _translated(values: Mapping[str, Any], definitions: Mapping[str, Definition]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for name, value in values.items():
        definition = definitions.get(name)
        if definition is None or definition.librdkafka is None:
            settings[name] = value
            continue
        if name.startswith("compression.") and name.split(".")[1] != values.get("compression.type"):
            raise InvalidClientSetting(f"{name} requires compression.type={name.split('.')[1]}")
        for target in definition.librdkafka:
            settings[target] = value
    if "buffer.memory" in values:
        settings["queue.buffering.max.kbytes"] = -(-values["buffer.memory"] // 1024)
        settings["queue.buffering.max.messages"] = 0  # bytes are the only limit
    if values.get("auto.offset.reset") == "none":
        settings["auto.offset.reset"] = "error"
    if values.get("ssl.endpoint.identification.algorithm") == "":
        settings["ssl.endpoint.identification.algorithm"] = "none"
    if "transactional.id" in values:
        # librdkafka requires it, and a record cannot be delivered after its transaction timed out.
        settings["delivery.timeout.ms"] = min(values["delivery.timeout.ms"], values["transaction.timeout.ms"])
    return settings
