"""What all mirror connectors read from their configuration: both clusters' clients, names, filters.

Settings of clients stand in MirrorMaker 2's order, later ones win: `source.cluster.` for all clients of the source
cluster; `consumer.`, `producer.` and `admin.` for one kind on both clusters; `source.consumer.` and so on for one kind
on one cluster. `target.cluster.` becomes `producer.override.`, `consumer.override.` and `admin.override.`: records,
offsets and the mirror's own topics go to that cluster, which need not be the worker's.

Owns those rules. It opens no connection but for `check`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.connect.config.definition import ConfigDef, ConfigException
from penstock.connect.config.parsing import parse
from penstock.connect.connectors.mirror.replication_policy import POLICIES, DefaultReplicationPolicy
from penstock.connect.runtime.client_settings import ConsumerSettings, WorkerProperties
from penstock.connect.transforms.java_regex import compile_java
from penstock.core.errors import ClientError, InvalidClientSetting
from penstock.protocol.error_codes import BrokerError
from penstock.wire.client import WIRE_SETTING_NAMES, WireClient

SOURCE_SERVERS: Final = "source.cluster.bootstrap.servers"
TARGET_SERVERS: Final = "target.cluster.bootstrap.servers"
_KINDS: Final = ("consumer", "producer", "admin")
PREFIXES: Final = (
    "source.cluster.",
    "target.cluster.",
    *(f"{cluster}{kind}." for cluster in ("", "source.", "target.") for kind in _KINDS),
)
_BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
_REACHABLE_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Filter:
    """Names that match one of `include` as a whole, and none of `exclude`."""

    include: Sequence[str]
    exclude: Sequence[str]
    _patterns: tuple[re.Pattern[str], re.Pattern[str] | None] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        exclude = compile_java("|".join(self.exclude)) if self.exclude else None
        object.__setattr__(self, "_patterns", (compile_java("|".join(self.include) or "(?!)"), exclude))

    def accepts(self, name: str) -> bool:
        include, exclude = self._patterns
        return include.fullmatch(name) is not None and (exclude is None or exclude.fullmatch(name) is None)


@dataclass(frozen=True, slots=True)
class MirrorSettings:
    values: Mapping[str, Any]
    source_alias: str
    target_alias: str
    policy: DefaultReplicationPolicy
    source: WorkerProperties = field(repr=False)
    """The source cluster's clients."""

    @classmethod
    def parse(cls, definition: ConfigDef, config: Mapping[str, str]) -> MirrorSettings:
        """Raises ConfigException."""
        values = parse(definition, config)
        alias: str = values["source.cluster.alias"]
        policy = POLICIES[values["replication.policy.class"]](
            alias,
            values["replication.policy.separator"],
            values["replication.policy.internal.topic.separator.enabled"],
        )
        return cls(values, alias, values["target.cluster.alias"], policy, WorkerProperties(_clients(config, "source")))

    def remote_topic(self, topic: str) -> str:
        return self.policy.remote_topic(self.source_alias, topic)

    def consumer(self, name: str) -> ConsumerSettings:
        return self.source.consumer(name, {})

    @property
    def topics(self) -> Filter:
        return Filter(self.values["topics"], self.values["topics.exclude"])

    def replicates(self, topics: Filter, topic: str) -> bool:
        """Whether the mirror copies this topic of the source cluster."""
        policy = self.policy
        is_wanted = topics.accepts(topic) or (
            self.values.get("heartbeats.replication.enabled", True) and policy.is_heartbeats_topic(topic)
        )
        return is_wanted and not policy.is_internal_topic(topic) and not policy.is_cycle(topic, self.target_alias)

    @property
    def offset_syncs_are_on_source(self) -> bool:
        return bool(self.values["offset-syncs.topic.location"] == "source")

    @property
    def offset_syncs_topic(self) -> str:
        """Named after the other cluster than that on which it is."""
        return self.policy.offset_syncs_topic(
            self.target_alias if self.offset_syncs_are_on_source else self.source_alias
        )


def completed(config: Mapping[str, str]) -> Mapping[str, str]:
    """With byte converters, and with the settings of the target cluster as overrides of the worker's."""
    target = {
        f"{kind}.override.{name}": value
        for kind in _KINDS
        for name, value in {
            **_with_prefix(config, "target.cluster."),
            **_with_prefix(config, f"target.{kind}."),
        }.items()
        if name != "alias"
    }
    return {"key.converter": _BYTES, "value.converter": _BYTES, "header.converter": _BYTES, **target, **config}


def check(definition: ConfigDef, config: Mapping[str, str], *, needs_source: bool = True) -> Iterator[ConfigException]:
    """Aliases and clients. The definition has been checked."""
    settings = MirrorSettings.parse(definition, config)
    if settings.source_alias == settings.target_alias:
        yield ConfigException(
            f"Invalid value {settings.target_alias} for configuration target.cluster.alias: it is equal to"
            " source.cluster.alias; give each cluster an alias of its own",
            "target.cluster.alias",
        )
    if needs_source and not config.get(SOURCE_SERVERS, "").strip():
        yield ConfigException(
            f'Missing required configuration "{SOURCE_SERVERS}" which has no default value.', SOURCE_SERVERS
        )
        return
    if needs_source:
        yield from _check_cluster(settings.source, SOURCE_SERVERS, "source.cluster.")
        try:
            settings.consumer("")
        except ConfigException as mistake:
            name = f"source.consumer.{(mistake.name or '').removeprefix('consumer.override.')}"
            yield ConfigException(str(mistake).replace("consumer.override: ", ""), name)
    if config.get(TARGET_SERVERS, "").strip():
        yield from _check_cluster(WorkerProperties(_clients(config, "target")), TARGET_SERVERS, "target.cluster.")


def _check_cluster(settings: WorkerProperties, servers: str, prefix: str) -> Iterator[ConfigException]:
    try:
        with WireClient(settings.wire("admin", {})) as client:
            client.metadata([], timeout_s=_REACHABLE_TIMEOUT_S)
    except InvalidClientSetting as mistake:
        # Its text begins with the setting's name.
        name = re.split(r"[:= ]", str(mistake), maxsplit=1)[0]
        yield ConfigException(f"{prefix}{mistake}", prefix + name if name in WIRE_SETTING_NAMES else servers)
    except (ClientError, BrokerError) as error:
        yield ConfigException(
            f"Invalid value {settings.config['bootstrap.servers']} for configuration {servers}: the cluster does not"
            f" answer: {error}",
            servers,
        )


def _clients(config: Mapping[str, str], cluster: str) -> dict[str, str]:
    """In the form of a worker's properties."""
    found = _with_prefix(config, f"{cluster}.cluster.")
    found.pop("alias", None)
    for kind in _KINDS:
        own = {**_with_prefix(config, f"{kind}."), **_with_prefix(config, f"{cluster}.{kind}.")}
        found |= {f"{kind}.{name}": value for name, value in own.items() if not name.startswith("override.")}
    return found


def _with_prefix(config: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name[len(prefix) :]: value for name, value in config.items() if name.startswith(prefix)}
