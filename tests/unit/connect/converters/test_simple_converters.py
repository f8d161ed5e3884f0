"""Texts, bytes, numbers, booleans and header values, and which converters a connector has."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pytest

from penstock.connect.config.definition import ConfigException
from penstock.connect.converters.configured import converters_of, resolve
from penstock.connect.converters.kinds import HEADER_KINDS, KINDS, SIMPLE_HEADER_CONVERTER
from penstock.connect.converters.simple_header import SimpleHeaderConverter
from penstock.connect.data import schema as schemas
from penstock.connect.data.records import Column
from penstock.connect.data.schema import INT32, STRING, Schema, Type, struct

PACKAGE: Final = "org.apache.kafka.connect.converters"
STRING_CONVERTER: Final = "org.apache.kafka.connect.storage.StringConverter"
TOPICS: Final = pa.array(["t"])


def made(java_class: str, **config: str) -> Any:
    converter = resolve(KINDS[java_class])()
    converter.configure({name.replace("_", "."): value for name, value in config.items()}, is_key=False)
    return converter


@pytest.mark.parametrize(
    ("name", "payload", "value"),
    [
        ("Short", b"\xff\xfe", -2),
        ("Integer", b"\0\0\1\0", 256),
        ("Long", b"\0\0\0\0\0\0\0\1", 1),
        ("Float", b"\x3f\x80\0\0", 1.0),
        ("Double", b"\x3f\xf0\0\0\0\0\0\0", 1.0),
        ("Boolean", b"\1", True),
        ("ByteArray", b"\xff", b"\xff"),
    ],
)
def test_values_of_fixed_size(name: str, payload: bytes, value: object) -> None:
    converter = made(f"{PACKAGE}.{name}Converter")
    payloads = pa.array([None, payload], pa.binary())
    (group,) = converter.to_connect(TOPICS, payloads).groups
    assert group.column.schema.is_optional
    assert group.column.values.to_pylist() == [None, value]
    assert converter.from_connect(TOPICS, group.column).payloads.to_pylist() == [None, payload]


def test_payloads_of_another_size_fail() -> None:
    converted = made(f"{PACKAGE}.IntegerConverter").to_connect(TOPICS, pa.array([b"\0", b"\0\0\0\7", b""], pa.binary()))
    assert converted.groups[0].rows.to_pylist() == [1]
    assert [(list(each.rows), each.message) for each in converted.failures] == [
        ([0, 2], "Failed to deserialize integer: ")
    ]


def test_values_of_another_class_fail() -> None:
    written = made(f"{PACKAGE}.IntegerConverter").from_connect(TOPICS, Column(STRING, pa.array(["x", None])))
    assert [(list(each.rows), each.message) for each in written.failures] == [
        ([0], "Failed to serialize to integer (was class java.lang.String): ")
    ]
    written = made(f"{PACKAGE}.ByteArrayConverter").from_connect(TOPICS, Column(INT32, pa.array([1], pa.int32())))
    assert written.failures[0].message == "Invalid schema type for ByteArrayConverter: INT32"


def test_texts_in_an_encoding() -> None:
    converter = made(STRING_CONVERTER, converter_encoding="ISO-8859-1")
    (group,) = converter.to_connect(TOPICS, pa.array([b"\xfc"], pa.binary())).groups
    assert group.column.values.to_pylist() == ["ü"]
    assert converter.from_connect(TOPICS, group.column).payloads.to_pylist() == [b"\xfc"]
    with pytest.raises(ConfigException):
        made(STRING_CONVERTER, converter_encoding="klingon")


def test_other_values_are_written_as_java_shows_them() -> None:
    schema = struct({"id": INT32, "note": STRING.optional(), "list": Schema(Type.ARRAY, value_schema=INT32)})
    array = pa.array([{"id": 1, "note": None, "list": [1, 2]}], schema.arrow_type)
    written = made(STRING_CONVERTER).from_connect(TOPICS, Column(schema, array))
    assert written.payloads.to_pylist() == [b"Struct{id=1,list=[1, 2]}"]


def test_dates_without_a_schema_are_written_as_java_shows_them() -> None:
    dates = Column(None, pa.array([1_566_570_894_346, None], pa.timestamp("ms")))
    written = made(STRING_CONVERTER).from_connect(TOPICS, dates)
    assert written.payloads.to_pylist() == [b"Fri Aug 23 14:34:54 UTC 2019", None]
    headers = SimpleHeaderConverter().from_connect("h", dates)
    assert headers.payloads[0].as_py() == b"2019-08-23T14:34:54.346Z"
    written = made(f"{PACKAGE}.BooleanConverter").from_connect(TOPICS, dates)
    assert [(list(each.rows), each.message) for each in written.failures] == [
        ([0], "BooleanConverter is not compatible with objects of type class java.util.Date")
    ]


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("127", schemas.INT8, 127),
        ("128", schemas.INT16, 128),
        ("-32769", schemas.INT32, -32769),
        ("2147483648", schemas.INT64, 2**31),
        ("1.5", schemas.FLOAT32, 1.5),
        ("true", schemas.BOOLEAN, True),
        ("true!", STRING, "true!"),
        ("", STRING, ""),
        ("trace-17", STRING, "trace-17"),
        ("2019-08-23", schemas.date(), 18131),
        ("14:34:54.346Z", schemas.time(), 52_494_346),
        ("2019-08-23T14:34:54.346Z", schemas.timestamp(), 1_566_570_894_346),
        ("[1,300]", Schema(Type.ARRAY, value_schema=schemas.INT16), [1, 300]),
        ('{"a":1}', Schema(Type.MAP, key_schema=STRING, value_schema=schemas.INT8), [("a", 1)]),
        ("[1,null]", STRING, "[1,null]"),
        ("[1", STRING, "[1"),
    ],
)
def test_headers_are_guessed(text: str, schema: Schema, value: object) -> None:
    converter = SimpleHeaderConverter()
    (group,) = converter.to_connect("h", pa.array([text.encode()], pa.binary())).groups
    assert group.column.schema == schema
    assert group.column.values.to_pylist() == [value]
    assert converter.from_connect("h", group.column).payloads.to_pylist() == [text.encode()]


def test_headers_of_different_kinds_are_different_groups() -> None:
    payloads = pa.array([b"1", b"x", None, b"null", b"2", b"x"], pa.binary())
    groups = SimpleHeaderConverter().to_connect("h", payloads).groups
    assert sorted((group.rows.to_pylist(), group.column.values.to_pylist()) for group in groups) == [
        ([0, 4], [1, 2]),
        ([1, 5], ["x", "x"]),
        ([2, 3], [None, None]),
    ]


def test_every_kind_can_be_made() -> None:
    for java_class, target in KINDS.items():
        resolve(target)().configure({}, is_key=True)
        resolve(HEADER_KINDS[java_class])().configure({})


def test_a_connectors_converter_has_the_connectors_properties_only() -> None:
    worker = {
        "key.converter": STRING_CONVERTER,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }
    plain = converters_of({}, worker)
    assert plain.header_class == SIMPLE_HEADER_CONVERTER
    (group,) = plain.value.to_connect(TOPICS, pa.array([b"1"], pa.binary())).groups
    assert group.column.schema is None
    own = converters_of({"value.converter": "JsonConverter", "header.converter": STRING_CONVERTER}, worker)
    assert own.value.to_connect(TOPICS, pa.array([b"1"], pa.binary())).failures
    assert (own.value_class, own.header_class) == ("org.apache.kafka.connect.json.JsonConverter", STRING_CONVERTER)


@pytest.mark.parametrize("config", [{}, {"key.converter": "com.example.Unknown"}])
def test_converters_must_be_known(config: dict[str, str]) -> None:
    with pytest.raises(ConfigException, match=r"key\.converter"):
        converters_of(config, {})
