"""JsonConverter: what `tests/connect_differential` compares with Kafka's, in the cases that matter most."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pytest

from penstock.connect.config.definition import ConfigException
from penstock.connect.converters.converter import FromTopic
from penstock.connect.converters.json.converter import JsonConverter
from penstock.connect.data.records import DATA_EXCEPTION, Column
from penstock.connect.data.schema import FLOAT64, INT64, STRING, Schema, Type, decimal, struct

ORDER: Final = struct({"id": INT64, "note": STRING.optional()}, name="order")
ORDER_JSON: Final = (
    b'{"type":"struct","fields":[{"type":"int64","optional":false,"field":"id"},'
    b'{"type":"string","optional":true,"field":"note"}],"optional":false,"name":"order"}'
)
MALFORMED: Final = "Converting byte[] to Kafka Connect data failed due to serialization error: "


def converter(**config: str) -> JsonConverter:
    made = JsonConverter()
    made.configure({name.replace("_", "."): value for name, value in config.items()}, is_key=False)
    return made


def read(made: JsonConverter, payloads: Sequence[bytes | None]) -> FromTopic:
    return made.to_connect(pa.array(["t"] * len(payloads)), pa.array(payloads, pa.binary()))


def values(converted: FromTopic) -> dict[int, Any]:
    return {
        row: value
        for group in converted.groups
        for row, value in zip(group.rows.to_pylist(), group.column.values.to_pylist(), strict=True)
    }


def failed(converted: FromTopic) -> Mapping[str, list[int]]:
    assert all(failure.java_class == DATA_EXCEPTION for failure in converted.failures)
    return {failure.message: list(failure.rows) for failure in converted.failures}


def envelope(payload: bytes, schema: bytes = ORDER_JSON) -> bytes:
    return b'{"schema":' + schema + b',"payload":' + payload + b"}"


def write(made: JsonConverter, schema: Schema | None, array: pa.Array) -> list[bytes | None]:
    written = made.from_connect(pa.array(["t"] * len(array)), Column(schema, array))
    assert not written.failures
    payloads: list[bytes | None] = written.payloads.to_pylist()
    return payloads


def test_objects_with_equal_keys_are_one_group() -> None:
    converted = read(converter(schemas_enable="false"), [b'{"a":1,"b":"x"}', b'{"b":null,"a":2}'])
    (group,) = converted.groups
    assert group.column.schema is None
    assert group.column.values.type == pa.struct([("a", pa.int64()), ("b", pa.string())])
    assert values(converted) == {0: {"a": 1, "b": "x"}, 1: {"a": 2, "b": None}}


def test_a_missing_key_is_not_a_null() -> None:
    converted = read(converter(schemas_enable="false"), [b'{"a":1}', b'{"a":null}', b'{"a":2,"b":null}', b"null", None])
    assert sorted(group.rows.to_pylist() for group in converted.groups) == [[0, 1], [2], [3, 4]]
    assert values(converted)[2] == {"a": 2, "b": None}


def test_whole_numbers_and_fractions_differ() -> None:
    converted = read(converter(schemas_enable="false"), [b"1", b"1.0", b"9223372036854775808"])
    assert values(converted) == {0: 1, 1: 1.0, 2: -(2**63)}
    assert len(converted.groups) == 2


def test_lists_keep_elements_of_different_kinds() -> None:
    payload = b'{"list":[1,"x",{"a":1},{"b":[]},null,2.5]}'
    made = converter(schemas_enable="false")
    converted = read(made, [payload])
    assert values(converted)[0] == json.loads(payload)
    assert write(made, None, converted.groups[0].column.values) == [payload]


def test_damaged_json_fails_alone() -> None:
    converted = read(converter(schemas_enable="false"), [b'{"a":1}', b'{"a":', b'{"a":2} and more', b'{"a":007}', b""])
    assert values(converted) == {0: {"a": 1}, 2: {"a": 2}, 3: {"a": 7}, 4: None}
    assert failed(converted) == {MALFORMED: [1]}


def test_records_are_grouped_by_their_schema() -> None:
    number = b'{"type":"int32","optional":true}'
    payloads = [envelope(b'{"id":1,"note":"x"}'), envelope(b"7", number), envelope(b'{"id":2}'), None]
    made = converter()
    for converted in (read(made, payloads), read(pickle.loads(pickle.dumps(made)), payloads)):
        assert values(converted) == {0: {"id": 1, "note": "x"}, 1: 7, 2: {"id": 2, "note": None}, 3: None}
        assert [group.column.schema for group in converted.groups] == [ORDER, Schema(Type.INT32, True), None]


def test_equal_schemas_in_other_words_are_one_group() -> None:
    spaced = json.dumps(json.loads(ORDER_JSON), indent=1).encode()
    (group,) = read(converter(), [envelope(b'{"id":1}'), envelope(b'{"id":2}', spaced), envelope(b'{"id":3}')]).groups
    assert group.rows.to_pylist() == [0, 1, 2]
    assert group.column.values.field("id").to_pylist() == [1, 2, 3]


def test_many_schemas_in_a_batch() -> None:
    def schema(number: int) -> bytes:
        return f'{{"type":"int32","optional":true,"version":{number}}}'.encode()

    payloads = [envelope(str(number).encode(), schema(number % 40)) for number in range(200)]
    made = converter()
    for _ in range(2):
        converted = read(made, payloads)
        assert values(converted) == {number: number for number in range(200)}
        assert len(converted.groups) == 40


def test_a_shared_beginning_does_not_hide_damage() -> None:
    good = envelope(b'{"id":1}')
    payloads = [good, good[:-1], good[:-1] + b',"more":1}', envelope(b'{"id":}'), envelope(b'{"id":2}')]
    converted = read(converter(), payloads)
    assert values(converted).keys() == {0, 4}
    assert sorted(map(tuple, failed(converted).values())) == [(1, 3), (2,)]


def test_values_that_do_not_fit_fail_with_kafkas_words() -> None:
    payloads = [envelope(content) for content in (b'{"id":1}', b'{"id":null}', b"[]", b'{"id":"text"}', b'{"id":2}')]
    converted = read(converter(), payloads)
    assert values(converted) == {row: {"id": number, "note": None} for row, number in ((0, 1), (3, 0), (4, 2))}
    assert failed(converted) == {
        "Invalid null value for required INT64 field": [1],
        "Structs should be encoded as JSON objects, but found ARRAY": [2],
    }


def test_plain_json_needs_schemas_disabled() -> None:
    (message,) = failed(read(converter(), [b'{"a":1}']))
    assert message.startswith('JsonConverter with schemas.enable requires "schema" and "payload" fields')


def test_a_schema_may_come_from_the_configuration() -> None:
    made = converter(schema_content=ORDER_JSON.decode())
    (group,) = read(made, [b'{"id":1}', b'{"id":2,"note":"x"}']).groups
    assert group.column.schema == ORDER
    assert group.column.values.to_pylist() == [{"id": 1, "note": None}, {"id": 2, "note": "x"}]


@pytest.mark.parametrize(
    ("name", "value"), [("schemas_enable", "yes"), ("decimal_format", "HEX"), ("schema_content", "{")]
)
def test_wrong_properties_are_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigException):
        converter(**{name: value})


def test_defaults_replace_nulls_both_ways() -> None:
    schema = Schema(Type.INT64, is_optional=True, default=5)
    written = b'{"type":"int64","optional":true,"default":5}'
    assert values(read(converter(), [envelope(b"null", written)])) == {0: 5}
    assert write(converter(), schema, pa.array([None], pa.int64())) == [envelope(b"5", written)]
    kept = converter(replace_null_with_default="false")
    assert values(read(kept, [envelope(b"null", written)])) == {0: None}
    assert write(kept, schema, pa.array([None], pa.int64())) == [envelope(b"null", written)]


def test_records_are_written_with_their_schema() -> None:
    array = pa.array([{"id": 1, "note": 'a "quote"'}, {"id": 2, "note": None}], ORDER.arrow_type)
    assert write(converter(), ORDER, array) == [
        envelope(b'{"id":1,"note":"a \\"quote\\""}'),
        envelope(b'{"id":2,"note":null}'),
    ]


def test_nulls_without_a_schema_are_tombstones() -> None:
    array = pa.array([{"a": 1}, None], pa.struct([("a", pa.int64())]))
    assert write(converter(schemas_enable="false"), None, array) == [b'{"a":1}', None]


def test_a_forbidden_null_fails_for_its_row() -> None:
    nested = struct({"order": ORDER.optional()})
    array = pa.array([{"order": {"id": 1}}, {"order": {"id": None}}, {"order": None}], nested.arrow_type)
    written = converter(schemas_enable="false").from_connect(pa.array(["t"] * 3), Column(nested, array))
    assert written.payloads.to_pylist() == [b'{"order":{"id":1,"note":null}}', None, b'{"order":null}']
    (failure,) = written.failures
    assert list(failure.rows) == [1]
    assert failure.message == "Conversion error: null value for field that is required and has no default value"


@pytest.mark.parametrize("schemas_enable", ["true", "false"])
def test_a_date_without_a_schema_fails_for_its_row(schemas_enable: str) -> None:
    days = pa.array([0, None, 1], pa.timestamp("ms"))
    inside = pa.StructArray.from_arrays([days], ["day"], mask=pa.array([False, False, True]))
    lists = pa.array([[0, 1], None, []], pa.list_(pa.timestamp("ms")))
    for array, rows in ((days, [0, 2]), (inside, [0]), (lists, [0])):
        written = converter(schemas_enable=schemas_enable).from_connect(pa.array(["t"] * 3), Column(None, array))
        (failure,) = written.failures
        assert list(failure.rows) == rows
        assert failure.message == "Java class class java.util.Date does not have corresponding schema type."
        assert failure.java_class == DATA_EXCEPTION
        assert [row for row in rows if written.payloads[row].is_valid] == []
    assert written.payloads[2].as_py().endswith(b"[]" if schemas_enable == "false" else b"[]}")


def test_numbers_are_written_as_java_writes_them() -> None:
    array = pa.array([1.0, 0.001, 1e7, 1e-4, 123.25, -0.0, float("nan"), 5e-324])
    plain = converter(schemas_enable="false")
    assert write(plain, FLOAT64, array) == [
        *(b"1.0", b"0.001", b"1.0E7", b"1.0E-4", b"123.25", b"-0.0", b'"NaN"', b"4.9E-324"),
    ]


def test_decimals_have_two_formats() -> None:
    array = pa.array([b"\x04\xd2"], pa.binary())
    assert write(converter(schemas_enable="false"), decimal(2), array) == [b'"BNI="']
    assert write(converter(schemas_enable="false", decimal_format="numeric"), decimal(2), array) == [b"12.34"]
    written = (
        b'{"type":"bytes","optional":false,"name":"org.apache.kafka.connect.data.Decimal","version":1,'
        b'"parameters":{"scale":"2"}}'
    )
    converted = read(
        converter(), [envelope(b'"BNI="', written), envelope(b"12.34", written), envelope(b"1.5", written)]
    )
    assert values(converted) == {0: b"\x04\xd2", 1: b"\x04\xd2", 2: b"\x00\x96"}


def test_slices_of_columns_are_written() -> None:
    arrow_type = pa.struct([("m", pa.map_(pa.string(), pa.int64())), ("l", pa.list_(pa.string()))])
    array = pa.array(
        [{"m": [("x", 1)], "l": ["a"]}, {"m": [("y", 2)], "l": ["b", None]}, {"m": [], "l": []}], arrow_type
    )
    assert write(converter(schemas_enable="false"), None, array.slice(1)) == [
        b'{"m":{"y":2},"l":["b",null]}',
        b'{"m":{},"l":[]}',
    ]
