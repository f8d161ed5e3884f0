"""Which columns a record has for its table, by the schemas of its key and value, and which records are refused.

The rules and messages are those of Confluent's JDBC sink. Owns the refusals; it must not know databases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from penstock.connect.connectors.jdbc.sink.definition import KAFKA_KEY_NAMES, KeyMode, SinkSettings
from penstock.connect.data.records import CONNECT_ERRORS, Column, Failure, RecordGroup
from penstock.connect.data.schema import INT32, INT64, STRING, Schema, Type

CONNECT_EXCEPTION: Final = f"{CONNECT_ERRORS}.ConnectException"
_NESTED: Final = (Type.ARRAY, Type.MAP, Type.STRUCT)
Origin = Literal["key", "value", "topic", "partition", "offset"]


class FieldsRefused(Exception):
    """Records of these schemas cannot be written."""


@dataclass(frozen=True, slots=True)
class SinkField:
    """A column and where its values are: a field of the key or value (or the key itself), or a coordinate."""

    name: str
    schema: Schema
    origin: Origin
    is_key: bool
    is_whole: bool = False  # the key itself is the value

    def values(self, group: RecordGroup) -> pa.Array:
        """As Connect's `Struct.get` gives them: a null is the schema's default, if there is one."""
        match self.origin:
            case "topic":
                return group.topic
            case "partition":
                return group.partition
            case "offset":
                assert group.offset is not None, "records of a topic have offsets"
                return group.offset
        column = (group.key if self.origin == "key" else group.value).values
        found = column if self.is_whole else pc.struct_field(column, self.name)
        if found.null_count and self.schema.default is not None:
            found = pc.fill_null(found, pa.scalar(self.schema.default, found.type))
        return found


def fields_of(table: str, settings: SinkSettings, key: Schema | None, value: Schema | None) -> tuple[SinkField, ...]:
    """In the order of a new table's columns. `value` is None for tombstones. Raises FieldsRefused."""
    keys = _key_fields(table, settings, key, value)
    names = {field.name for field in keys}
    others = [
        SinkField(field.name, field.schema, "value", is_key=False)
        for field in (value.fields if value is not None else ())
        if field.name not in names and (not settings.value_fields or field.name in settings.value_fields)
    ]
    if not keys and not others:
        raise FieldsRefused(f"No fields found using key and value schemas for table: {table}")
    if settings.key_mode is not KeyMode.RECORD_VALUE or value is None:
        return (*keys, *others)
    order = {field.name: number for number, field in enumerate(value.fields)}
    return tuple(sorted((*keys, *others), key=lambda field: order[field.name]))


def _key_fields(table: str, settings: SinkSettings, key: Schema | None, value: Schema | None) -> list[SinkField]:
    configured = settings.key_fields
    match settings.key_mode:
        case KeyMode.NONE:
            return []
        case KeyMode.KAFKA:
            topic, partition, offset = configured or KAFKA_KEY_NAMES
            return [
                SinkField(topic, STRING, "topic", is_key=True),
                SinkField(partition, INT32, "partition", is_key=True),
                SinkField(offset, INT64, "offset", is_key=True),
            ]
        case KeyMode.RECORD_VALUE:
            assert value is not None, "checked by `refused`"
            return _struct_key(table, "value", settings, value)
    if key is None:
        raise FieldsRefused(f"PK mode for table '{table}' is RECORD_KEY, but record key schema is missing")
    if key.type is Type.STRUCT:
        return _struct_key(table, "key", settings, key)
    if len(configured) != 1:
        raise FieldsRefused(
            "Need exactly one PK column defined since the key schema for records is a primitive type, defined columns"
            f" are: [{', '.join(configured)}]"
        )
    return [SinkField(configured[0], key, "key", is_key=True, is_whole=True)]


def _struct_key(table: str, origin: Literal["key", "value"], settings: SinkSettings, schema: Schema) -> list[SinkField]:
    found = []
    for name in settings.key_fields or [field.name for field in schema.fields]:
        field = schema.field(name)
        if field is None:
            raise FieldsRefused(
                f"PK mode for table '{table}' is {settings.key_mode.name} with configured PK fields"
                f" [{', '.join(settings.key_fields)}], but record {origin} schema does not contain field: {name}"
            )
        found.append(SinkField(name, field.schema, origin, is_key=True))
    return found


# Records that no table takes


def refused(connector: str, settings: SinkSettings, group: RecordGroup) -> tuple[RecordGroup, list[Failure]]:
    """The records that may be written, and why others may not."""
    failures: list[Failure] = []
    if settings.key_mode is KeyMode.RECORD_KEY:
        group = _without(group, group.key, "key", connector, settings, failures)
    if not settings.deletes:
        group = _without(group, group.value, "value", connector, settings, failures)
    elif len(group) and group.value.values.null_count < len(group):
        before = len(failures)
        _check_schema(group, group.value, "value", connector, settings, failures)
        if len(failures) > before:
            group = group.filter(group.value.values.is_null())
    return group, failures


def _without(
    group: RecordGroup, column: Column, part: str, connector: str, settings: SinkSettings, failures: list[Failure]
) -> RecordGroup:
    if not len(group):
        return group
    missing = column.values.is_null()
    if column.values.null_count:
        wanted = "non-null record keys" if part == "key" else "non-null record values that are structs"
        failures += _failures(group.filter(missing), column.schema, part, wanted, connector, settings)
        group = group.filter(pc.invert(missing))
    before = len(failures)
    if len(group):
        _check_schema(group, column, part, connector, settings, failures)
    return group if len(failures) == before else group.take(pa.array([], pa.int64()))


def _check_schema(
    group: RecordGroup, column: Column, part: str, connector: str, settings: SinkSettings, failures: list[Failure]
) -> None:
    schema = column.schema
    remedy = ""
    if schema is None:
        wanted = "non-null record keys with schemas" if part == "key" else "non-null record values that are structs"
        remedy = (
            f" Use a {part} converter that has schemas (JsonConverter with {part}.converter.schemas.enable=true, Avro,"
            " Protobuf or JSON Schema)."
        )
    elif part == "key" and schema.type in _NESTED and schema.type is not Type.STRUCT:
        wanted = "non-null record keys that are either structs or a single primitive value"
    elif part == "value" and schema.type is not Type.STRUCT:
        wanted = "record values to be structs"
        remedy = " Wrap them with the transform HoistField$Value."
    else:
        return
    there = group.filter(getattr(group, part).values.is_valid())
    failures += _failures(there, schema, part, wanted, connector, settings, remedy)


def _failures(
    group: RecordGroup,
    schema: Schema | None,
    part: str,
    wanted: str,
    connector: str,
    settings: SinkSettings,
    remedy: str = "",
) -> Sequence[Failure]:
    """One for each record, because the message names it."""
    values = getattr(group, part).values
    schema_type = "null" if schema is None else schema.type.name.capitalize()
    offsets = group.offset if group.offset is not None else pa.nulls(len(group), pa.int64())
    return [
        Failure(
            [row],
            f"The JDBC sink connector '{connector}' is configured with"
            f" 'delete.enabled={str(settings.deletes).lower()}' and 'pk.mode={settings.key_mode.value}' and therefore"
            f" requires {wanted}, but found record at (topic='{topic}',partition={partition},offset={offset},"
            f"timestamp={timestamp}) with a {_java_type(value, schema)} {part} and {schema_type} {part} schema."
            + remedy,
            CONNECT_EXCEPTION,
        )
        for row, topic, partition, offset, timestamp, value in zip(
            group.rows.to_pylist(),
            group.topic.to_pylist(),
            group.partition.to_pylist(),
            offsets.to_pylist(),
            group.timestamp.to_pylist(),
            values.is_valid().to_pylist(),
            strict=True,
        )
    ]


def _java_type(is_there: bool, schema: Schema | None) -> str:
    if not is_there:
        return "null"
    return "HashMap" if schema is None else {Type.STRUCT: "Struct"}.get(schema.type, schema.type.name.capitalize())
