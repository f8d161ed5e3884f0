"""Settings of clients for a connector: the worker's, the worker's for this kind of client, and the connector's own.

As in Kafka Connect, the worker's properties are those of its clients; `consumer.`, `producer.` and `admin.` in front of
a name are for one kind, and `consumer.override.`, `producer.override.` and `admin.override.` in a connector's
configuration (KIP-458) win over both.

Owns which of Kafka's names have an effect here. There is no consumer and no producer behind a connector but the wire
client, without a group's membership and without a buffer that fills in the background: settings of those have no
effect, and `without_effect` names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from penstock.connect.config.definition import ConfigDef, ConfigException, ConfigKey, ConfigType, Importance
from penstock.connect.config.parsing import at_least, one_of, parse
from penstock.core.isolation import IsolationLevel
from penstock.wire.client import WIRE_SETTING_NAMES, FetchOptions

ClientKind = Literal["consumer", "producer", "admin"]
Reset = Literal["earliest", "latest", "none"]

DEFAULT_OFFSETS_TOPIC: Final = "connect-offsets"
DEFAULT_WORKER_GROUP: Final = "connect-cluster"


def _number(name: str, default: int, lowest: int) -> ConfigKey:
    return ConfigKey(name, ConfigType.INT, default, Importance.MEDIUM, validator=at_least(lowest))


_CONSUMER: Final = ConfigDef(
    (
        ConfigKey("group.id", ConfigType.STRING, None),
        ConfigKey(
            "auto.offset.reset",
            ConfigType.STRING,
            "earliest",
            validator=one_of("earliest", "latest", "none", ignore_case=True),
        ),
        ConfigKey(
            "isolation.level",
            ConfigType.STRING,
            "read_uncommitted",
            validator=one_of("read_uncommitted", "read_committed"),
        ),
        _number("max.partition.fetch.bytes", 4 * 1024 * 1024, 1),
        _number("fetch.min.bytes", 1, 0),
        _number("fetch.max.wait.ms", 500, 0),
        _number("metadata.max.age.ms", 5_000, 0),
    )
)
_PRODUCER: Final = ConfigDef(
    (
        ConfigKey(
            "compression.type",
            ConfigType.STRING,
            "none",
            validator=one_of("none", "gzip", "snappy", "lz4", "zstd"),
        ),
        _number("batch.size", 1_000_000, 1024),
        _number("transaction.timeout.ms", 60_000, 1),
        _number("delivery.timeout.ms", 120_000, 1),
        ConfigKey("acks", ConfigType.STRING, "all", validator=one_of("all", "-1", "0", "1")),
    )
)
_DEFINITIONS: Final[Mapping[str, ConfigDef]] = {"consumer": _CONSUMER, "producer": _PRODUCER, "admin": ConfigDef()}


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    wire: Mapping[str, str] = field(repr=False)
    group: str
    reset: Reset
    isolation_level: IsolationLevel
    fetch: FetchOptions
    metadata_max_age_ms: int
    poll_timeout_s: float = 120.0


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    wire: Mapping[str, str] = field(repr=False)
    compression: str = "none"
    batch_bytes: int = 1_000_000
    transaction_timeout_ms: int = 60_000
    delivery_timeout_s: float = 120.0
    acks: int = -1


class WorkerProperties:
    """The worker's own properties, by Kafka's names: `bootstrap.servers`, `group.id`, `offset.storage.topic` and so on.

    The repr contains no value: some are secrets.
    """

    def __init__(self, config: Mapping[str, str]) -> None:
        self.config = dict(config)

    def __repr__(self) -> str:
        return f"WorkerProperties({sorted(self.config)})"

    @property
    def group_id(self) -> str:
        return self.config.get("group.id") or DEFAULT_WORKER_GROUP

    @property
    def offsets_topic(self) -> str:
        return self.config.get("offset.storage.topic") or DEFAULT_OFFSETS_TOPIC

    @property
    def exactly_once_sources(self) -> bool:
        """`preparing` is a worker that can, in a cluster whose other workers cannot yet (KIP-618)."""
        return self.config.get("exactly.once.source.support", "disabled").strip().lower() == "enabled"

    @property
    def creates_topics(self) -> bool:
        """Whether connectors may ask for new topics with `topic.creation.*` (KIP-158)."""
        return self.config.get("topic.creation.enable", "true").strip().lower() == "true"

    def wire(self, kind: ClientKind, connector: Mapping[str, str]) -> dict[str, str]:
        """Settings of connections, for the wire client and for librdkafka's."""
        merged = self._merged(kind, connector)
        return {name: value for name, value in merged.items() if name in WIRE_SETTING_NAMES}

    def consumer(self, name: str, connector: Mapping[str, str]) -> ConsumerSettings:
        """Raises ConfigException."""
        values = self._values("consumer", connector)
        level: IsolationLevel = values["isolation.level"]
        return ConsumerSettings(
            wire=self.wire("consumer", connector),
            group=values["group.id"] or f"connect-{name}",
            reset=values["auto.offset.reset"].lower(),
            isolation_level=level,
            fetch=FetchOptions(
                values["max.partition.fetch.bytes"], values["fetch.min.bytes"], values["fetch.max.wait.ms"], level
            ),
            metadata_max_age_ms=values["metadata.max.age.ms"],
        )

    def producer(self, connector: Mapping[str, str]) -> ProducerSettings:
        """Raises ConfigException."""
        values = self._values("producer", connector)
        return ProducerSettings(
            wire=self.wire("producer", connector),
            compression=values["compression.type"],
            batch_bytes=values["batch.size"],
            transaction_timeout_ms=values["transaction.timeout.ms"],
            delivery_timeout_s=values["delivery.timeout.ms"] / 1000,
            acks=-1 if values["acks"] == "all" else int(values["acks"]),
        )

    def _values(self, kind: ClientKind, connector: Mapping[str, str]) -> dict[str, Any]:
        given = {**_with_prefix(self.config, f"{kind}."), **_with_prefix(connector, f"{kind}.override.")}
        try:
            return parse(_DEFINITIONS[kind], given)
        except ConfigException as mistake:
            raise ConfigException(f"{kind}.override: {mistake}", f"{kind}.override.{mistake.name}") from mistake

    def _merged(self, kind: ClientKind, connector: Mapping[str, str]) -> dict[str, str]:
        return {
            **self.config,
            **_with_prefix(self.config, f"{kind}."),
            **_with_prefix(connector, f"{kind}.override."),
        }


def without_effect(connector: Mapping[str, str]) -> list[str]:
    """Properties of a connector that override settings of a client, and change nothing here."""
    names = []
    for kind, definition in _DEFINITIONS.items():
        prefix = f"{kind}.override."
        for name in sorted(_with_prefix(connector, prefix)):
            if name not in WIRE_SETTING_NAMES and definition.key(name) is None:
                names.append(prefix + name)
    return names


def _with_prefix(config: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name[len(prefix) :]: value for name, value in config.items() if name.startswith(prefix)}
