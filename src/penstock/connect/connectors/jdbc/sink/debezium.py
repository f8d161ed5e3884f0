"""Debezium's names for the JDBC sink's properties, and the types and envelopes that only its records have.

Owns the translation into `SinkSettings`; what happens then is the same sink.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from penstock.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance
from penstock.connect.config.parsing import at_least, invalid, non_empty, one_of, parse
from penstock.connect.connectors.jdbc.addresses import address
from penstock.connect.connectors.jdbc.sink.connector import JdbcSink
from penstock.connect.connectors.jdbc.sink.definition import (
    CONNECTION,
    InsertMode,
    KeyMode,
    SinkSettings,
    contradictions,
    guarantee_of,
    time_zone,
)
from penstock.connect.errors.tolerance import tolerates_failures

_TABLE_FORMAT: Final = "${topic}"
_POOL: Final[Mapping[str, int]] = {"min_size": 5, "max_size": 32, "acquire_increment": 32, "timeout": 1800}
DEFINITION: Final = ConfigDef(
    (
        CONNECTION[0],
        ConfigKey("connection.username", ConfigType.STRING, None, Importance.HIGH, "The user that the database knows."),
        CONNECTION[2],
        ConfigKey(
            "insert.mode",
            ConfigType.STRING,
            "insert",
            Importance.HIGH,
            "insert, upsert or update.",
            one_of("insert", "upsert", "update", ignore_case=True),
        ),
        ConfigKey(
            "delete.enabled",
            ConfigType.BOOLEAN,
            False,
            Importance.MEDIUM,
            "Whether tombstones delete the row with their key. Requires primary.key.mode=record_key.",
        ),
        ConfigKey(
            "primary.key.mode",
            ConfigType.STRING,
            "none",
            Importance.HIGH,
            "none, kafka, record_key or record_value.",
            one_of("none", "kafka", "record_key", "record_value", ignore_case=True),
        ),
        ConfigKey(
            "primary.key.fields",
            ConfigType.LIST,
            "",
            Importance.MEDIUM,
            "The fields of the primary key; empty: all fields of the key or the value.",
        ),
        ConfigKey(
            "schema.evolution",
            ConfigType.STRING,
            "none",
            Importance.MEDIUM,
            "none, or basic: tables are created, and columns that are missing are added.",
            one_of("none", "basic", ignore_case=True),
        ),
        ConfigKey(
            "quote.identifiers",
            ConfigType.BOOLEAN,
            False,
            Importance.MEDIUM,
            "Whether SQL quotes the names of tables and columns.",
        ),
        ConfigKey(
            "table.name.format",
            ConfigType.STRING,
            _TABLE_FORMAT,
            Importance.MEDIUM,
            "The table of a record; ${topic} stands for the topic's name, with _ in place of dots.",
            non_empty,
        ),
        ConfigKey(
            "collection.name.format",
            ConfigType.STRING,
            _TABLE_FORMAT,
            Importance.MEDIUM,
            "The newer name of table.name.format.",
            non_empty,
        ),
        ConfigKey(
            "use.time.zone",
            ConfigType.STRING,
            "UTC",
            Importance.MEDIUM,
            "The time zone of timestamps that the database stores without zone.",
            time_zone,
        ),
        ConfigKey(
            "database.time_zone",
            ConfigType.STRING,
            "UTC",
            Importance.LOW,
            "The older name of use.time.zone.",
            time_zone,
        ),
        *(
            ConfigKey(
                f"connection.pool.{name}",
                ConfigType.INT,
                default,
                Importance.LOW,
                "Accepted for existing configurations. A task has one connection, and the driver has one.",
                at_least(1),
            )
            for name, default in _POOL.items()
        ),
        ConfigKey(
            "batch.size",
            ConfigType.INT,
            500,
            Importance.MEDIUM,
            "Accepted for existing configurations. Rows are loaded in bulk.",
            at_least(1),
        ),
        ConfigKey(
            "flush.max.retries",
            ConfigType.INT,
            5,
            Importance.MEDIUM,
            "How often a task tries again while the database is away, before the worker restarts the batch.",
            at_least(0),
        ),
        ConfigKey(
            "flush.retry.delay.ms",
            ConfigType.LONG,
            1000,
            Importance.MEDIUM,
            "The pause before such a try.",
            at_least(0),
        ),
    )
)


def settings(config: Mapping[str, str]) -> SinkSettings:
    """Raises ConfigException."""
    values = parse(DEFINITION, config)
    evolves = values["schema.evolution"].lower() == "basic"
    formats = [values[name] for name in ("collection.name.format", "table.name.format") if name in config]
    table_format = formats[0] if formats else _TABLE_FORMAT
    if "${" in table_format.replace(_TABLE_FORMAT, ""):
        name = "collection.name.format" if "collection.name.format" in config else "table.name.format"
        raise invalid(name, table_format, "the only placeholder is ${topic}")
    zone_is_old = "database.time_zone" in config and "use.time.zone" not in config
    made = SinkSettings(
        address=address(values, user="connection.username"),
        insert_mode=InsertMode(values["insert.mode"].lower()),
        key_mode=KeyMode(values["primary.key.mode"].lower()),
        key_fields=tuple(values["primary.key.fields"]),
        table_format=table_format,
        topic_dots="_",
        deletes=values["delete.enabled"],
        creates=evolves,
        evolves=evolves,
        timezone=values["database.time_zone" if zone_is_old else "use.time.zone"],
        always_quoted=values["quote.identifiers"],
        retries_max=values["flush.max.retries"],
        backoff_ms=values["flush.retry.delay.ms"],
        guarantee=guarantee_of(config),
        is_debezium=True,
        tolerates_refusals=tolerates_failures(config),
    )
    for mistake in contradictions(made, "primary.key.mode", "primary.key.fields"):
        raise mistake
    return made


class DebeziumJdbcSink(JdbcSink):
    definition: ClassVar[ConfigDef] = DEFINITION

    @classmethod
    def settings_of(cls, config: Mapping[str, str]) -> SinkSettings:
        return settings(config)
