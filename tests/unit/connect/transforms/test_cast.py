from __future__ import annotations

import dataclasses
import math

import pyarrow as pa
import pytest

from penstock.connect.config.definition import ConfigException
from penstock.connect.data import schema as connect
from penstock.connect.data.schema import Schema, Type, struct
from penstock.connect.transforms.java.casting import cast
from tests.unit.connect.transforms.record_groups import apply, column, failures, group, only, plugin, values

ROW = struct({"id": connect.INT64, "price": connect.FLOAT64.optional(), "text": connect.STRING.optional()}, name="Row")


def test_fields_get_the_new_type_and_lose_nothing_else() -> None:
    records = group(column(ROW, [{"id": 300, "price": 1.5, "text": "7"}, {"id": -1, "price": None, "text": None}]))
    cast_group = only(apply("Cast$Value", {"spec": "id:int8,price:string,text:int32"}, records))
    assert cast_group.value.values.to_pylist() == [
        {"id": 44, "price": "1.5", "text": 7},
        {"id": -1, "price": None, "text": None},
    ]
    schema = cast_group.value.schema
    assert schema is not None
    assert schema.name == "Row"
    assert [(field.schema.type, field.schema.is_optional) for field in schema.fields] == [
        (Type.INT8, False),
        (Type.STRING, True),
        (Type.INT32, True),
    ]


def test_a_text_that_is_no_number_fails_its_record_only() -> None:
    records = group(
        column(ROW, [{"id": 1, "text": "12"}, {"id": 2, "text": "twelve"}, {"id": 3, "text": "99999999999"}])
    )
    result = apply("Cast$Value", {"spec": "text:int32"}, records)
    assert [value["text"] for value in values(result)] == [12]
    assert failures(result) == {
        101: "Value (twelve) was out of range for requested data type",
        102: "Value (99999999999) was out of range for requested data type",
    }
    assert {failure.java_class for failure in result.failures} == {"org.apache.kafka.connect.errors.DataException"}


def test_maps_without_schema_get_keys_that_were_missing() -> None:
    result = apply("Cast$Value", {"spec": "a:string,missing:int8"}, group(column(None, [{"a": 1.0}, {"a": None}])))
    assert values(result) == [{"a": "1.0", "missing": None}, {"a": None, "missing": None}]


def test_a_default_is_cast_and_takes_the_place_of_null() -> None:
    with_default = dataclasses.replace(connect.INT32, default=5)
    records = group(column(struct({"a": with_default}), [{"a": None}]))
    cast_group = only(apply("Cast$Value", {"spec": "a:string"}, records))
    assert cast_group.value.values.to_pylist() == [{"a": "5"}]
    assert cast_group.value.schema is not None
    assert cast_group.value.schema.fields[0].schema.default == "5"
    refused = apply("Cast$Value", {"spec": "a:string", "replace.null.with.default": "false"}, records)
    assert failures(refused) == {100: 'Invalid value: null used for required field: "a", schema type: STRING'}


def test_a_whole_key_is_cast_and_tombstones_pass() -> None:
    records = group(column(None, ["x", "y"]), key=column(connect.STRING.optional(), ["17", None]))
    result = apply("Cast$Key", {"spec": "int64"}, records)
    assert [each.key.schema for each in result.groups] == [connect.INT64.optional(), connect.STRING.optional()]
    assert [each.key.values.to_pylist() for each in result.groups] == [[17], [None]]


@pytest.mark.parametrize(
    ("number", "target", "expected"),
    [
        (300.7, Type.INT8, 44),
        (1e19, Type.INT64, 2**63 - 1),
        (-1e19, Type.INT32, -(2**31)),
        (math.nan, Type.INT16, 0),
        (1e10, Type.STRING, "1.0E10"),
        (0.00025, Type.STRING, "2.5E-4"),
        (-0.0, Type.STRING, "-0.0"),
        (0.4, Type.BOOLEAN, False),
        (math.inf, Type.STRING, "Infinity"),
    ],
)
def test_floating_point_numbers_become_what_java_makes_of_them(number: float, target: Type, expected: object) -> None:
    assert cast(pa.array([number]), connect.FLOAT64, target).values.to_pylist() == [expected]


@pytest.mark.parametrize(
    ("text", "expected"), [(" 2.5 ", 2.5), ("1.5f", 1.5), ("0x1p3", 8.0), ("-Infinity", -math.inf), ("1_0", None)]
)
def test_texts_are_read_as_java_reads_numbers(text: str, expected: float | None) -> None:
    assert cast(pa.array([text]), connect.STRING, Type.FLOAT64).values.to_pylist() == [expected]


def test_logical_types_are_cast_by_their_meaning() -> None:
    stamps = pa.array([0, 86_400_000, 1_709_210_096_789])
    texts = cast(stamps, connect.timestamp(), Type.STRING).values.to_pylist()
    assert texts == ["00:00:00.000Z", "1970-01-02", "2024-02-29T12:34:56.789Z"]
    price = pa.array([(-12345).to_bytes(3, "big", signed=True)])
    assert cast(price, connect.decimal(2), Type.STRING).values.to_pylist() == ["-123.45"]
    assert cast(price, connect.decimal(2), Type.INT8).values.to_pylist() == [-123]


def test_lists_cannot_be_cast() -> None:
    result = apply("Cast$Value", {"spec": "a:int8"}, group(column(None, [{"a": [1]}])))
    assert failures(result)[100].startswith(
        "Cast transformation does not support casting from ARRAY; supported types are ["
    )


def test_fields_of_something_else_than_a_struct_cannot_be_cast() -> None:
    result = apply("Cast$Value", {"spec": "a:int8"}, group(column(connect.INT32, [1])))
    assert failures(result) == {100: "Cannot list fields on non-struct type"}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("", "Must specify at least one field to cast."),
        ("a:bytes", "Cast transformation does not support casting to BYTES; supported types are "),
        (
            "int8,a:int8",
            "Cast transformations that specify a type to cast the entire value to may only specify a single",
        ),
        ("a:b:c", "Invalid value [a:b:c] for configuration renames: Invalid rename mapping: a:b:c"),
    ],
)
def test_bad_specifications_are_refused(spec: str, message: str) -> None:
    with pytest.raises(ConfigException) as refused:
        plugin("Cast$Value", {"spec": spec})
    assert str(refused.value).startswith(message)


def test_whole_structs_cannot_be_cast() -> None:
    schema = Schema(Type.STRUCT, fields=ROW.fields)
    result = apply("Cast$Value", {"spec": "string"}, group(column(schema, [{"id": 1}])))
    assert failures(result)[100].startswith("Cast transformation does not support casting from STRUCT")
