"""Debezium's outbox EventRouter: rows that were inserted into an outbox table become events of topics of their own.

Works on columns; payloads are read one by one where they are expanded as JSON, and records then sorted by schema. The
schema of an envelope is named after the topic of each record; Debezium names it after the first one that it sees.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.connect.config.definition import ConfigDef, ConfigException, ConfigKey, ConfigType, Importance
from penstock.connect.config.parsing import one_of, parse
from penstock.connect.data.records import Column, RecordGroup, StepResult
from penstock.connect.data.schema import STRING, Field, Schema, Type
from penstock.connect.transforms.debezium.envelope import field_of_type, field_value, is_blank, is_envelope, state
from penstock.connect.transforms.debezium.json_payload import NotExpandableError, expand
from penstock.connect.transforms.java.values import CONNECT_EXCEPTION
from penstock.connect.transforms.parts import (
    PartTransform,
    RecordError,
    Rows,
    all_failed,
    check_field,
    merge,
    null_found,
    require_struct,
    split,
    struct_column,
    struct_schema,
)
from penstock.connect.transforms.properties import regex
from penstock.connect.transforms.routing import RegexRouter

_log: Final = logging.getLogger(__name__)
_TIMESTAMP_UNITS: Final = {
    "io.debezium.time.Timestamp": 1,
    "io.debezium.time.MicroTimestamp": 1000,
    "io.debezium.time.NanoTimestamp": 1_000_000,
}
_PLACEMENTS: Final = ("header", "envelope", "partition")
ILLEGAL_STATE: Final = "java.lang.IllegalStateException"


@dataclass(frozen=True, slots=True)
class _AdditionalField:
    field: str
    placement: str
    alias: str


def _parse_additional(text: str | None) -> list[_AdditionalField]:
    fields = []
    for each in text.split(",") if text else ():
        parts = [part.strip() for part in each.split(":")]
        if len(parts) not in (2, 3) or parts[1].lower() not in _PLACEMENTS:
            raise ConfigException(
                f"Invalid value {text} for configuration table.fields.additional.placement: {each.strip()} is not of "
                "the form field:placement or field:placement:alias; a placement is header, envelope or partition",
                "table.fields.additional.placement",
            )
        fields.append(_AdditionalField(parts[0], parts[1].lower(), parts[2] if len(parts) == 3 else parts[0]))
    return fields


def _text(name: str, default: Any, doc: str, importance: Importance = Importance.LOW) -> ConfigKey:
    return ConfigKey(name, ConfigType.STRING, default, importance, doc, group="Table")


def _flag(name: str, doc: str, *, default: bool = False, group: str = "Table") -> ConfigKey:
    return ConfigKey(name, ConfigType.BOOLEAN, default, Importance.MEDIUM, doc, group=group)


def _refuse_tracing(name: str, value: Any) -> None:
    if value is not None:
        raise ConfigException(
            f"The property {name} is not supported: there are no spans of OpenTelemetry here. To pass a column with a"
            " span context on, make it a header with table.fields.additional.placement",
            name,
        )


class EventRouter(PartTransform):
    part = "value"
    definition = ConfigDef(
        (
            _text("table.field.event.id", "id", "The column with the id of the event, which becomes the header `id`."),
            _text("table.field.event.key", "aggregateid", "The column with the key of the record."),
            _text("table.field.event.type", "type", "The column with the type of the event."),
            _text("table.field.event.payload", "payload", "The column with the value of the record."),
            _text("table.field.event.timestamp", None, "The column with the timestamp of the record; else Debezium's."),
            _text(
                "table.fields.additional.placement",
                None,
                "Columns that become headers, fields of an envelope or the partition: column:placement:alias, ...",
                Importance.HIGH,
            ),
            _flag(
                "table.fields.additional.error.on.missing",
                "Whether a record fails that lacks one of the additional columns.",
                default=True,
            ),
            _text("table.field.event.schema.version", None, "The column with the version of the envelope's schema."),
            ConfigKey(
                "table.op.invalid.behavior",
                ConfigType.STRING,
                "warn",
                Importance.MEDIUM,
                "What happens when a row of the table is updated: `warn` and `error` log and skip it, `fatal` fails.",
                one_of("warn", "error", "fatal", ignore_case=True),
                group="Table",
            ),
            _flag("table.expand.json.payload", "Whether a payload that is JSON becomes a struct."),
            ConfigKey(
                "table.json.payload.null.behavior",
                ConfigType.STRING,
                "ignore",
                Importance.MEDIUM,
                "Nulls in such a payload are left out (`ignore`), or kept as `optional_bytes`.",
                one_of("ignore", "optional_bytes", ignore_case=True),
                group="Table",
            ),
            ConfigKey(
                "route.by.field",
                ConfigType.STRING,
                "aggregatetype",
                Importance.HIGH,
                "The column that decides the topic.",
                group="Router",
            ),
            ConfigKey(
                "route.topic.regex",
                ConfigType.STRING,
                "(?<routedByValue>.*)",
                Importance.LOW,
                "The regular expression that its value has to match.",
                regex,
                group="Router",
            ),
            ConfigKey(
                "route.topic.replacement",
                ConfigType.STRING,
                "outbox.event.${routedByValue}",
                Importance.HIGH,
                "The name of the topic, with groups of the expression.",
                group="Router",
            ),
            _flag("route.tombstone.on.empty.payload", "Whether an empty payload makes a tombstone.", group="Router"),
            *(
                ConfigKey(name, kind, None, Importance.LOW, "Not supported.", _refuse_tracing, group="Tracing")
                for name, kind in (
                    ("tracing.span.context.field", ConfigType.STRING),
                    ("tracing.operation.name", ConfigType.STRING),
                    ("tracing.with.context.field.only", ConfigType.BOOLEAN),
                )
            ),
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        values = parse(self.definition, config)
        self._id: str = values["table.field.event.id"]
        self._key: str = values["table.field.event.key"]
        self._payload: str = values["table.field.event.payload"]
        self._timestamp: str | None = values["table.field.event.timestamp"]
        self._version: str | None = values["table.field.event.schema.version"]
        self._on_update: str = values["table.op.invalid.behavior"].lower()
        self._expands: bool = values["table.expand.json.payload"]
        self._keeps_null = values["table.json.payload.null.behavior"].lower() == "optional_bytes"
        self._route_by: str = values["route.by.field"]
        self._tombstones: bool = values["route.tombstone.on.empty.payload"]
        self._fails_on_missing: bool = values["table.fields.additional.error.on.missing"]
        self._additional = _parse_additional(values["table.fields.additional.placement"])
        self._router = RegexRouter()
        self._router.configure({"regex": values["route.topic.regex"], "replacement": values["route.topic.replacement"]})

    def apply_null(self, group: RecordGroup, column: Column) -> StepResult:
        return StepResult(())

    def apply_present(self, group: RecordGroup, column: Column) -> StepResult:
        if not is_envelope(column):
            return StepResult((group,))
        require_struct(column, "Detect Debezium Operation")
        operations = field_of_type(column, "op", Type.STRING)
        updates = pc.equal(operations, "u")
        results = []
        updated, _others = split(group, updates)
        if updated is not None:
            results.append(self._updated(updated))
        inserts, _skipped = split(group, pc.invert(pc.or_(updates, pc.equal(operations, "d"))))
        if inserts is not None:
            missing, events = split(inserts, state(inserts.value, "after").values.is_null())
            if missing is not None:
                schema = state(missing.value, "after").schema
                results.append(all_failed(missing, null_found(schema, "Read Outbox Event")))
            if events is not None:
                results.append(self._events(events))
        return merge(results)

    def _updated(self, group: RecordGroup) -> StepResult:
        keys = ["null" if key is None else key for key in group.key.values.to_pylist()]
        if self._on_update != "fatal":
            level = logging.ERROR if self._on_update == "error" else logging.WARNING
            _log.log(level, "Unexpected update of the outbox table, ignored: %d records", len(group))
            return StepResult(())
        rows = Rows(group)
        every = np.ones(len(group), dtype=np.bool_)
        rows.fail_each(every, lambda index: f"Unexpected update message received {keys[index]}, fail.", ILLEGAL_STATE)
        return StepResult((), rows.failures)

    def _events(self, group: RecordGroup) -> StepResult:
        event = state(group.value, "after")
        try:
            payload = self._found(event, self._payload, f"Unable to find payload field {self._payload} in event")
            timestamps = self._timestamps(group.value, event)
            identity = self._found(event, self._id, f"{self._id} is not a valid field name")
            headers = [*group.headers, ("id", identity)]
            headers += [(each.alias, field_value(event, each.field)) for each in self._placed(event, "header")]
            partition = pa.nulls(len(group), pa.int32())
            for each in self._placed(event, "partition"):
                partition = field_of_type(event, each.field, Type.INT32)
            topics = field_of_type(event, self._route_by, Type.STRING)
            key = self._record_key(event)
        except RecordError as error:
            return all_failed(group, error)
        routed = replace(
            group,
            topic=topics,
            partition=partition,
            timestamp=timestamps,
            key=key,
            headers=tuple(headers),
            # Beside the payload, the event is needed for the envelope.
            value=event,
        )
        results = []
        for piece, expanded in self._payloads(routed, payload):
            results.append(self._with_values(piece, expanded))
        return merge([self._router.apply(each) for result in results for each in result.groups]
                     + [StepResult((), result.failures) for result in results])  # fmt: skip

    def _found(self, event: Column, name: str, why: str) -> Column:
        assert event.schema is not None
        if event.schema.field(name) is None:
            raise RecordError(why, CONNECT_EXCEPTION if why.startswith("Unable") else RecordError("").java_class)
        return field_value(event, name)

    def _placed(self, event: Column, placement: str) -> list[_AdditionalField]:
        assert event.schema is not None
        chosen = [each for each in self._additional if each.placement == placement]
        if self._fails_on_missing:
            return chosen
        return [each for each in chosen if event.schema.field(each.field) is not None]

    def _record_key(self, event: Column) -> Column:
        return field_value(event, self._key) if self._key else Column(STRING, pa.nulls(len(event.values), pa.string()))

    def _timestamps(self, envelope: Column, event: Column) -> pa.Array:
        processed = field_of_type(envelope, "ts_ms", Type.INT64)
        if self._timestamp is None:
            return processed
        assert event.schema is not None
        field = event.schema.field(self._timestamp)
        if field is None:
            raise RecordError(f"Unable to find timestamp field {self._timestamp} in event", CONNECT_EXCEPTION)
        given = field_of_type(event, self._timestamp, Type.INT64)
        if given.null_count == len(given):
            return processed
        if field.schema.name is None:
            why = f"Unsupported field type {field.schema.type.name} (without logical schema name) for event timestamp"
            raise RecordError(why, CONNECT_EXCEPTION)
        if field.schema.name not in _TIMESTAMP_UNITS:
            raise RecordError(f"Unsupported field type {field.schema.name} for event timestamp", CONNECT_EXCEPTION)
        return pc.coalesce(pc.divide(given, _TIMESTAMP_UNITS[field.schema.name]), processed)

    def _payloads(self, group: RecordGroup, payload: Column) -> list[tuple[RecordGroup, Column]]:
        """Groups of equal payload schema."""
        if not self._expands or payload.schema is None or payload.schema.type is not Type.STRING:
            return [(group, payload)]
        by_schema: dict[Schema, tuple[list[int], list[Any]]] = {}
        for index, text in enumerate(payload.values.to_pylist()):
            schema, value = payload.schema, text
            if text is not None:
                try:
                    schema, value = expand(text, self._payload, keeps_null=self._keeps_null)
                except NotExpandableError as error:
                    _log.warning("JSON expansion failed: %s", error)
            indices, values = by_schema.setdefault(schema, ([], []))
            indices.append(index)
            values.append(value)
        return [
            (group.take(pa.array(indices, pa.int64())), Column(schema, pa.array(values, schema.arrow_type)))
            for schema, (indices, values) in by_schema.items()
        ]

    def _with_values(self, group: RecordGroup, payload: Column) -> StepResult:
        """`value` of the group is the event."""
        empty = payload.values.is_null()
        if pa.types.is_string(payload.values.type):
            empty = is_blank(payload.values)
        results = []
        if self._tombstones and pc.any(empty).as_py():
            tombstones = group.filter(empty)
            results.append(StepResult((tombstones.with_value(Column(None, pa.nulls(len(tombstones)))),)))
            kept = pc.invert(empty)
            if not pc.any(kept).as_py():
                return results[0]
            group, payload = group.filter(kept), Column(payload.schema, payload.values.filter(kept))
        if not any(each.placement == "envelope" for each in self._additional):
            return merge([*results, StepResult((group.with_value(payload),))])
        return merge([*results, self._enveloped(group, payload)])

    def _enveloped(self, group: RecordGroup, payload: Column) -> StepResult:
        event = group.value
        names = group.topic.fill_null("null")
        versions = None if self._version is None else field_of_type(event, self._version, Type.INT32)
        results = []
        pairs = list(
            zip(names.to_pylist(), [None] * len(group) if versions is None else versions.to_pylist(), strict=True)
        )
        for pair in dict.fromkeys(pairs):
            mask = pa.array([each == pair for each in pairs])
            piece = group.filter(mask)
            chosen = Column(payload.schema, payload.values.filter(mask))
            try:
                results.append(self._envelope(piece, chosen, *pair))
            except RecordError as error:
                results.append(all_failed(piece, error))
        return merge(results)

    def _envelope(self, group: RecordGroup, payload: Column, topic: str, version: int | None) -> StepResult:
        event = group.value
        assert event.schema is not None
        assert payload.schema is not None
        parts = {"payload": payload}
        parts.update({each.alias: field_value(event, each.field) for each in self._placed(event, "envelope")})
        fields = [Field(name, column.schema) for name, column in parts.items() if column.schema is not None]
        schema = replace(struct_schema(None, fields), name=_schema_name(event.schema.name, topic), version=version)
        rows = Rows(group)
        for field in fields:
            check_field(rows, field, parts[field.name].values)
        columns = {name: column.values for name, column in parts.items()}
        return rows.result(group.with_value(struct_column(schema, columns, len(group))))


def _schema_name(original: str | None, topic: str) -> str:
    if original is None:
        return topic
    namespace, dot, name = original.rpartition(".")
    return f"{namespace}{dot}{topic}.{name}"
