"""Our converters against Kafka's own, on random records: equal results, or equal errors."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pytest

from penstock.connect.converters.configured import resolve
from penstock.connect.converters.converter import FromTopic
from penstock.connect.converters.kinds import HEADER_KINDS, KINDS, SIMPLE_HEADER_CONVERTER
from penstock.connect.data.records import Column
from penstock.connect.data.schema import Schema
from penstock.testing.java import JavaMissingError
from tests.conftest import optional_part_missing
from tests.connect_differential.converters import random_records
from tests.connect_differential.converters.kafka_converters import KafkaConverters, json_schema, tagged, unordered

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
STRING: Final = "org.apache.kafka.connect.storage.StringConverter"
SIMPLE: Final = (
    *(
        f"org.apache.kafka.connect.converters.{name}Converter"
        for name in ("Boolean", "ByteArray", "Double", "Float", "Integer", "Long", "Short")
    ),
    STRING,
)
"""Those of Kafka's jars that need no configuration; our table may have more."""
COUNT: Final = 1500


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaConverters]:
    try:
        converters = KafkaConverters()
    except JavaMissingError as missing:
        optional_part_missing(str(missing))
    with converters:
        yield converters


def ours_to_connect(
    java_class: str, config: Mapping[str, str], payloads: Sequence[bytes | None], *, header: bool = False
) -> list[dict[str, Any]]:
    array = pa.array(payloads, pa.binary())
    if header:
        header_converter = resolve(HEADER_KINDS[java_class])()
        header_converter.configure(config)
        return answers(header_converter.to_connect("name", array), len(payloads))
    converter = resolve(KINDS[java_class])()
    converter.configure(config, is_key=False)
    return answers(converter.to_connect(pa.array(["topic"] * len(payloads)), array), len(payloads))


def answers(converted: FromTopic, count: int) -> list[dict[str, Any]]:
    """In the form of the driver's."""
    found: dict[int, dict[str, Any]] = {}
    for group in converted.groups:
        group.column.values.validate(full=True)
        schema = group.column.schema
        for row, value in zip(group.rows.to_pylist(), group.column.values.to_pylist(), strict=True):
            assert row not in found
            found[row] = {"schema": json_schema(schema), "value": tagged(schema, value)}
    for failure in converted.failures:
        for row in failure.rows:
            assert row not in found
            found[row] = {"error": failure.java_class, "message": failure.message}
    return [found[row] for row in range(count)]


def ours_from_connect(
    java_class: str, config: Mapping[str, str], values: Sequence[tuple[Schema | None, Any]], *, header: bool = False
) -> list[bytes | tuple[str, str] | None]:
    from penstock.connect.converters.json.shapes import sort_by_shape

    converter: Any = resolve((HEADER_KINDS if header else KINDS)[java_class])()
    results: list[bytes | tuple[str, str] | None] = []
    if header:
        converter.configure(config)
    else:
        converter.configure(config, is_key=False)
    for schema, value in values:
        array = sort_by_shape([value])[0].array if schema is None else pa.array([value], schema.arrow_type)
        first: Any = "name" if header else pa.array(["topic"])
        written = converter.from_connect(first, Column(schema, array))
        if written.failures:
            results.append((written.failures[0].java_class, written.failures[0].message))
        else:
            results.append(written.payloads[0].as_py())
    return results


def assert_equal(inputs: Sequence[Any], ours: Sequence[Any], kafkas: Sequence[Any]) -> None:
    different = [(given, our, theirs) for given, our, theirs in zip(inputs, ours, kafkas, strict=True) if our != theirs]
    shown = "\n".join(f"input {given!r}\n  ours  {our}\n  Kafka {theirs}" for given, our, theirs in different[:5])
    assert not different, f"{len(different)} of {len(inputs)} differ:\n{shown}"


def without_order(results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**each, "value": unordered(each["value"])} if "value" in each else dict(each) for each in results]


def parsed(payload: bytes | tuple[str, str] | None) -> Any:
    """Objects without their order: Kafka's maps have none."""
    try:
        return json.loads(payload) if isinstance(payload, bytes) else payload
    except ValueError:
        return payload


@pytest.mark.parametrize("seed", range(2))
def test_json_without_schemas_is_read_alike(kafka: KafkaConverters, seed: int) -> None:
    chance = random.Random(seed)
    config = {"schemas.enable": "false"}
    payloads: list[bytes | None] = [
        None,
        b"",
        b" ",
        b"null",
        b"\xef\xbb\xbf{}",
        '{"a":1}'.encode("utf-16"),
        b"007",
        b"1 2",
    ]
    payloads += [
        '{"a":[1]}'.encode("utf-32-be"),
        b'"\\ud800"',
        b'{"a":"\xff"}',
        b'{"a":1}\xff',
        b"1\xff",
        b"true\xff",
        b"[01,-02.50,1e007]",
        b"[" * 1001 + b"]" * 1001,
    ]
    for _ in range(COUNT):
        payload = random_records.value_json(chance, 3).encode()
        payloads.append(random_records.damaged(chance, payload) if chance.random() < 0.4 else payload)
    ours = ours_to_connect(JSON, config, payloads)
    assert_equal(payloads, without_order(ours), without_order(kafka.to_connect(JSON, config, payloads)))


def test_objects_that_look_alike_are_read_alike(kafka: KafkaConverters) -> None:
    chance = random.Random(11)
    config = {"schemas.enable": "false"}
    payloads = [
        '{{"id":{},"name":{},"list":{}}}'.format(*(random_records.value_json(chance, depth) for depth in (0, 0, 1)))
        for _ in range(COUNT)
    ]
    payloads[COUNT // 2] = '{"id":1,"id":2,"list":3,"name":4,"more":5}'
    payloads[COUNT // 2 + 1] = '{"id":1}'
    encoded = [payload.encode() for payload in payloads]
    ours = ours_to_connect(JSON, config, encoded)
    assert_equal(payloads, without_order(ours), without_order(kafka.to_connect(JSON, config, encoded)))


@pytest.mark.parametrize("wrong", [0.0, 0.1])
@pytest.mark.parametrize("replace", ["true", "false"])
def test_json_with_schemas_is_read_alike(kafka: KafkaConverters, wrong: float, replace: str) -> None:
    chance = random.Random(f"{wrong} {replace}")
    config = {"replace.null.with.default": replace}
    payloads: list[bytes | None] = [None]
    for _ in range(COUNT // 10):
        schema = random_records.random_schema(chance)
        written = json.dumps(json_schema(schema), ensure_ascii=False).encode()
        for _ in range(10):
            content = random_records.payload_json(chance, schema, wrong).encode()
            payload = b'{"schema":' + written + b', "payload": ' + content + b"}"
            payloads.append(random_records.damaged(chance, payload) if chance.random() < wrong else payload)
    ours = without_order(ours_to_connect(JSON, config, payloads))
    theirs = without_order(kafka.to_connect(JSON, config, payloads))
    assert_equal(*without_foreign_scales(payloads, ours, theirs))


def without_foreign_scales(
    payloads: Sequence[Any], ours: Sequence[Any], theirs: Sequence[Any]
) -> tuple[list[Any], list[Any], list[Any]]:
    """Kafka keeps the scale of a JSON number, and refuses it when it writes; ours has the scale of the schema."""
    kept = [
        number
        for number, (our, their) in enumerate(zip(ours, theirs, strict=True))
        if not ("error" not in their and "scale" in our.get("message", "")) and _scales(our) == _scales(their)
    ]
    assert len(kept) > 0.5 * len(ours)
    return [payloads[n] for n in kept], [ours[n] for n in kept], [theirs[n] for n in kept]


def _scales(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [scale for member in value.values() for scale in _scales(member)]
    if isinstance(value, list):
        return sorted(scale for member in value for scale in _scales(member))
    return [value.split(" ")[1]] if isinstance(value, str) and value.startswith("D") and " " in value else []


def test_damaged_schemas_fail_alike(kafka: KafkaConverters) -> None:
    chance = random.Random(3)
    payloads: list[bytes | None] = []
    for _ in range(COUNT):
        schema = json_schema(random_records.random_schema(chance))
        _damage_schema(chance, schema)
        content = json.dumps(schema).encode()
        payloads.append(b'{"schema":' + content + b',"payload":' + chance.choice((b"null", b"{}", b"[]", b"1")) + b"}")
    ours = without_order(ours_to_connect(JSON, {}, payloads))
    assert_equal(*without_foreign_scales(payloads, ours, without_order(kafka.to_connect(JSON, {}, payloads))))


def _damage_schema(chance: random.Random, schema: dict[str, Any]) -> None:
    name = chance.choice([*schema, "default"])
    if isinstance(schema.get(name), dict) and "type" in schema[name]:
        _damage_schema(chance, schema[name])
    elif name == "fields" and schema["fields"] and chance.random() < 0.6:
        field = chance.choice(schema["fields"])
        if chance.random() < 0.2:
            schema["fields"].append(field)
        else:
            _damage_schema(chance, field)
    elif chance.random() < 0.4:
        schema.pop(name, None)
    else:
        schema[name] = chance.choice((None, 1, "x", True, [], {}, "struct", "array", {"k": 1}))


@pytest.mark.parametrize("schemas_enable", ["true", "false"])
@pytest.mark.parametrize("decimal_format", ["BASE64", "NUMERIC"])
def test_json_is_written_alike(kafka: KafkaConverters, schemas_enable: str, decimal_format: str) -> None:
    chance = random.Random(f"{schemas_enable} {decimal_format}")
    config = {"schemas.enable": schemas_enable, "decimal.format": decimal_format}
    values: list[tuple[Schema | None, Any]] = [(None, None)]
    for _ in range(COUNT // 5):
        schema = random_records.random_schema(chance)
        values += [(schema, random_records.random_value(chance, schema)) for _ in range(3)]
        values.append((None, json.loads(random_records.value_json(chance), parse_int=lambda text: int(text) % 2**62)))
    ours = ours_from_connect(JSON, config, values)
    theirs = kafka.from_connect(JSON, config, values)
    values, ours, theirs = possible(values, ours, theirs)
    has_order = [_has_order(schema) for schema, _value in values]
    assert_equal(
        values,
        [each if ordered else parsed(each) for each, ordered in zip(ours, has_order, strict=True)],
        [each if ordered else parsed(each) for each, ordered in zip(theirs, has_order, strict=True)],
    )


def _has_order(schema: Schema | None) -> bool:
    if schema is None or schema.key_schema is not None:
        return False
    if schema.value_schema is not None:
        return _has_order(schema.value_schema)
    return all(_has_order(field.schema) for field in schema.fields)


def test_schema_content_is_used_alike(kafka: KafkaConverters) -> None:
    chance = random.Random(5)
    for _ in range(20):
        schema = random_records.random_schema(chance)
        config = {"schema.content": json.dumps(json_schema(schema))}
        payloads: list[bytes | None] = [None, b"", b"{}", b"["]
        payloads += [random_records.payload_json(chance, schema, 0.1).encode() for _ in range(20)]
        ours = without_order(ours_to_connect(JSON, config, payloads))
        theirs = without_order(kafka.to_connect(JSON, config, payloads))
        assert_equal(*without_foreign_scales(payloads, ours, theirs))


@pytest.mark.parametrize("java_class", SIMPLE, ids=lambda name: str(name).rpartition(".")[2])
@pytest.mark.parametrize("header", [False, True])
def test_simple_converters_agree(kafka: KafkaConverters, java_class: str, header: bool) -> None:
    chance = random.Random(java_class)
    payloads: list[bytes | None] = [
        None,
        b"",
        b"\0",
        b"\1",
        b"\2",
        b"text",
        "Grüße".encode(),
        b"\xff\xfe",
        b"\xed\xa0\x80",
    ]
    payloads += [
        chance.randbytes(size) for size in (1, 2, 4, 8, 8, 4, 2, 3, 9) for _ in range(20) if java_class != STRING
    ]
    ours = ours_to_connect(java_class, {}, payloads, header=header)
    assert_equal(payloads, ours, kafka.to_connect(java_class, {}, payloads, header=header))
    values: list[tuple[Schema | None, Any]] = [(None, None), (None, 5), (None, "x"), (None, True), (None, 1.5)]
    values += [(None, [1, "x", None]), (None, {"a": 1}), (None, 1e20)]
    for _ in range(300):
        schema = random_records.random_schema(chance)
        values.append((schema, random_records.random_value(chance, schema, nulls=chance.random() < 0.2)))
    if java_class == STRING:
        # Java's text of a byte array is its address, and that of a map has no order.
        values = [(schema, value) for schema, value in values if _has_text(schema)]
    ours_written = ours_from_connect(java_class, {}, values, header=header)
    assert_equal(*possible(values, ours_written, kafka.from_connect(java_class, {}, values, header=header)))


def _has_text(schema: Schema | None) -> bool:
    if schema is None:
        return True
    is_plain_bytes = schema.arrow_type == pa.binary() and schema.name != "org.apache.kafka.connect.data.Decimal"
    if is_plain_bytes or schema.key_schema is not None:
        return False
    if schema.value_schema is not None:
        return _has_text(schema.value_schema)
    return all(_has_text(field.schema) for field in schema.fields)


@pytest.mark.parametrize("seed", range(2))
def test_header_values_are_guessed_alike(kafka: KafkaConverters, seed: int) -> None:
    chance = random.Random(seed)
    payloads: list[bytes | None] = [None, b"", b"\xff", b"[1,[2]]", b"{1:2}"]
    payloads += [random_records.header_text(chance).encode() for _ in range(COUNT)]
    ours = ours_to_connect(SIMPLE_HEADER_CONVERTER, {}, payloads, header=True)
    theirs = kafka.to_connect(SIMPLE_HEADER_CONVERTER, {}, payloads, header=True)
    matching = [number for number, answer in enumerate(theirs) if _matches_its_schema(answer)]
    assert len(matching) > 0.8 * len(payloads)
    assert_equal(
        [payloads[number] for number in matching],
        without_order([ours[number] for number in matching]),
        without_order([theirs[number] for number in matching]),
    )


def _matches_its_schema(answer: Mapping[str, Any]) -> bool:
    """Kafka gives elements that have different schemas the last one, and elements without a common one none at all."""
    return "error" in answer or _fits(answer["schema"], answer["value"])


_TAGS: Final = {
    "int8": "b", "int16": "s", "int32": "iT", "int64": "lT", "float": "f", "double": "d", "boolean": "z", "string": "t",
    "bytes": "xD", "array": "L", "map": "M",
}  # fmt: skip


def _fits(schema: Mapping[str, Any] | None, value: Any) -> bool:
    if value is None:
        return True
    if schema is None:
        return False
    if value[0] == "L":
        return all(_fits(schema["items"], member) for member in value[1:])
    if value[0] == "M":
        return all(_fits(schema["keys"], key) and _fits(schema["values"], member) for key, member in value[1:])
    if schema.get("name", "").endswith(("Date", "Time", "Timestamp")) != (value[0] == "T"):
        return False
    if value[0] == "D":
        return bool(value.split(" ")[1] == schema["parameters"]["scale"])
    if value[0] == "T" and schema["name"].endswith("Date"):
        return int(value[1:]) % 86_400_000 == 0
    if value[0] == "T" and schema["name"].endswith("Time"):
        return int(value[1:]) < 2**31
    return value[0] in _TAGS.get(str(schema["type"]), "")


def test_header_values_are_written_alike(kafka: KafkaConverters) -> None:
    chance = random.Random(7)
    values: list[tuple[Schema | None, Any]] = [(None, 5), (None, "x"), (None, [1, "x", {"a": None}]), (None, 1e20)]
    for _ in range(COUNT):
        schema = random_records.random_schema(chance)
        value = random_records.random_value(chance, schema)
        if _has_single_entries(value):
            values.append((schema, value))
    ours = ours_from_connect(SIMPLE_HEADER_CONVERTER, {}, values, header=True)
    assert_equal(*possible(values, ours, kafka.from_connect(SIMPLE_HEADER_CONVERTER, {}, values, header=True)))


def _has_single_entries(value: Any) -> bool:
    """Whether no map in it has two entries, whose order Java does not say."""
    if isinstance(value, dict):
        return all(map(_has_single_entries, value.values()))
    if isinstance(value, list) and len(value) > 1 and isinstance(value[0], tuple):
        return False
    return not isinstance(value, list | tuple) or all(map(_has_single_entries, value))


def possible(
    values: Sequence[tuple[Schema | None, Any]], ours: Sequence[Any], theirs: Sequence[Any]
) -> tuple[list[Any], list[Any], list[Any]]:
    """Without the values that Java's Struct refuses before a converter sees them."""
    kept = [
        number
        for number, each in enumerate(theirs)
        if not (isinstance(each, tuple) and each[1].startswith("Invalid value: null used for required"))
    ]
    assert len(kept) > 0.8 * len(values)
    return [values[n] for n in kept], [ours[n] for n in kept], [theirs[n] for n in kept]
