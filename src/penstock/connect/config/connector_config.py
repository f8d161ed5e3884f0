"""The properties that every connector has, as Kafka Connect 4.3 defines them.

Owns definitions. What a configuration makes of them is in `validation.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, get_args

from penstock.connect.config.definition import (
    ConfigDef,
    ConfigException,
    ConfigKey,
    ConfigType,
    Importance,
    Validator,
    Width,
)
from penstock.connect.config.parsing import at_least, invalid, non_empty, one_of
from penstock.connect.plugins import BrokenPlugin, Interface, LoadedPlugin, Plugins, WrongInterface
from penstock.core.guarantee import Guarantee

COMMON_GROUP: Final = "Common"
TRANSFORMS_GROUP: Final = "Transforms"
PREDICATES_GROUP: Final = "Predicates"
ERROR_GROUP: Final = "Error Handling"
TOPIC_CREATION_GROUP: Final = "Topic Creation"
EXACTLY_ONCE_GROUP: Final = "Exactly Once Support"
OFFSETS_TOPIC_GROUP: Final = "offsets.topic"
DELIVERY_GROUP: Final = "Delivery"
GUARANTEE: Final = "guarantee"

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_FIRST_CONTROL_CHARACTERS: Final = 0x20
_LAST_CONTROL_CHARACTERS: Final = range(0x7F, 0xA0)


@dataclass(frozen=True, slots=True)
class WorkerDefaults:
    """What a worker's properties decide about its connectors. A header converter has a default in Kafka Connect."""

    key_converter: str | None = None
    value_converter: str | None = None
    header_converter: str = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
    exactly_once_source: bool = False
    override_policy: str = "All"
    override_allowlist: tuple[str, ...] = ()
    topic_creation_enabled: bool = True


# Validators


def connector_name(name: str, value: Any) -> None:
    if value is None:
        return
    if not value.strip():
        raise invalid(name, "", "String may not be empty")
    codes = [str(ord(each)) for each in value if _is_control_character(each)]
    if codes:
        why = f"String may not contain control sequences but had the following ASCII chars: {', '.join(codes)}"
        raise invalid(name, value, why)


def _is_control_character(character: str) -> bool:
    return ord(character) < _FIRST_CONTROL_CHARACTERS or ord(character) in _LAST_CONTROL_CHARACTERS


def unique_list(name: str, value: Any) -> None:
    if not value:
        return
    if any(not each for each in value):
        raise ConfigException(f"Configuration '{name}' values must not be empty.", name)
    if len(set(value)) != len(value):
        raise ConfigException(f"Configuration '{name}' values must not be duplicated.", name)


def unique_aliases(name: str, value: Any) -> None:
    if value and len(set(value)) != len(value):
        raise invalid(name, f"[{', '.join(value)}]", "Duplicate alias provided.")


def regular_expression(name: str, value: Any) -> None:
    if not value:
        return
    from penstock.connect.transforms.java_regex import compile_java

    try:
        compile_java(value)
    except re.error as wrong:
        raise invalid(name, value, f"Invalid regex: {wrong}") from None


def _optional_at_least(lowest: float) -> Validator:
    def check(name: str, value: Any) -> None:
        if value is not None:
            at_least(lowest)(name, value)

    return check


def implements(plugins: Plugins, interface: Interface) -> Validator:
    """Of a value that parsed: the class exists."""

    def check(name: str, value: Any) -> None:
        if value is None:
            return
        try:
            plugins.load(interface, value)
        except WrongInterface as wrong:
            raise ConfigException(str(wrong), name) from None
        except BrokenPlugin as broken:
            raise ConfigException(str(broken), name) from None

    return check


# Definitions


def _key(
    name: str,
    type_: ConfigType,
    default: Any,
    importance: Importance,
    group: str,
    order: int,
    width: Width,
    display_name: str,
    doc: str,
    **more: Any,
) -> ConfigKey:
    return ConfigKey(
        name,
        type_,
        default,
        importance,
        doc,
        group=group,
        order_in_group=order,
        width=width,
        display_name=display_name,
        **more,
    )


def _required(name: str, order: int, width: Width, display_name: str, doc: str, **more: Any) -> ConfigKey:
    return ConfigKey(
        name,
        ConfigType.STRING,
        importance=_HIGH,
        doc=doc,
        group=COMMON_GROUP,
        order_in_group=order,
        width=width,
        display_name=display_name,
        **more,
    )


def common(plugins: Plugins, worker: WorkerDefaults | None, connector: LoadedPlugin | None) -> ConfigDef:
    """Without a worker, converters have no defaults: that is how a plugin's own page shows them."""
    text, list_, boolean, long_ = ConfigType.STRING, ConfigType.LIST, ConfigType.BOOLEAN, ConfigType.LONG
    short, medium, long = Width.SHORT, Width.MEDIUM, Width.LONG
    converters = [] if worker is None else [worker.key_converter, worker.value_converter, worker.header_converter]
    key, value, header = converters or [None, None, None]
    version = None if connector is None else connector.version
    return ConfigDef(
        (
            _required(
                "name", 1, medium, "Connector name", "The connector's name, unique in the Connect cluster.",
                validator=connector_name,
            ),
            _required(
                "connector.class", 2, long, "Connector class",
                "The connector's class, by its full name or an alias: FileStreamSink or FileStreamSinkConnector for"
                " org.apache.kafka.connect.file.FileStreamSinkConnector.",
            ),
            _key(
                "connector.plugin.version", text, version, _MEDIUM, COMMON_GROUP, 3, medium, "Connector version",
                "The version of the connector; this worker has one version of each plugin.",
                recommender=versions(version), validator=has_version(version),
            ),
            _key(
                "tasks.max", ConfigType.INT, "1", _HIGH, COMMON_GROUP, 4, short, "Tasks max",
                "The largest number of tasks that share the connector's work.", validator=at_least(1),
            ),
            _key(
                "tasks.max.enforce", boolean, "true", _LOW, COMMON_GROUP, 5, short, "Enforce tasks max",
                "Deprecated in Kafka Connect. This worker never runs more than tasks.max tasks of a connector.",
            ),
            *_converter(plugins, "key", "Converter", 6, key),
            *_converter(plugins, "value", "Converter", 8, value),
            *_converter(plugins, "header", "HeaderConverter", 10, header),
            _key(
                "transforms", list_, "", _LOW, TRANSFORMS_GROUP, 12, long, "Transforms",
                "Names of the transforms that are applied to each record, in this order.", validator=unique_aliases,
            ),
            _key(
                "predicates", list_, "", _LOW, PREDICATES_GROUP, 13, long, "Predicates",
                "Names of the predicates that transforms refer to.", validator=unique_aliases,
            ),
            _key(
                "config.action.reload", text, "restart", _LOW, COMMON_GROUP, 14, medium, "Reload Action",
                "What happens when a config provider reports a new value: 'restart' or 'none'. The providers of this"
                " worker read their values when a connector starts, and report none.",
                validator=one_of("none", "restart"),
            ),
            _key(
                "errors.retry.timeout", long_, "0", _MEDIUM, ERROR_GROUP, 1, medium, "Retry Timeout for Errors",
                "How long a failed operation is retried, in milliseconds; 0: not at all, -1: without end.",
            ),
            _key(
                "errors.retry.delay.max.ms", long_, "60000", _MEDIUM, ERROR_GROUP, 2, medium,
                "Maximum Delay Between Retries for Errors", "The longest delay between two retries, in milliseconds.",
            ),
            _key(
                "errors.tolerance", text, "none", _MEDIUM, ERROR_GROUP, 3, short, "Error Tolerance",
                "'none': the first record that fails stops the connector. 'all': records that fail are skipped.",
                validator=one_of("none", "all"),
            ),
            _key(
                "errors.log.enable", boolean, "false", _MEDIUM, ERROR_GROUP, 4, short, "Log Errors",
                "Whether failures of records that are tolerated are logged.",
            ),
            _key(
                "errors.log.include.messages", boolean, "false", _MEDIUM, ERROR_GROUP, 5, short, "Log Error Details",
                "Whether the log shows the record that failed; for sinks its topic, partition, offset and timestamp.",
            ),
        )
    )  # fmt: skip


def _converter(
    plugins: Plugins, part: str, interface: Interface, order: int, default: str | None
) -> tuple[ConfigKey, ConfigKey]:
    name = f"{part}.converter"
    title = part.capitalize()
    doc = f"The class that converts {part}s between Kafka's bytes and Connect's data; default: the worker's {name}."
    return (
        _key(
            name, ConfigType.CLASS, default, _LOW, COMMON_GROUP, order, Width.SHORT, f"{title} converter class", doc,
            recommender=lambda _name, _config: plugins.names(interface), validator=implements(plugins, interface),
        ),
        _key(
            f"{name}.plugin.version", ConfigType.STRING, None, _LOW, COMMON_GROUP, order + 1, Width.SHORT,
            f"{title} converter version", f"The version of the {part} converter.",
        ),
    )  # fmt: skip


SOURCE: Final = ConfigDef(
    (
        _key(
            "topic.creation.groups", ConfigType.LIST, "", _LOW, TOPIC_CREATION_GROUP, 1, Width.LONG,
            "Topic Creation Groups", "Names of groups of settings for topics that the connector creates.",
            validator=unique_aliases,
        ),
        _key(
            "exactly.once.support", ConfigType.STRING, "requested", _MEDIUM, EXACTLY_ONCE_GROUP, 2, Width.SHORT,
            "Exactly once support",
            "'required': the connector is refused unless it delivers exactly once. 'requested': no check.",
            validator=one_of("REQUIRED", "REQUESTED", ignore_case=True),
        ),
        _key(
            "transaction.boundary", ConfigType.STRING, "poll", _MEDIUM, EXACTLY_ONCE_GROUP, 3, Width.SHORT,
            "Transaction Boundary",
            "When transactions of an exactly-once source are committed: 'poll', 'interval' or 'connector'.",
            validator=one_of("INTERVAL", "POLL", "CONNECTOR", ignore_case=True),
        ),
        _key(
            "transaction.boundary.interval.ms", ConfigType.LONG, None, _LOW, EXACTLY_ONCE_GROUP, 4, Width.SHORT,
            "Transaction boundary interval",
            "With transaction.boundary=interval: the time between commits; default: the worker's"
            " offset.flush.interval.ms.",
            validator=_optional_at_least(0),
        ),
        _key(
            "offsets.storage.topic", ConfigType.STRING, None, _LOW, OFFSETS_TOPIC_GROUP, 1, Width.LONG, "Offsets topic",
            "A separate topic for this connector's offsets; default: the worker's offset.storage.topic.",
            validator=non_empty,
        ),
    )
)  # fmt: skip

SINK: Final = ConfigDef(
    (
        _key(
            "topics", ConfigType.LIST, "", _HIGH, COMMON_GROUP, 4, Width.LONG, "Topics",
            "The topics to read, separated by commas.", validator=unique_list,
        ),
        _key(
            "topics.regex", ConfigType.STRING, "", _HIGH, COMMON_GROUP, 4, Width.LONG, "Topics regex",
            "A regular expression; the connector reads all topics whose whole name matches. Set this or topics.",
            validator=regular_expression,
        ),
        _key(
            "errors.deadletterqueue.topic.name", ConfigType.STRING, "", _MEDIUM, ERROR_GROUP, 6, Width.MEDIUM,
            "Dead Letter Queue Topic Name", "The topic for records that fail, with errors.tolerance=all; empty: none.",
        ),
        _key(
            "errors.deadletterqueue.topic.replication.factor", ConfigType.SHORT, "3", _MEDIUM, ERROR_GROUP, 7,
            Width.MEDIUM, "Dead Letter Queue Topic Replication Factor",
            "The replication factor of the dead letter topic, if the connector creates it.",
        ),
        _key(
            "errors.deadletterqueue.context.headers.enable", ConfigType.BOOLEAN, "false", _MEDIUM, ERROR_GROUP, 8,
            Width.MEDIUM, "Enable Error Context Headers",
            "Whether dead letters have headers, named __connect.errors.*, that tell why and where the record failed.",
        ),
        _key(
            GUARANTEE, ConfigType.STRING, "at_least_once", _MEDIUM, DELIVERY_GROUP, 1, Width.SHORT,
            "Delivery guarantee", "at_most_once, at_least_once or exactly_once, where the sink can keep it.",
            validator=one_of(*get_args(Guarantee)),
        ),
    )
)  # fmt: skip


def versions(version: str | None) -> Any:
    return lambda _name, _config: [] if version is None else [version]


def has_version(version: str | None) -> Validator:
    def check(name: str, value: Any) -> None:
        if value is not None and version is not None and value != version:
            raise invalid(name, value, f"this worker has version {version} of this plugin only; remove the property")

    return check
