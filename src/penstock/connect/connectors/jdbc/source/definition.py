"""Properties of the JDBC source, under Confluent's and Aiven's names, and what they mean together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from penstock.connect.config.definition import ConfigDef, ConfigException, ConfigKey, ConfigType, Importance, Width
from penstock.connect.config.parsing import at_least, invalid, one_of, parse
from penstock.connect.connectors.jdbc.addresses import Address, address
from penstock.connect.connectors.jdbc.dialects.reading import NumericMapping
from penstock.connect.connectors.jdbc.sink.definition import CONNECTION, time_zone
from penstock.connect.connectors.jdbc.table_names import Identifiers

_TABLE_TYPES: Final = ("TABLE", "PARTITIONED TABLE", "VIEW")


class Mode(Enum):
    BULK = "bulk"
    INCREMENTING = "incrementing"
    TIMESTAMP = "timestamp"
    TIMESTAMP_INCREMENTING = "timestamp+incrementing"


@dataclass(frozen=True, slots=True)
class SourceSettings:
    address: Address
    mode: Mode
    topic_prefix: str
    incrementing_column: str = ""
    timestamp_columns: tuple[str, ...] = ()
    timestamp_initial_ms: int | None = None
    timestamp_delay_ms: int = 0
    validates_non_null: bool = True
    query: str = ""
    query_suffix: str = ""
    whitelist: frozenset[str] = frozenset()
    blacklist: frozenset[str] = frozenset()
    table_types: tuple[str, ...] = ("TABLE",)
    schema_pattern: str | None = None
    poll_interval_ms: int = 5000
    table_poll_interval_ms: int = 60_000
    batch_rows_max: int = 10_000
    numeric_mapping: NumericMapping = NumericMapping.NONE
    timezone: str = "UTC"
    always_quoted: bool = True

    @property
    def identifiers(self) -> Identifiers:
        return Identifiers(self.address.dialect.base, self.always_quoted)

    @property
    def has_numbers(self) -> bool:
        return self.mode in (Mode.INCREMENTING, Mode.TIMESTAMP_INCREMENTING)

    @property
    def has_timestamps(self) -> bool:
        return self.mode in (Mode.TIMESTAMP, Mode.TIMESTAMP_INCREMENTING)


def _table_types(name: str, value: Any) -> None:
    for each in value:
        if each not in _TABLE_TYPES:
            raise invalid(name, each, f"String must be one of: {', '.join(_TABLE_TYPES)}")


def _key(
    name: str,
    kind: ConfigType,
    default: Any,
    importance: Importance,
    doc: str,
    group: str,
    order: int,
    display: str,
    validator: Any = None,
) -> ConfigKey:
    return ConfigKey(name, kind, default, importance, doc, validator, group, order, Width.MEDIUM, display)


_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_STRING, _LIST, _LONG, _INT = ConfigType.STRING, ConfigType.LIST, ConfigType.LONG, ConfigType.INT
_BOOLEAN: Final = ConfigType.BOOLEAN
DEFINITION: Final = ConfigDef(
    (
        *CONNECTION,
        _key("table.whitelist", _LIST, "", _MEDIUM, "Tables to copy; empty: all.", "Database", 7, "Table Whitelist"),
        _key("table.blacklist", _LIST, "", _MEDIUM, "Tables not to copy.", "Database", 8, "Table Blacklist"),
        _key(
            "catalog.pattern",
            _STRING,
            None,
            _MEDIUM,
            "MariaDB and MySQL: the databases to find tables in, as LIKE has it. Default: the connection's.",
            "Database",
            9,
            "Catalog pattern",
        ),
        _key(
            "schema.pattern",
            _STRING,
            None,
            _HIGH,
            "PostgreSQL: the schemas to find tables in, as LIKE has it. Default: all but those of the system.",
            "Database",
            10,
            "Schema pattern",
        ),
        _key(
            "numeric.precision.mapping",
            _BOOLEAN,
            False,
            _LOW,
            "The older form of numeric.mapping=precision_only.",
            "Database",
            11,
            "Numeric Precision Mapping",
        ),
        _key(
            "numeric.mapping",
            _STRING,
            None,
            _LOW,
            "NUMERIC columns as none: Decimal; precision_only: integers without a scale by their precision; best_fit:"
            " also DOUBLE; best_fit_eager_double: DOUBLE whenever there is a scale.",
            "Database",
            12,
            "Numeric Mapping",
        ),
        _key(
            "mode",
            _STRING,
            "",
            _HIGH,
            "bulk: whole tables at every poll. incrementing, timestamp, timestamp+incrementing: new rows, by a column"
            " that grows, a column that changes with the row, or both.",
            "Mode",
            1,
            "Table Loading Mode",
            one_of("", *(mode.value for mode in Mode)),
        ),
        _key(
            "incrementing.column.name",
            _STRING,
            "",
            _MEDIUM,
            "The column that grows.",
            "Mode",
            2,
            "Incrementing Column Name",
        ),
        _key(
            "timestamp.column.name",
            _LIST,
            "",
            _MEDIUM,
            "The columns of the timestamp; the first that is not null counts.",
            "Mode",
            3,
            "Timestamp Column Name",
        ),
        _key(
            "timestamp.initial",
            _LONG,
            None,
            _LOW,
            "Milliseconds since 1970 to begin at; -1: now. Default: with the first row.",
            "Mode",
            4,
            "Initial Timestamp",
        ),
        _key(
            "validate.non.null",
            _BOOLEAN,
            True,
            _LOW,
            "Whether columns of positions must be NOT NULL.",
            "Mode",
            5,
            "Validate Non Null",
        ),
        _key(
            "query",
            _STRING,
            "",
            _MEDIUM,
            "A query instead of tables. It may have conditions of its own.",
            "Mode",
            6,
            "Query",
        ),
        _key(
            "quote.sql.identifiers",
            _STRING,
            "always",
            _MEDIUM,
            "Whether SQL quotes names: always or never.",
            "Mode",
            7,
            "Quote Identifiers",
            one_of("always", "never", ignore_case=True),
        ),
        _key("query.suffix", _STRING, "", _LOW, "SQL behind every query.", "Mode", 8, "Query suffix"),
        _key(
            "table.types",
            _LIST,
            "TABLE",
            _LOW,
            "The types of tables to find: TABLE, PARTITIONED TABLE, VIEW.",
            "Connector",
            1,
            "Table Types",
            _table_types,
        ),
        _key(
            "poll.interval.ms",
            _INT,
            5000,
            _HIGH,
            "How often a table is asked for new rows.",
            "Connector",
            2,
            "Poll Interval (ms)",
            at_least(1),
        ),
        _key(
            "batch.max.rows",
            _INT,
            10_000,
            _LOW,
            "How many rows are in memory at a time.",
            "Connector",
            3,
            "Max Rows Per Batch",
            at_least(1),
        ),
        _key(
            "table.poll.interval.ms",
            _LONG,
            60_000,
            _LOW,
            "How often the connector looks for new tables.",
            "Connector",
            4,
            "Table Poll Interval (ms)",
            at_least(1),
        ),
        ConfigKey(
            "topic.prefix",
            _STRING,
            importance=_HIGH,
            doc="Before a table's name to make the name of its topic; for a query the name of the topic.",
            group="Connector",
            order_in_group=5,
            width=Width.MEDIUM,
            display_name="Topic Prefix",
        ),
        _key(
            "timestamp.delay.interval.ms",
            _LONG,
            0,
            _HIGH,
            "How long a row waits behind its timestamp, so that transactions with earlier ones commit. PostgreSQL needs"
            " it only for timestamps that clients make; for other databases it is best effort.",
            "Connector",
            6,
            "Delay Interval (ms)",
            at_least(0),
        ),
        _key(
            "db.timezone",
            _STRING,
            "UTC",
            _MEDIUM,
            "The time zone of timestamps that the database stores without zone.",
            "Connector",
            7,
            "DB time zone",
            time_zone,
        ),
    )
)


def settings(config: Mapping[str, str]) -> SourceSettings:
    """Raises ConfigException."""
    values = parse(DEFINITION, config)
    for mistake in _contradictions(values):
        raise mistake
    mapping = NumericMapping.PRECISION_ONLY if values["numeric.precision.mapping"] else NumericMapping.NONE
    if values["numeric.mapping"] is not None:
        known = [each.value for each in NumericMapping]
        one_of(*known)("numeric.mapping", values["numeric.mapping"].lower())
        mapping = NumericMapping(values["numeric.mapping"].lower())
    where = address(values)
    patterns = values["schema.pattern"] if where.dialect.subprotocols[0] == "postgresql" else values["catalog.pattern"]
    return SourceSettings(
        address=where,
        mode=Mode(values["mode"]),
        topic_prefix=values["topic.prefix"],
        incrementing_column=values["incrementing.column.name"],
        timestamp_columns=tuple(values["timestamp.column.name"]),
        timestamp_initial_ms=values["timestamp.initial"],
        timestamp_delay_ms=values["timestamp.delay.interval.ms"],
        validates_non_null=values["validate.non.null"],
        query=values["query"].rstrip("; \n"),
        query_suffix=values["query.suffix"],
        whitelist=frozenset(values["table.whitelist"]),
        blacklist=frozenset(values["table.blacklist"]),
        table_types=tuple(values["table.types"]),
        schema_pattern=patterns,
        poll_interval_ms=values["poll.interval.ms"],
        table_poll_interval_ms=values["table.poll.interval.ms"],
        batch_rows_max=values["batch.max.rows"],
        numeric_mapping=mapping,
        timezone=values["db.timezone"],
        always_quoted=values["quote.sql.identifiers"].lower() == "always",
    )


def _contradictions(values: Mapping[str, Any]) -> Sequence[ConfigException]:
    found = []
    if not values["mode"]:
        known = ", ".join(mode.value for mode in Mode)
        found.append(ConfigException(f"Query mode must be specified: set mode to one of {known}", "mode"))
        return found
    mode = Mode(values["mode"])
    if mode in (Mode.INCREMENTING, Mode.TIMESTAMP_INCREMENTING) and not values["incrementing.column.name"]:
        name = "incrementing.column.name"
        found.append(ConfigException(f"Incrementing column name must be specified for mode {mode.value}: {name}", name))
    if mode in (Mode.TIMESTAMP, Mode.TIMESTAMP_INCREMENTING) and not values["timestamp.column.name"]:
        name = "timestamp.column.name"
        found.append(ConfigException(f"Timestamp column name must be specified for mode {mode.value}: {name}", name))
    if values["table.whitelist"] and values["table.blacklist"]:
        text = "table.whitelist and table.blacklist are exclusive: remove one of them"
        found.append(ConfigException(text, "table.blacklist"))
    if values["query"] and (values["table.whitelist"] or values["table.blacklist"]):
        text = "query may not be combined with whole-table copying settings: remove table.whitelist and table.blacklist"
        found.append(ConfigException(text, "query"))
    return found
