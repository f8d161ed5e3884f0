"""InsertField, ReplaceField, ExtractField, HoistField, ValueToKey, MaskField, SetSchemaMetadata and Flatten."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pytest

from penstock.connect.config.definition import ConfigException
from penstock.connect.data import schema as connect
from penstock.connect.data.records import Column
from penstock.connect.data.schema import Schema, Type, struct
from penstock.connect.transforms.field_path import parse_path
from tests.unit.connect.transforms.record_groups import apply, column, failures, group, only, plugin, values

ADDRESS = struct({"city": connect.STRING, "zip": connect.INT32.optional()}, is_optional=True)
USER = struct({"id": connect.INT64, "name": connect.STRING.optional(), "address": ADDRESS}, name="User")
ADA = {"id": 1, "name": "Ada", "address": {"city": "London", "zip": 7}}
BOB = {"id": 2, "name": None, "address": None}


def users() -> Column:
    return column(USER, [ADA, BOB])


# InsertField


def test_insert_field_adds_what_is_known_of_a_record() -> None:
    config = {"topic.field": "t!", "partition.field": "p", "offset.field": "o", "timestamp.field": "at"}
    inserted = only(apply("InsertField$Value", {**config, "static.field": "s", "static.value": "x"}, group(users())))
    assert inserted.value.values.to_pylist()[1] == {
        **BOB, "t": "orders", "p": 3, "o": 1, "at": 1_700_000_000_001, "s": "x",
    }  # fmt: skip
    schema = inserted.value.schema
    assert schema is not None
    assert [field.schema.is_optional for field in schema.fields[3:]] == [False, True, True, True, True]
    assert schema.fields[6].schema == connect.timestamp().optional()


def test_insert_field_splits_maps_by_what_is_missing() -> None:
    records = group(column(None, [{"a": 1}, {"a": 2}]), timestamp=pa.array([5, None], pa.int64()))
    result = apply("InsertField$Value", {"timestamp.field": "at"}, records)
    assert values(result) == [{"a": 1, "at": 5}, {"a": 2}]
    assert len(result.groups) == 2


def test_insert_field_knows_no_offset_of_a_source() -> None:
    result = apply("InsertField$Value", {"offset.field": "o"}, group(column(None, [{"a": 1}]), is_source=True))
    found = "org.apache.kafka.connect.source.SourceRecord"
    assert failures(result) == {100: f"Only SinkRecord supported for [field insertion], found: {found}"}


def test_insert_field_refuses_a_name_that_is_taken() -> None:
    result = apply("InsertField$Value", {"topic.field": "id"}, group(users()))
    assert [failure.java_class for failure in result.failures] == [
        "org.apache.kafka.connect.errors.SchemaBuilderException"
    ]


def test_insert_field_passes_tombstones() -> None:
    records = group(Column(USER.optional(), pa.array([ADA, None], USER.arrow_type)))
    result = apply("InsertField$Value", {"topic.field": "t"}, records)
    assert [len(each) for each in result.groups] == [1, 1]
    assert result.groups[1].value.schema == USER.optional()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "No field insertion configured"),
        ({"static.field": "a"}, "Invalid value null for configuration static.value"),
    ],
)
def test_insert_field_needs_something_to_insert(config: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigException, match=message):
        plugin("InsertField$Value", config)


# ReplaceField


def test_replace_field_drops_and_renames() -> None:
    replaced = only(apply("ReplaceField$Value", {"exclude": "address", "renames": "name:full_name"}, group(users())))
    assert replaced.value.values.to_pylist() == [{"id": 1, "full_name": "Ada"}, {"id": 2, "full_name": None}]
    assert replaced.value.schema == dataclasses.replace(
        struct({"id": connect.INT64, "full_name": connect.STRING.optional()}), name="User"
    )


def test_replace_field_keeps_what_is_included() -> None:
    result = apply("ReplaceField$Value", {"include": "a"}, group(column(None, [{"a": 1, "b": 2}])))
    assert values(result) == [{"a": 1}]


def test_replace_field_may_leave_nothing() -> None:
    result = apply("ReplaceField$Value", {"include": "nothing"}, group(users()))
    assert values(result) == [{}, {}]


# ExtractField


def test_extract_field_takes_a_nested_field_by_its_path() -> None:
    config = {"field": "address.city", "field.syntax.version": "V2"}
    extracted = only(apply("ExtractField$Value", config, group(users())))
    assert extracted.value.schema == connect.STRING
    assert extracted.value.values.to_pylist() == ["London", None]


def test_extract_field_does_not_know_paths_in_version_1() -> None:
    result = apply("ExtractField$Value", {"field": "address.city"}, group(users()))
    assert [(failure.java_class, failure.message) for failure in result.failures] == [
        ("java.lang.IllegalArgumentException", "Unknown field: address.city")
    ]


def test_extract_field_of_a_map_is_null_where_the_key_is_missing() -> None:
    assert values(apply("ExtractField$Value", {"field": "b"}, group(column(None, [{"a": 1}])))) == [None]


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("a.b", ("a", "b")),
        ("`a.b`.c", ("a.b", "c")),
        ("`a`b`.c", ("a`b", "c")),
        ("`a\\`.b`", ("a`.b",)),
        ("a.", ("a", "")),
        ("", ()),
    ],
)
def test_paths_of_version_2(path: str, steps: tuple[str, ...]) -> None:
    assert parse_path(path, "V2") == steps


def test_a_backtick_that_is_never_closed_is_refused() -> None:
    with pytest.raises(ConfigException, match="Incomplete backtick pair in path: "):
        parse_path("a.`b", "V2")


# HoistField, ValueToKey


def test_hoist_field_wraps_anything() -> None:
    hoisted = only(apply("HoistField$Value", {"field": "f"}, group(column(connect.INT32.optional(), [1, None]))))
    assert hoisted.value.values.to_pylist() == [{"f": 1}, {"f": None}]
    assert hoisted.value.schema == struct({"f": connect.INT32.optional()})


def test_hoist_field_refuses_null_in_a_required_field() -> None:
    result = apply("HoistField$Value", {"field": "f"}, group(Column(connect.INT32, pa.array([None, 4], pa.int32()))))
    assert failures(result) == {100: 'Invalid value: null used for required field: "f", schema type: INT32'}
    assert values(result) == [{"f": 4}]


def test_value_to_key_takes_fields_of_the_value() -> None:
    keyed = only(apply("ValueToKey", {"fields": "name,id"}, group(users())))
    assert keyed.key.values.to_pylist() == [{"name": "Ada", "id": 1}, {"name": None, "id": 2}]
    assert keyed.key.schema == struct({"name": connect.STRING.optional(), "id": connect.INT64})


def test_value_to_key_needs_the_fields_and_a_value() -> None:
    assert failures(apply("ValueToKey", {"fields": "nope"}, group(users()))) == dict.fromkeys(
        (100, 101), "Field does not exist: nope"
    )
    tombstones = group(Column(None, pa.nulls(1)))
    assert failures(apply("ValueToKey", {"fields": "a"}, tombstones)) == {
        100: "Only Map objects supported in absence of schema for [copying fields from value to key], found: null"
    }


# MaskField


def test_mask_field_leaves_nothing_of_a_value() -> None:
    record = {"a": 5, "b": "secret", "c": True, "d": [1], "e": {"f": 1}, "g": None, "h": 1.5}
    result = apply("MaskField$Value", {"fields": "a,b,c,d,e,g,h"}, group(column(None, [record])))
    assert values(result) == [{"a": 0, "b": "", "c": False, "d": [], "e": {}, "g": None, "h": 0.0}]


def test_mask_field_writes_a_replacement_in_the_type_of_the_field() -> None:
    schema = struct({"n": connect.INT8, "t": connect.STRING, "d": connect.decimal(2), "f": connect.FLOAT32})
    record = {"n": 1, "t": "x", "d": b"\x01", "f": 2.5}
    masked = apply("MaskField$Value", {"fields": "n,t,d,f", "replacement": "300"}, group(column(schema, [record])))
    assert values(masked) == [{"n": 44, "t": "300", "d": (30_000).to_bytes(2, "big"), "f": 300.0}]


def test_mask_field_refuses_what_has_no_replacement() -> None:
    config = {"fields": "a", "replacement": "x"}
    assert failures(apply("MaskField$Value", config, group(column(None, [{"a": True}])))) == {
        100: "Cannot mask value of type class java.lang.Boolean with custom replacement."
    }
    assert failures(apply("MaskField$Value", config, group(column(None, [{"a": 1}])))) == {
        100: "Unable to convert x (class java.lang.String) to a number"
    }
    assert failures(apply("MaskField$Value", {"fields": "a"}, group(column(None, [{"a": b"x"}])))) == {
        100: "Cannot mask value of type: class [B"
    }


# SetSchemaMetadata


def test_set_schema_metadata_renames_the_schema() -> None:
    renamed = only(apply("SetSchemaMetadata$Value", {"schema.name": "N", "schema.version": "4"}, group(users())))
    assert renamed.value.schema == dataclasses.replace(USER, name="N", version=4)


def test_set_schema_metadata_needs_a_schema() -> None:
    result = apply("SetSchemaMetadata$Value", {"schema.name": "N"}, group(column(None, [{"a": 1}])))
    assert failures(result) == {100: "Schema required for [updating schema metadata]"}
    with pytest.raises(ConfigException, match="Neither schema name nor version configured"):
        plugin("SetSchemaMetadata$Value", {})


# Flatten


def test_flatten_names_fields_by_their_path() -> None:
    flat = only(apply("Flatten$Value", {"delimiter": "_"}, group(users())))
    assert flat.value.values.to_pylist() == [
        {"id": 1, "name": "Ada", "address_city": "London", "address_zip": 7},
        {"id": 2, "name": None, "address_city": None, "address_zip": None},
    ]
    assert flat.value.schema is not None
    city = flat.value.schema.field("address_city")
    assert city is not None
    assert city.schema.is_optional, "the struct around it was"


def test_flatten_splits_maps_where_some_are_null() -> None:
    result = apply("Flatten$Value", {}, group(column(None, [{"a": {"b": 1, "c": {"d": 2}}}, {"a": None}])))
    assert values(result) == [{"a.b": 1, "a.c.d": 2}, {"a": None}]


def test_flatten_refuses_maps_with_a_schema_and_names_that_meet() -> None:
    tags = Schema(Type.MAP, key_schema=connect.STRING, value_schema=connect.STRING)
    result = apply("Flatten$Value", {}, group(column(struct({"tags": tags}), [{"tags": [("a", "b")]}])))
    assert failures(result) == {
        100: "Flatten transformation does not support MAP for record with schemas (for field tags)."
    }
    twice = struct({"a.b": connect.INT32, "a": struct({"b": connect.INT32})})
    result = apply("Flatten$Value", {}, group(column(twice, [{"a.b": 1, "a": {"b": 2}}])))
    assert failures(result) == {100: "Cannot create field because of field name duplication a.b"}
