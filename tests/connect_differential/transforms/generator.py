"""Random groups of records, with schemas and without, that transforms may like or not."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from penstock.connect.data import schema as connect
from penstock.connect.data.records import Column, RecordGroup
from penstock.connect.data.schema import Field, Schema, Type

FIELDS: Final = ("a", "b", "c", "d", "e", "when", "nested", "a.b")
TOPICS: Final = ("orders", "orders-2024", "db.public.users", "x")
TEXTS: Final = (
    "", "1", "-7", "+5", "300", "70000", "99999999999", "9223372036854775808", "1.5", "1e3", " 2.5 ", "1.5f", "NaN",
    "-Infinity", "true", "TRUE", "no", "x", "grün", "0x1p3", "12a", "007", "2024-02-29", "2024-02-29T12:34:56.789Z",
    "2024-13-40", "20240229",
)  # fmt: skip
FLOATS: Final = (
    0.0, -0.0, 1.5, -2.75, 100.0, 1e7, 9999999.0, 0.001, 0.00025, 1e10, 1e-5, 3e9, -3e9, 1e19, -1e19, 300.7, 255.0,
    float("nan"), float("inf"), float("-inf"), 123456.789,
)  # fmt: skip
MILLIS: Final = (
    0,
    1,
    -1,
    999,
    86_399_999,
    86_400_000,
    1_709_210_096_789,
    -86_400_001,
    1_700_000_000_000,
    253_402_300_799_999,
)
PRIMITIVES: Final = (
    Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64, Type.BOOLEAN, Type.STRING, Type.BYTES,
)  # fmt: skip
SCHEMALESS: Final = (pa.null(), pa.bool_(), pa.int64(), pa.int64(), pa.float64(), pa.string(), pa.string())
RARE_SCHEMALESS: Final = (pa.int8(), pa.int32(), pa.float32(), pa.binary(), pa.timestamp("ms"))


class Generator:
    def __init__(self, seed: int, *, before_1582: bool = True) -> None:
        """Java's calendar is the Julian one before 1582, and ours is not."""
        self._lowest_int64 = -(2**63) if before_1582 else -1
        self.random = random.Random(seed)
        self._next_row = 0

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    # Schemas

    def schema(self, depth: int = 0) -> Schema:
        kind = self.random.random()
        if kind < 0.62:
            schema = Schema(self.random.choice(PRIMITIVES))
        elif kind < 0.82:
            logical = [connect.decimal(2), connect.decimal(0), connect.date(), connect.time(), connect.timestamp()]
            schema = self.random.choice(logical)
        elif kind < 0.88:
            schema = Schema(Type.ARRAY, value_schema=Schema(self.random.choice(PRIMITIVES), is_optional=True))
        elif kind < 0.9:
            schema = Schema(Type.MAP, key_schema=connect.STRING, value_schema=connect.INT32.optional())
        elif depth < 2:
            schema = self.struct_schema(depth + 1)
        else:
            schema = connect.STRING
        if self.chance(0.4):
            schema = schema.optional()
        if schema.type is not Type.STRUCT and self.chance(0.15):
            schema = replace(schema, doc="documented")
        # Kafka refuses most structs with a default: "Struct schemas do not match."
        if self.chance(0.25) and schema.type not in (Type.MAP, Type.ARRAY, Type.STRUCT):
            schema = replace(schema, default=self.value(schema, nulls=False))
        return schema

    def struct_schema(self, depth: int = 0) -> Schema:
        names = self.random.sample(FIELDS, self.random.randint(1, 6))
        fields = tuple(Field(name, self.schema(depth)) for name in names)
        schema = Schema(Type.STRUCT, fields=fields)
        if self.chance(0.5):
            schema = replace(schema, name="com.example.Value", version=self.random.choice((None, 3)))
        if self.chance(0.2):
            schema = replace(schema, doc="a value", parameters=(("p", "q"),))
        return schema.optional() if self.chance(0.4) else schema

    def value(self, schema: Schema, *, nulls: bool = True) -> Any:
        if nulls and (schema.is_optional or schema.default is not None) and self.chance(0.25):
            return None
        if schema.name == connect.TIME:
            return self.random.choice((0, 1, 86_399_999, 45_296_789))
        if schema.name == connect.DATE:
            return self.random.choice((0, 1, -1, 19782, 300))
        if schema.name == connect.TIMESTAMP:
            return self.random.choice(MILLIS)
        match schema.type:
            case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64:
                bits = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}[schema.type]
                if schema.type is Type.INT64 and self.chance(0.4):
                    return self.random.choice(MILLIS)
                lowest = self._lowest_int64 if bits == 64 else -(2 ** (bits - 1))
                return self.random.choice((0, 1, -1, 2 ** (bits - 1) - 1, lowest, self.random.getrandbits(7)))
            case Type.FLOAT32:
                return self.random.choice([each for each in FLOATS if each not in (123456.789, 0.00025, 300.7)])
            case Type.FLOAT64:
                return self.random.choice(FLOATS)
            case Type.BOOLEAN:
                return self.chance(0.5)
            case Type.STRING:
                return self.random.choice(TEXTS)
            case Type.BYTES:
                if schema.name == connect.DECIMAL:
                    number = self.random.choice((0, 1, -1, 12345, -99, 2**40, 10**20))
                    return number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)
                return self.random.choice((b"", b"abc", b"\x00\xff"))
            case Type.ARRAY:
                assert schema.value_schema is not None
                return [self.value(schema.value_schema) for _ in range(self.random.randint(0, 3))]
            case Type.MAP:
                return [("k", self.random.choice((None, 7)))] if self.chance(0.7) else []
        return {field.name: self.value(field.schema) for field in schema.fields}

    # Shapes of values without a schema

    def shape(self, depth: int = 0, *, rare: bool) -> pa.DataType:
        kind = self.random.random()
        if kind < 0.75 or depth >= 2:
            return self.random.choice(RARE_SCHEMALESS) if rare and self.chance(0.3) else self.random.choice(SCHEMALESS)
        if kind < 0.85:
            return pa.list_(self.random.choice(SCHEMALESS))
        return self.map_shape(depth + 1, rare=rare)

    def map_shape(self, depth: int = 0, *, rare: bool) -> pa.DataType:
        names = self.random.sample(FIELDS, self.random.randint(0 if depth else 1, 6))
        return pa.struct([pa.field(name, self.shape(depth, rare=rare)) for name in names])

    def plain(self, shape: pa.DataType, *, nulls: float = 0.2) -> Any:
        if pa.types.is_null(shape) or self.chance(nulls):
            return None
        if pa.types.is_struct(shape):
            return {field.name: self.plain(field.type) for field in shape}
        if pa.types.is_list(shape):
            return [self.plain(shape.value_type) for _ in range(self.random.randint(0, 3))]
        if pa.types.is_timestamp(shape):
            return self.random.choice(MILLIS)
        types = {pa.bool_(): Type.BOOLEAN, pa.int8(): Type.INT8, pa.int32(): Type.INT32, pa.int64(): Type.INT64,
                 pa.float32(): Type.FLOAT32, pa.float64(): Type.FLOAT64, pa.string(): Type.STRING,
                 pa.binary(): Type.BYTES}  # fmt: skip
        return self.value(Schema(types[shape]))

    # Records

    def column(self, count: int, *, structs: float = 0.85) -> Column:
        if self.chance(0.55):
            schema = self.struct_schema() if self.chance(structs) else self.schema()
            values = [self.value(schema, nulls=schema.is_optional) for _ in range(count)]
            return Column(schema, pa.array(values, schema.arrow_type))
        if self.chance(0.05):
            return Column(None, pa.nulls(count))
        rare = self.chance(0.3)
        shape = self.map_shape(rare=rare) if self.chance(structs) else self.shape(rare=rare)
        nulls = self.random.choice((0.0, 0.1))
        return Column(None, pa.array([self.plain(shape, nulls=nulls) for _ in range(count)], shape))

    def group(self, count: int, *, structs: float = 0.85, is_sink: bool | None = None) -> RecordGroup:
        rows = pa.array(range(self._next_row, self._next_row + count), pa.int64())
        self._next_row += count
        headers = tuple(
            (self.random.choice(("h1", "h2", "trace")), self.column(count, structs=0.2))
            for _ in range(self.random.randint(0, 2))
        )
        pick = self.random.choice
        is_sink = self.chance(0.7) if is_sink is None else is_sink
        partitions = [pick((0, 1, 7)) if is_sink or self.chance(0.5) else None for _ in range(count)]
        return RecordGroup(
            rows,
            pa.array([pick(TOPICS) for _ in range(count)], pa.string()),
            pa.array(partitions, pa.int32()),
            pa.array([None if self.chance(0.15) else pick(MILLIS) for _ in range(count)], pa.int64()),
            self.column(count, structs=structs),
            self.column(count, structs=structs),
            headers,
            pa.array(range(count), pa.int64()) if is_sink else None,
        )
