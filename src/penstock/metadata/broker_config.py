"""A broker's configuration: typed, checked values from its properties file, `--set` options and environment.

Owns the precedence of those three (a later one overrides) and their error messages: one line with the place, the key
and the remedy. Reads no file and no environment itself; the composition root passes their content in.

Secrets are refused on the command line, and no error message contains one.

Invariant: a field's name is its configuration's name with dots as underscores. More than one name decides `listeners`,
`advertised_listeners`, `listener_security`, `inter_broker_listener_name`, `log_dirs`, `node_id` and `metadata_store`
only; `super_users` alone is parsed further than its type.
Invariant: `advertised_listeners` has an entry for each of `listeners`, in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Final, NamedTuple

from penstock.core.properties import PropertiesError, parse_properties
from penstock.metadata.broker_config_definitions import BROKER_CONFIGS, WITHOUT_EFFECT
from penstock.metadata.config_definition import ConfigError, ConfigValue, definition_of, nearest_name
from penstock.metadata.config_source import BrokerLayers
from penstock.metadata.listener_security import (
    PREFIX,
    ListenerSecurity,
    definition_of_listener_setting,
    listener_security,
    split_listener_name,
)
from penstock.metadata.listeners import (
    Listener,
    advertised_by_name,
    check_ports,
    inter_broker_listener,
    parse_listeners,
    parse_protocol_map,
)
from penstock.metadata.metadata_store_settings import MetadataStoreSettings, metadata_store_settings
from penstock.metadata.unsupported_broker_configs import NAMES_WITHOUT_EFFECT, refusal

ENVIRONMENT_PREFIX: Final = "PENSTOCK_"
# Variables that the program itself reads, although their names resemble a broker's settings.
_PROGRAM_VARIABLES: Final = frozenset({"PENSTOCK_COMMAND_CONFIG", "PENSTOCK_LOG_LEVEL"})


class _Setting(NamedTuple):
    name: str
    text: str
    place: str


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """Effective values. `layers` keeps what was set as text, for topics to inherit and DescribeConfigs to show."""

    layers: BrokerLayers
    without_effect: tuple[str, ...]

    node_id: int
    broker_rack: str | None
    listeners: tuple[Listener, ...]
    advertised_listeners: tuple[Listener, ...]
    inter_broker_listener_name: str
    listener_security: Mapping[str, ListenerSecurity]
    sasl_mechanism_inter_broker_protocol: str | None
    ssl_endpoint_identification_algorithm: str
    log_dirs: tuple[str, ...]
    metadata_store: MetadataStoreSettings | None
    auto_leader_rebalance_enable: bool
    leader_imbalance_check_interval_seconds: int
    authorizer_class_name: str
    super_users: tuple[str, ...]
    allow_everyone_if_no_acl_found: bool

    connection_failed_authentication_delay_ms: int
    connections_max_idle_ms: int
    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: str
    max_request_partition_size_limit: int
    queued_max_request_bytes: int
    queued_max_requests: int
    controller_quota_window_num: int
    controller_quota_window_size_seconds: int
    quota_window_num: int
    quota_window_size_seconds: int
    request_timeout_ms: int
    socket_listen_backlog_size: int
    socket_receive_buffer_bytes: int
    socket_request_max_bytes: int
    socket_send_buffer_bytes: int
    sasl_server_max_receive_size: int

    auto_create_topics_enable: bool
    default_replication_factor: int
    delete_topic_enable: bool
    num_partitions: int

    fetch_max_bytes: int
    max_incremental_fetch_session_cache_slots: int
    message_max_bytes: int
    num_replica_fetchers: int
    replica_fetch_backoff_ms: int
    replica_fetch_max_bytes: int
    replica_fetch_min_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_wait_max_ms: int
    replica_high_watermark_checkpoint_interval_ms: int
    replica_lag_time_max_ms: int
    replica_selector_class: str | None
    replica_socket_receive_buffer_bytes: int
    replica_socket_timeout_ms: int

    log_cleaner_backoff_ms: int
    log_cleaner_enable: bool
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_scheduler_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    log_initial_task_delay_ms: int
    log_retention_check_interval_ms: int

    producer_id_expiration_ms: int
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_max_timeout_ms: int
    transaction_partition_verification_enable: bool
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_state_log_min_isr: int
    transaction_state_log_num_partitions: int
    transaction_state_log_replication_factor: int
    transaction_state_log_segment_bytes: int
    transactional_id_expiration_ms: int

    group_consumer_assignment_interval_ms: int
    group_consumer_assignors: tuple[str, ...]
    group_consumer_heartbeat_interval_ms: int
    group_consumer_max_assignment_interval_ms: int
    group_consumer_max_heartbeat_interval_ms: int
    group_consumer_max_session_timeout_ms: int
    group_consumer_max_size: int
    group_consumer_migration_policy: str
    group_consumer_min_assignment_interval_ms: int
    group_consumer_min_heartbeat_interval_ms: int
    group_consumer_min_session_timeout_ms: int
    group_consumer_session_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_min_session_timeout_ms: int
    offset_metadata_max_bytes: int
    offsets_commit_timeout_ms: int
    offsets_retention_check_interval_ms: int
    offsets_retention_minutes: int
    offsets_topic_compression_codec: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int

    @classmethod
    def load(
        cls,
        *,
        properties_text: str = "",
        properties_name: str = "server.properties",
        overrides: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> BrokerConfig:
        """Reads the file's text, then `--set` options ("name=value"), then PENSTOCK_* variables; a later one wins."""
        static: dict[str, str] = {}
        without_effect: list[str] = []
        for setting in (
            *_from_properties(properties_text, properties_name),
            *_from_overrides(overrides),
            *_from_environment(environment or {}),
        ):
            try:
                if _check_static(setting.name, setting.text):
                    static[setting.name] = setting.text
                elif setting.name not in without_effect:
                    without_effect.append(setting.name)
            except ConfigError as error:
                raise ConfigError(f"{setting.place}: {error}") from None
        return cls._resolve(BrokerLayers(static=static), tuple(without_effect))

    def with_dynamic(self, *, cluster_wide: Mapping[str, str], per_broker: Mapping[str, str]) -> BrokerConfig:
        """The same static settings under other dynamic ones."""
        layers = replace(self.layers, cluster_wide=dict(cluster_wide), per_broker=dict(per_broker))
        return self._resolve(layers, self.without_effect)

    @classmethod
    def _resolve(cls, layers: BrokerLayers, without_effect: tuple[str, ...]) -> BrokerConfig:
        _check_together(layers)
        values: dict[str, Any] = {field: _effective(name, layers) for field, name in _NAMES.items()}
        values["node_id"] = _node_id(layers)
        values["log_dirs"] = _effective("log.dirs", layers) or _effective("log.dir", layers)
        values["super_users"] = _super_users(str(_effective("super.users", layers)))
        values.update(_listeners(layers))
        has_node_id = any(layers.get(name) is not None for name in ("node.id", "broker.id"))
        values["metadata_store"] = metadata_store_settings(
            lambda name: _effective(name, layers), has_node_id=has_node_id
        )
        return cls(layers=layers, without_effect=without_effect, **values)


_SPECIAL_FIELDS: Final = {
    "layers",
    "without_effect",
    "node_id",
    "listeners",
    "advertised_listeners",
    "inter_broker_listener_name",
    "listener_security",
    "log_dirs",
    "metadata_store",
    "super_users",
}
_NAMES: Final = {
    field.name: field.name.replace("_", ".") for field in fields(BrokerConfig) if field.name not in _SPECIAL_FIELDS
}


def _from_properties(text: str, file_name: str) -> Iterator[_Setting]:
    try:
        entries = parse_properties(text)
    except PropertiesError as error:
        raise ConfigError(f"{file_name}:{error.line_number}: {error.reason}") from None
    for entry in entries:
        yield _Setting(entry.key, entry.value, f"{file_name}:{entry.line_number}")


def _from_overrides(overrides: Iterable[str]) -> Iterator[_Setting]:
    for override in overrides:
        name, equals, text = override.partition("=")
        if not equals:
            raise ConfigError(f"--set {override}: a value is missing; write --set name=value")
        name = name.strip()
        if is_secret(name):
            # Every user of the machine can read a process's command line.
            raise ConfigError(
                f"--set {name}: a secret on the command line can be read by every user of this machine; "
                "write it to the file of --config, or set the environment variable"
            )
        yield _Setting(name, text, f"--set {override}")


def _from_environment(environment: Mapping[str, str]) -> Iterator[_Setting]:
    for variable in sorted(environment):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in _PROGRAM_VARIABLES:
            continue
        name = variable[len(ENVIRONMENT_PREFIX) :].lower().replace("_", ".")
        known = (
            name in BROKER_CONFIGS
            or name.startswith(PREFIX)
            or name in NAMES_WITHOUT_EFFECT
            or refusal(name) is not None
        )
        # The prefix is shared with Penstock's other tools: a variable that resembles no broker setting is theirs,
        # one that does is a mistake in writing, and saying nothing would leave the user with a default.
        if known or nearest_name(name, BROKER_CONFIGS) is not None:
            yield _Setting(name, environment[variable], variable)


def is_secret(name: str) -> bool:
    """Whether a setting's value must not be seen by others, also behind a listener's prefix."""
    definition = BROKER_CONFIGS.get(name)
    return (
        name.endswith("sasl.jaas.config")
        or (definition is not None and definition.sensitive)
        or (name.startswith(PREFIX) and name.endswith(("password", ".key")))
    )


def _check_static(name: str, text: str) -> bool:
    """Whether the setting counts. False for Kafka's names without effect here; ConfigError for what must not pass."""
    if name in NAMES_WITHOUT_EFFECT:
        return False
    if name == WITHOUT_EFFECT:
        raise ConfigError(f"{name} describes this version of the broker, and cannot be set; remove it")
    if name.startswith(PREFIX):
        definition_of_listener_setting(name, BROKER_CONFIGS).parse(text)
        return True
    reason = refusal(name)
    if reason is not None:
        raise ConfigError(f"{name} is not supported: {reason}; remove it")
    definition_of("broker", name, BROKER_CONFIGS).parse(text)
    return True


def _effective(name: str, layers: BrokerLayers) -> ConfigValue:
    definition = BROKER_CONFIGS[name]
    text = layers.get(name)
    return definition.default_value() if text is None else definition.parse(text)


def _node_id(layers: BrokerLayers) -> ConfigValue:
    """`node.id`, or its older name; both may be set only if they agree."""
    node_id, broker_id = layers.get("node.id"), layers.get("broker.id")
    if broker_id is None:
        return _effective("node.id", layers)
    if node_id is not None and node_id.strip() != broker_id.strip():
        raise ConfigError(f"node.id ({node_id}) and broker.id ({broker_id}) differ; remove broker.id")
    return BROKER_CONFIGS["node.id"].parse(broker_id)


def _listeners(layers: BrokerLayers) -> dict[str, object]:
    protocols = parse_protocol_map(str(_effective("listener.security.protocol.map", layers)))
    controller_names = _names(_effective("controller.listener.names", layers))
    listeners = parse_listeners("listeners", _names(_effective("listeners", layers)), protocols, controller_names)
    if not listeners:
        raise ConfigError("listeners: no address for clients; write PLAINTEXT://host:port")
    check_ports(listeners)
    advertised_texts = _names(_effective("advertised.listeners", layers))
    advertised = parse_listeners("advertised.listeners", advertised_texts, protocols, controller_names)
    inter_broker_name = _effective("inter.broker.listener.name", layers)
    _check_listener_prefixes(layers, {listener.name for listener in listeners})
    return {
        "listener_security": {
            listener.name: listener_security(
                listener.name,
                listener.protocol,
                partial(_effective_for, listener.name, layers),
                layers.static,
            )
            for listener in listeners
        },
        "listeners": listeners,
        "advertised_listeners": advertised_by_name(listeners, advertised),
        "inter_broker_listener_name": inter_broker_listener(
            listeners, None if inter_broker_name is None else str(inter_broker_name)
        ),
    }


def _effective_for(listener_name: str, layers: BrokerLayers, name: str) -> ConfigValue:
    """The listener's own value, or the one for all listeners. A value for one mechanism, whose name then stands before
    the setting's, comes before both."""
    prefix = f"{PREFIX}{listener_name.lower()}."
    plain_name = name if name in BROKER_CONFIGS else name.partition(".")[2]
    own = layers.static.get(prefix + name, layers.static.get(prefix + plain_name))
    return _effective(plain_name, layers) if own is None else BROKER_CONFIGS[plain_name].parse(own)


def _check_listener_prefixes(layers: BrokerLayers, listener_names: set[str]) -> None:
    """A prefix that belongs to no listener would leave a listener with less security than was written down."""
    for name in layers.static:
        parts = split_listener_name(name)
        if parts is not None and parts[0].upper() not in listener_names:
            raise ConfigError(
                f"{name}: {parts[0]} is not one of the names in listeners ({', '.join(sorted(listener_names))}), "
                "in lower case"
            )


def _super_users(text: str) -> tuple[str, ...]:
    users = tuple(filter(None, (part.strip() for part in text.split(";"))))
    for user in users:
        kind, colon, name = user.partition(":")
        if not (kind and colon and name):
            raise ConfigError(f"super.users: {user!r} is not a principal; write User:name, separated by semicolons")
    return users


def _names(value: ConfigValue) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


def connection_overrides(text: str) -> dict[str, int]:
    """`max.connections.per.ip.overrides` by address. Raises ConfigError."""
    overrides: dict[str, int] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        address, colon, count = entry.rpartition(":")
        if not colon or not address or not count.strip().isdecimal() or not count.isascii():
            raise ConfigError(f"max.connections.per.ip.overrides: {entry!r} is not accepted; write address:count")
        overrides[address.strip().strip("[]")] = int(count)
    return overrides


def _check_together(layers: BrokerLayers) -> None:
    """Rules that the table's ranges cannot say."""
    for name in ("log.retention.ms", "log.retention.minutes", "log.retention.hours"):
        if _effective(name, layers) == 0:
            raise ConfigError(f"{name}: 0 is not accepted; expected -1 (no limit) or a value of at least 1")
    roll_ms = _effective("log.roll.ms", layers)
    if isinstance(roll_ms, int) and roll_ms < 1:
        raise ConfigError(f"log.roll.ms: {roll_ms} is not accepted; expected a value of at least 1")
    connection_overrides(str(_effective("max.connections.per.ip.overrides", layers)))
    queued, largest = _effective("queued.max.request.bytes", layers), _effective("socket.request.max.bytes", layers)
    if isinstance(queued, int) and isinstance(largest, int) and 0 < queued < largest:
        raise ConfigError(
            f"queued.max.request.bytes ({queued}) must be at least socket.request.max.bytes ({largest}), or -1"
        )
    minimum_lag = _effective("log.cleaner.min.compaction.lag.ms", layers)
    maximum_lag = _effective("log.cleaner.max.compaction.lag.ms", layers)
    if isinstance(minimum_lag, int) and isinstance(maximum_lag, int) and minimum_lag > maximum_lag:
        raise ConfigError(
            f"log.cleaner.min.compaction.lag.ms ({minimum_lag}) exceeds log.cleaner.max.compaction.lag.ms "
            f"({maximum_lag}); lower the one or raise the other"
        )
