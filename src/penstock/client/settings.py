"""From a dictionary in Kafka's configuration names to what librdkafka takes, checked name by name and value by value.

Owns the errors that a person reads about a setting: one line with the name, the remedy, and for a typo the nearest
known name. It must never know what a client does with a setting.

Invariant: what is accepted has an effect; nothing is ignored silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.client.setting_definitions import (
    ADMIN,
    ASSIGNORS,
    CONSUMER,
    DECIDED_BY_BROKER,
    FOREIGN,
    OWN_WORDS,
    PRODUCER,
    Definition,
)
from penstock.core.addresses import parse_bootstrap_servers
from penstock.core.errors import InvalidClientSetting


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Effective values by Kafka's names, and the same as librdkafka wants them."""

    values: Mapping[str, Any]
    given: frozenset[str]
    """The names that the caller set, as against those that have their default."""
    librdkafka: Mapping[str, Any]


def producer_settings(config: Mapping[str, Any]) -> ClientSettings:
    values, given = _checked(config, PRODUCER, "a producer")
    _check_idempotence(values, given)
    if "transactional.id" in values:
        # librdkafka 2.16 hangs in send_offsets_to_transaction when it bootstraps anew in between: one broker that
        # restarts is enough.
        values.setdefault("metadata.recovery.strategy", "none")
    return ClientSettings(values, given, _translated(values, PRODUCER))


def consumer_settings(config: Mapping[str, Any]) -> ClientSettings:
    values, given = _checked(config, CONSUMER, "a consumer")
    if values["group.protocol"] == "consumer":
        for name in DECIDED_BY_BROKER:
            if name in given:
                raise InvalidClientSetting(f"{name}: with group.protocol=consumer the broker decides it; leave it out")
            del values[name]
    elif "group.remote.assignor" in given:
        raise InvalidClientSetting("group.remote.assignor: only with group.protocol=consumer")
    else:
        values["partition.assignment.strategy"] = _assignors(values["partition.assignment.strategy"])
    return ClientSettings(values, given, _translated(values, CONSUMER))


def admin_settings(config: Mapping[str, Any]) -> ClientSettings:
    values, given = _checked(config, ADMIN, "an admin client")
    return ClientSettings(values, given, _translated(values, ADMIN))


def is_cooperative(settings: ClientSettings) -> bool:
    """Whether rebalances take and give single partitions, rather than all and all."""
    strategy = settings.values.get("partition.assignment.strategy")
    return strategy is None or strategy == "cooperative-sticky"


def _checked(
    config: Mapping[str, Any], definitions: Mapping[str, Definition], client: str
) -> tuple[dict[str, Any], frozenset[str]]:
    if not isinstance(config, Mapping):
        raise InvalidClientSetting(f"{client}'s configuration is a dictionary, not {type(config).__name__}")
    values: dict[str, Any] = {
        name: definition.default for name, definition in definitions.items() if definition.default is not None
    }
    for name, value in config.items():
        definition = definitions.get(name)
        if definition is not None:
            values[name] = _parsed(name, value, definition)
        elif name in OWN_WORDS:
            values[name] = value
        else:
            raise _unknown(name, definitions, client)
    if not values.get("bootstrap.servers"):
        raise InvalidClientSetting("bootstrap.servers is missing; give HOST:PORT,...")
    try:
        parse_bootstrap_servers(values["bootstrap.servers"])
    except ValueError as mistake:
        raise InvalidClientSetting(f"bootstrap.servers: {mistake}") from mistake
    return values, frozenset(config)


def _unknown(name: object, definitions: Mapping[str, Definition], client: str) -> InvalidClientSetting:
    from difflib import get_close_matches

    if not isinstance(name, str):
        return InvalidClientSetting(f"the name of a setting is text, not {name!r}")
    if name in FOREIGN:
        return InvalidClientSetting(f"{name} {FOREIGN[name]}")
    if name in PRODUCER or name in CONSUMER:
        return InvalidClientSetting(f"{name} is no setting of {client}")
    nearest = get_close_matches(name.lower().replace("_", "."), [*definitions, *OWN_WORDS], n=1)
    hint = f"; did you mean '{nearest[0]}'?" if nearest else ""
    return InvalidClientSetting(f"'{name}' is no setting of {client}{hint}")


def _parsed(name: str, value: object, definition: Definition) -> Any:
    parsed = _as_kind(name, value, definition.kind)
    if definition.choices:
        # Kafka takes security.protocol and the like in any case.
        by_folded = {choice.lower(): choice for choice in definition.choices}
        if str(parsed).lower() not in by_folded:
            raise InvalidClientSetting(f"{name}={value}: expected one of {', '.join(definition.choices)}")
        parsed = by_folded[str(parsed).lower()]
    if definition.minimum is not None and parsed < definition.minimum:
        raise InvalidClientSetting(f"{name}={value}: at least {definition.minimum:g}")
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
    """Kafka's rules: what contradicts idempotence turns its default off, and is refused where both were asked for."""
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
            raise InvalidClientSetting(f"transactional.id: not with {conflicts[0]}")
    elif conflicts:
        if "enable.idempotence" in given and values["enable.idempotence"]:
            raise InvalidClientSetting(f"enable.idempotence: not with {conflicts[0]}")
        values["enable.idempotence"] = False


def _assignors(text: str) -> str:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in ASSIGNORS:
            known = ", ".join(name for name in ASSIGNORS if "." not in name)
            raise InvalidClientSetting(f"partition.assignment.strategy={name}: expected {known}")
    known_names = [ASSIGNORS[name] for name in names]
    if "cooperative-sticky" in known_names and len(known_names) > 1:
        raise InvalidClientSetting("partition.assignment.strategy: cooperative-sticky stands alone")
    return ",".join(known_names)


def _translated(values: Mapping[str, Any], definitions: Mapping[str, Definition]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for name, value in values.items():
        definition = definitions.get(name)
        if definition is None or definition.librdkafka is None:
            settings[name] = value
            continue
        if name.startswith("compression.") and name.split(".")[1] != values.get("compression.type"):
            raise InvalidClientSetting(f"{name}: only with compression.type={name.split('.')[1]}")
        for target in definition.librdkafka:
            settings[target] = value
    if "buffer.memory" in values:
        settings["queue.buffering.max.kbytes"] = -(-values["buffer.memory"] // 1024)
        settings["queue.buffering.max.messages"] = 0  # no second bound besides the bytes
    if values.get("auto.offset.reset") == "none":
        settings["auto.offset.reset"] = "error"
    if values.get("ssl.endpoint.identification.algorithm") == "":
        settings["ssl.endpoint.identification.algorithm"] = "none"
    if "transactional.id" in values:
        # librdkafka insists; and no record can be delivered once its transaction has timed out.
        settings["delivery.timeout.ms"] = min(values["delivery.timeout.ms"], values["transaction.timeout.ms"])
    return settings
