"""Properties of the JDBC sink, under Confluent's and Aiven's names, and what they mean together.

Owns the definition and `SinkSettings`, the parsed form that the rest of the sink reads. Debezium's names are in
`debezium.py`, which makes the same settings of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from penstock.connect.config.definition import ConfigDef, ConfigException, ConfigKey, ConfigType, Importance, Width
from penstock.connect.config.parsing import at_least, invalid, non_empty, one_of, parse
from penstock.connect.connectors.jdbc.addresses import Address, address
from penstock.connect.connectors.jdbc.table_names import Identifiers, TableName
from penstock.connect.errors.tolerance import tolerates_failures
from penstock.core.guarantee import Guarantee

KAFKA_KEY_NAMES: Final = ("__connect_topic", "__connect_partition", "__connect_offset")
GUARANTEE: Final = "guarantee"
_TABLE_TYPES: Final = ("TABLE", "PARTITIONED TABLE", "VIEW")


class InsertMode(Enum):
    INSERT = "insert"
    UPSERT = "upsert"
    UPDATE = "update"


class KeyMode(Enum):
    NONE = "none"
    KAFKA = "kafka"
    RECORD_KEY = "record_key"
    RECORD_VALUE = "record_value"


@dataclass(frozen=True, slots=True)
class SinkSettings:
    address: Address
    insert_mode: InsertMode = InsertMode.INSERT
    key_mode: KeyMode = KeyMode.NONE
    key_fields: tuple[str, ...] = ()
    value_fields: frozenset[str] = frozenset()  # all, if empty
    table_format: str = "${topic}"
    topic_dots: str = "."
    """What stands in a table's name for the dots of a topic's."""
    deletes: bool = False
    creates: bool = False
    evolves: bool = False
    timezone: str = "UTC"
    always_quoted: bool = True
    table_types: frozenset[str] = frozenset({"TABLE"})
    retries_max: int = 10
    backoff_ms: int = 3000
    guarantee: Guarantee = "at_least_once"
    is_debezium: bool = False
    """Records may be Debezium's envelopes, and have its types."""
    tolerates_refusals: bool = False
    """Rows that the database refuses are left out; otherwise one of them stops the connector."""

    @property
    def identifiers(self) -> Identifiers:
        return Identifiers(self.address.dialect.base, self.always_quoted)

    def table(self, topic: str) -> TableName:
        named = self.table_format.replace("${topic}", topic.replace(".", self.topic_dots))
        return self.identifiers.parsed(named)


def time_zone(name: str, value: Any) -> None:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, TypeError):
        raise invalid(name, value, "Invalid time zone identifier") from None


def _table_types(name: str, value: Any) -> None:
    for each in value:
        if each not in _TABLE_TYPES:
            raise invalid(name, each, f"String must be one of: {', '.join(_TABLE_TYPES)}")


CONNECTION: Final = (
    ConfigKey(
        "connection.url",
        ConfigType.STRING,
        importance=Importance.HIGH,
        doc="The JDBC URL of a PostgreSQL, MariaDB, MySQL or SQLite database, for example"
        " jdbc:postgresql://localhost:5432/orders, jdbc:mariadb://localhost/orders, jdbc:sqlite:/data/orders.db.",
        validator=non_empty,
        group="Connection",
        order_in_group=1,
        width=Width.LONG,
        display_name="JDBC URL",
    ),
    ConfigKey(
        "connection.user",
        ConfigType.STRING,
        None,
        Importance.HIGH,
        "The user that the database knows.",
        group="Connection",
        order_in_group=2,
        width=Width.MEDIUM,
        display_name="JDBC User",
    ),
    ConfigKey(
        "connection.password",
        ConfigType.PASSWORD,
        None,
        Importance.HIGH,
        "The password of that user.",
        group="Connection",
        order_in_group=3,
        width=Width.MEDIUM,
        display_name="JDBC Password",
    ),
    ConfigKey(
        "dialect.name",
        ConfigType.STRING,
        "",
        Importance.LOW,
        "The SQL dialect to write, if not the one that the URL names.",
        group="Connection",
        order_in_group=4,
        width=Width.LONG,
        display_name="Database Dialect",
    ),
    ConfigKey(
        "connection.attempts",
        ConfigType.INT,
        3,
        Importance.LOW,
        "Accepted for existing configurations. Connections are retried as max.retries and the worker say.",
        validator=at_least(1),
        group="Connection",
        order_in_group=5,
        width=Width.SHORT,
        display_name="Connection Attempts",
    ),
    ConfigKey(
        "connection.backoff.ms",
        ConfigType.LONG,
        10_000,
        Importance.LOW,
        "Accepted for existing configurations, as connection.attempts is.",
        group="Connection",
        order_in_group=6,
        width=Width.SHORT,
        display_name="Connection Backoff (ms)",
    ),
)

DEFINITION: Final = ConfigDef((
    *CONNECTION,
    ConfigKey(
        "insert.mode",
        ConfigType.STRING,
        "insert",
        Importance.HIGH,
        "insert: INSERT statements. upsert: rows with a key that exists are updated. update: rows are only updated.",
        one_of("insert", "upsert", "update", ignore_case=True),
        "Writes",
        1,
        Width.MEDIUM,
        "Insert Mode",
    ),
    ConfigKey(
        "batch.size",
        ConfigType.INT,
        3000,
        Importance.MEDIUM,
        "Accepted for existing configurations. Rows are loaded in bulk; the size of a batch is that of the worker's"
        " job.",
        at_least(0),
        "Writes",
        2,
        Width.SHORT,
        "Batch Size",
    ),
    ConfigKey(
        "delete.enabled",
        ConfigType.BOOLEAN,
        False,
        Importance.MEDIUM,
        "Whether records with a null value delete the row with their key. Requires pk.mode=record_key.",
        None,
        "Writes",
        3,
        Width.SHORT,
        "Enable deletes",
    ),
    ConfigKey(
        "table.types",
        ConfigType.LIST,
        "TABLE",
        Importance.LOW,
        "The types of tables that may be written: TABLE, PARTITIONED TABLE, VIEW.",
        _table_types,
        "Writes",
        4,
        Width.MEDIUM,
        "Table Types",
    ),
    ConfigKey(
        "table.name.format",
        ConfigType.STRING,
        "${topic}",
        Importance.MEDIUM,
        "The name of the table of a record; ${topic} stands for the topic's name. schema.table names a schema.",
        non_empty,
        "Data Mapping",
        1,
        Width.LONG,
        "Table Name Format",
    ),
    ConfigKey(
        "pk.mode",
        ConfigType.STRING,
        "none",
        Importance.HIGH,
        "What the primary key is made of: none, kafka (topic, partition, offset), record_key, record_value.",
        one_of("none", "kafka", "record_key", "record_value", ignore_case=True),
        "Data Mapping",
        2,
        Width.MEDIUM,
        "Primary Key Mode",
    ),
    ConfigKey(
        "pk.fields",
        ConfigType.LIST,
        "",
        Importance.MEDIUM,
        "The columns of the primary key. kafka: three names, or none for __connect_topic, __connect_partition,"
        " __connect_offset. record_key: fields of the key, or the name of a column for a primitive key."
        " record_value: fields of the value.",
        None,
        "Data Mapping",
        3,
        Width.LONG,
        "Primary Key Fields",
    ),
    ConfigKey(
        "fields.whitelist",
        ConfigType.LIST,
        "",
        Importance.MEDIUM,
        "The fields of the value that are written, beside those of the primary key. Empty: all.",
        None,
        "Data Mapping",
        4,
        Width.LONG,
        "Fields Whitelist",
    ),
    ConfigKey(
        "db.timezone",
        ConfigType.STRING,
        "UTC",
        Importance.MEDIUM,
        "The time zone of timestamps that the database stores without zone.",
        time_zone,
        "Data Mapping",
        5,
        Width.MEDIUM,
        "DB Time Zone",
    ),
    ConfigKey(
        "auto.create",
        ConfigType.BOOLEAN,
        False,
        Importance.MEDIUM,
        "Whether the sink creates missing tables, with the columns of the record's schema.",
        None,
        "DDL Support",
        1,
        Width.SHORT,
        "Auto-Create",
    ),
    ConfigKey(
        "auto.evolve",
        ConfigType.BOOLEAN,
        False,
        Importance.MEDIUM,
        "Whether the sink adds missing columns to a table.",
        None,
        "DDL Support",
        2,
        Width.SHORT,
        "Auto-Evolve",
    ),
    ConfigKey(
        "quote.sql.identifiers",
        ConfigType.STRING,
        "always",
        Importance.MEDIUM,
        "Whether SQL quotes the names of tables and columns: always or never.",
        one_of("always", "never", ignore_case=True),
        "DDL Support",
        3,
        Width.MEDIUM,
        "Quote Identifiers",
    ),
    ConfigKey(
        "max.retries",
        ConfigType.INT,
        10,
        Importance.MEDIUM,
        "How often a task tries again while the database is away, before the worker restarts the batch.",
        at_least(0),
        "Retries",
        1,
        Width.SHORT,
        "Maximum Retries",
    ),
    ConfigKey(
        "retry.backoff.ms",
        ConfigType.INT,
        3000,
        Importance.MEDIUM,
        "The pause before such a try.",
        at_least(0),
        "Retries",
        2,
        Width.SHORT,
        "Retry Backoff (millis)",
    ),
))  # fmt: skip


def guarantee_of(config: Mapping[str, str]) -> Guarantee:
    given = config.get(GUARANTEE, "at_least_once").strip().lower()
    for known in ("at_most_once", "at_least_once", "exactly_once"):
        if given == known:
            return known
    raise invalid(GUARANTEE, given, "String must be one of: at_most_once, at_least_once, exactly_once")


def settings(config: Mapping[str, str]) -> SinkSettings:
    """Raises ConfigException."""
    values = parse(DEFINITION, config)
    made = SinkSettings(
        address=address(values),
        insert_mode=InsertMode(values["insert.mode"].lower()),
        key_mode=KeyMode(values["pk.mode"].lower()),
        key_fields=tuple(values["pk.fields"]),
        value_fields=frozenset(values["fields.whitelist"]),
        table_format=values["table.name.format"],
        deletes=values["delete.enabled"],
        creates=values["auto.create"],
        evolves=values["auto.evolve"],
        timezone=values["db.timezone"],
        always_quoted=values["quote.sql.identifiers"].lower() == "always",
        table_types=frozenset(values["table.types"]),
        retries_max=values["max.retries"],
        backoff_ms=values["retry.backoff.ms"],
        guarantee=guarantee_of(config),
        tolerates_refusals=tolerates_failures(config),
    )
    for mistake in contradictions(made):
        raise mistake
    return made


def contradictions(
    settings: SinkSettings, key_mode: str = "pk.mode", key_fields: str = "pk.fields"
) -> Sequence[ConfigException]:
    found = []
    if settings.deletes and settings.key_mode is not KeyMode.RECORD_KEY:
        found.append(
            ConfigException(
                f"Primary key mode must be 'record_key' when delete support is enabled: set {key_mode}=record_key",
                key_mode,
            )
        )
    if settings.insert_mode is not InsertMode.INSERT and settings.key_mode is KeyMode.NONE:
        found.append(
            ConfigException(
                f"Invalid value none for configuration {key_mode}: insert.mode={settings.insert_mode.value} needs a"
                f" primary key; set {key_mode} to kafka, record_key or record_value",
                key_mode,
            )
        )
    if settings.key_mode is KeyMode.KAFKA and len(settings.key_fields) not in (0, len(KAFKA_KEY_NAMES)):
        found.append(
            invalid(
                key_fields,
                ",".join(settings.key_fields),
                f"{key_mode}=kafka takes no fields, or the names of three columns: topic, partition, offset",
            )
        )
    if "${" in settings.table_format.replace("${topic}", ""):
        found.append(invalid("table.name.format", settings.table_format, "the only placeholder is ${topic}"))
    return found
