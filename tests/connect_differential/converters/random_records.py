"""Random schemas, values and JSON, right and wrong, from a seeded generator."""

from __future__ import annotations

import json
import random
import struct
from base64 import b64encode
from typing import Any, Final

from penstock.connect.data import schema as schemas
from penstock.connect.data.exact_numbers import unscaled_bytes
from penstock.connect.data.schema import Field, Schema, Type

TEXTS: Final = (
    "",
    "a",
    "plain text",
    'quote " and \\',
    "line\nbreak\ttab\x01",
    "Grüße",
    "日本",
    "\U0001f600",
    "null",
    "1",
)
NAMES: Final = ("id", "name", "amount", "nested", "list", 'odd "name"', "ü", "a.b")
UUIDS: Final = (
    "550e8400-e29b-41d4-a716-446655440000",
    "trace-17",
    "null ",
    "true\t",
    "12345678901234567890123456e1",
)
_LOGICAL: Final = (schemas.date(), schemas.time(), schemas.timestamp(), schemas.decimal(0), schemas.decimal(2))
_SIMPLE: Final = tuple(Schema(kind) for kind in Type if kind not in (Type.ARRAY, Type.MAP, Type.STRUCT))
_DAMAGE: Final = b'{}[]",:0189.eE+-nulltruefase\\ \t\n\x00'
NUMBER_TEXTS: Final = (
    "0", "-0", "1", "127", "128", "-129", "32768", "2147483648", "9223372036854775807", "9223372036854775808",
    "123456789012345678901234567890", "1.0", "-0.0", "1.5", "0.1", "1e5", "1E+2", "1e-7", "12345.678", "16777217.0",
    "1.00000017881393432617187499", "3.4e38", "1e39", "1e308", "1e309", "-1e400", "9007199254740993.0", "4.9e-324",
    "100", "0.001", "0.0009", "1e7", "9999999.0", "1.10",
)  # fmt: skip


def value_json(chance: random.Random, depth: int = 2) -> str:
    """A JSON text of any kind."""
    kind = chance.randrange(8 if depth else 5)
    match kind:
        case 0:
            return "null"
        case 1:
            return chance.choice(("true", "false"))
        case 2 | 3:
            return chance.choice(NUMBER_TEXTS)
        case 4:
            return json.dumps(chance.choice(TEXTS), ensure_ascii=chance.random() < 0.5)
        case 5:
            return "[" + ",".join(value_json(chance, depth - 1) for _ in range(chance.randrange(4))) + "]"
    names = chance.sample(NAMES, chance.randrange(4))
    return "{" + ", ".join(f"{json.dumps(name)}: {value_json(chance, depth - 1)}" for name in names) + "}"


def damaged(chance: random.Random, payload: bytes) -> bytes:
    """Bytes changed, removed, added or put behind."""
    content = bytearray(payload)
    for _ in range(chance.randrange(1, 3)):
        place = chance.randrange(len(content) + 1)
        match chance.randrange(4):
            case 0 if place < len(content):
                content[place] = chance.choice(_DAMAGE)
            case 1:
                del content[place : place + chance.randrange(1, 4)]
            case 2:
                content[place:place] = bytes([chance.choice(_DAMAGE)])
            case _:
                content += bytes([chance.choice(_DAMAGE)])
    return bytes(content)


def random_schema(chance: random.Random, depth: int = 2, *, with_default: bool = True) -> Schema:
    kind = chance.randrange(7 if depth else 4)
    if kind == 4:
        base = Schema(Type.ARRAY, value_schema=random_schema(chance, depth - 1, with_default=False))
    elif kind == 5:
        key = schemas.STRING if chance.random() < 0.7 else chance.choice((schemas.INT32, schemas.BOOLEAN))
        base = Schema(Type.MAP, key_schema=key, value_schema=random_schema(chance, depth - 1, with_default=False))
    elif kind == 6:
        fields = tuple(
            Field(name, random_schema(chance, depth - 1)) for name in chance.sample(NAMES, chance.randrange(4))
        )
        base = Schema(Type.STRUCT, fields=fields)
    else:
        base = chance.choice(_LOGICAL if kind == 3 else _SIMPLE)
    is_optional = chance.random() < 0.5
    is_logical = base.name is not None
    named = Schema(
        base.type,
        is_optional=is_optional,
        name=base.name if is_logical else chance.choice((None, None, "com.example.Name")),
        version=base.version if is_logical else chance.choice((None, None, 3)),
        doc=chance.choice((None, None, 'some "doc"')),
        parameters=base.parameters or chance.choice(((), (), (("k", "v"),))),
        fields=base.fields,
        key_schema=base.key_schema,
        value_schema=base.value_schema,
    )
    if not with_default or base.type in (Type.STRUCT, Type.MAP) or chance.random() < 0.8:
        return named
    default = random_value(chance, Schema(**{**_parts(named), "is_optional": False}), nulls=False)
    return Schema(**{**_parts(named), "default": default})


def _parts(schema: Schema) -> dict[str, Any]:
    names = ("type", "is_optional", "name", "version", "doc", "parameters", "default", "fields")
    return {name: getattr(schema, name) for name in (*names, "key_schema", "value_schema")}


def random_value(chance: random.Random, schema: Schema, *, nulls: bool = True) -> Any:
    """In the base type. With `nulls`, some of those are null that may be, and a few that may not."""
    if nulls and chance.random() < (0.2 if schema.is_optional else 0.03):
        return None
    match schema.name:
        case schemas.DATE:
            return chance.randrange(-10_000, 40_000)
        case schemas.TIME:
            return chance.randrange(86_400_000)
        case schemas.TIMESTAMP:
            return chance.randrange(-(10**12), 2 * 10**12)
        case schemas.DECIMAL:
            return unscaled_bytes(chance.choice((0, 1, -1, 127, 128, -128, -129, 12345, -(10**20), 10**30)))
    match schema.type:
        case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64:
            bits = int(schema.type.value[3:])
            return chance.choice((0, 1, -1, (1 << (bits - 1)) - 1, -(1 << (bits - 1))))
        case Type.FLOAT32:
            number = chance.choice(
                (0.0, -0.0, 1.0, 0.1, 1e7, 9999999.0, 1e-3, 1e-4, 3.4e38, 1.5, float("nan") if nulls else 2.5)
            )
            return float(struct.unpack("f", struct.pack("f", number))[0])
        case Type.FLOAT64:
            numbers = (
                0.0,
                -0.0,
                1.0,
                0.1,
                1e7,
                9999999.0,
                1e-3,
                1e-4,
                1e308,
                1.5,
                123456789.125,
                float("inf") if nulls else 2.5,
            )
            return chance.choice((*numbers, round(chance.uniform(-1e6, 1e6), 2)))
        case Type.BOOLEAN:
            return chance.random() < 0.5
        case Type.STRING:
            return chance.choice(TEXTS)
        case Type.BYTES:
            return chance.randbytes(chance.randrange(5))
        case Type.ARRAY:
            assert schema.value_schema is not None
            return [random_value(chance, schema.value_schema, nulls=nulls) for _ in range(chance.randrange(3))]
        case Type.MAP:
            assert schema.key_schema is not None
            assert schema.value_schema is not None
            # Pairs in a list have an order, which Java's maps have not.
            count = 2 if schema.key_schema.type is Type.STRING else 1
            keys = {
                repr(key): key for key in (random_value(chance, schema.key_schema, nulls=False) for _ in range(count))
            }
            return [(key, random_value(chance, schema.value_schema, nulls=nulls)) for key in keys.values()]
    return {field.name: random_value(chance, field.schema, nulls=nulls) for field in schema.fields}


def payload_json(chance: random.Random, schema: Schema, wrong: float) -> str:
    """JSON for a schema, which is of another kind in some places."""
    if chance.random() < wrong:
        return value_json(chance, 1)
    if chance.random() < (0.2 if schema.is_optional else 0.02):
        return "null"
    match schema.type:
        case _ if schema.name == schemas.DECIMAL and chance.random() < 0.5:
            return chance.choice(("1", "0", "12.34", "1.5", "-7.00", "1e2"))
        case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64 | Type.FLOAT32 | Type.FLOAT64:
            return chance.choice(NUMBER_TEXTS[:8])
        case Type.BOOLEAN:
            return chance.choice(("true", "false"))
        case Type.STRING:
            return json.dumps(chance.choice(TEXTS))
        case Type.BYTES:
            return json.dumps(b64encode(chance.randbytes(chance.randrange(1, 5))).decode())
        case Type.ARRAY:
            assert schema.value_schema is not None
            return (
                "["
                + ",".join(payload_json(chance, schema.value_schema, wrong) for _ in range(chance.randrange(3)))
                + "]"
            )
        case Type.MAP:
            assert schema.key_schema is not None
            assert schema.value_schema is not None
            items = [payload_json(chance, schema.value_schema, wrong) for _ in range(chance.randrange(3))]
            if schema.key_schema.type is Type.STRING:
                return "{" + ",".join(f'"key{number}":{item}' for number, item in enumerate(items)) + "}"
            pairs = (f"[{payload_json(chance, schema.key_schema, wrong)},{item}]" for item in items)
            return "[" + ",".join(pairs) + "]"
    present = [field for field in schema.fields if chance.random() < 0.95]
    members = (f"{json.dumps(field.name)}:{payload_json(chance, field.schema, wrong)}" for field in present)
    return "{" + ",".join(members) + "}"


def header_text(chance: random.Random, depth: int = 2) -> str:
    kind = chance.randrange(9 if depth else 7)
    match kind:
        case 0 | 1:
            return chance.choice((*NUMBER_TEXTS, "+5", "1.", ".5", "-.5", "007", "1_0", "0x10", "12345678901234567890"))
        case 2:
            return chance.choice(("true", "false", "null", " true ", "TRUE", "true}", "nullx", " null"))
        case 3:
            return chance.choice(
                ("2019-08-23", "2019-13-45", "14:34:54.346Z", "2019-08-23T14:34:54.346Z", "2019-1-1xx")
            )
        case 4:
            return json.dumps(chance.choice((*TEXTS, "2019-08-23", "14:34:54.346Z")), ensure_ascii=False)
        case 5 | 6:
            return chance.choice(
                (*TEXTS, "localhost:9092", "8080:80", "127.0.0.1", "a,b", "a\\:b", "  ", "-", "+x", *UUIDS)
            )
        case 7:
            parts = (header_text(chance, depth - 1) for _ in range(chance.randrange(4)))
            return (
                chance.choice(("[", "[", " [ "))
                + chance.choice((",", ",", ", ")).join(parts)
                + chance.choice(("]", "]", "", " ]"))
            )
    pairs = (f"{header_text(chance, 0)}:{header_text(chance, depth - 1)}" for _ in range(chance.randrange(3)))
    return "{" + ",".join(pairs) + chance.choice(("}", "}", ""))
