"""Texts of whole columns are those of single values."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from penstock.connect.data import schema as schemas
from penstock.connect.data.java_objects import text_of
from penstock.connect.data.java_texts import java_texts
from penstock.connect.data.schema import (
    BOOLEAN,
    BYTES,
    FLOAT32,
    FLOAT64,
    INT8,
    INT64,
    STRING,
    Schema,
    Type,
    struct,
)

NUMBERS = [
    0.0,
    -0.0,
    1.0,
    0.001,
    9999999.0,
    1e7,
    19.5,
    -2.5e-9,
    1e300,
    math.inf,
    -math.inf,
    math.nan,
    5e-324,
    123456.75,
]
POINT = struct({"x": INT8, "name": STRING.optional(), "weight": FLOAT64.optional()})
LIST = Schema(Type.ARRAY, value_schema=POINT.optional())
MAP = Schema(Type.MAP, key_schema=STRING, value_schema=FLOAT64.optional())
DEEP = struct({"points": LIST.optional(), "sizes": MAP, "inner": POINT.optional(), "day": schemas.date()})


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        (STRING, ["a", "", "ü,\n=}"]),
        (STRING.optional(), [None, "a"]),
        (BOOLEAN, [True, False, None]),
        (INT64, [-(2**63), 0, None]),
        (FLOAT64, [*NUMBERS, None]),
        (FLOAT32, [0.1, 1e10, 3.4028234663852886e38, 1.401298464324817e-45]),
        (BYTES, [b"abcdef", b"", None]),
        (schemas.decimal(2), [b"\x01\x02", b"\xff", None]),
        (schemas.date(), [0, 19000, None]),
        (schemas.time(), [0, 86_399_999]),
        (schemas.timestamp(), [0, 1_700_000_000_000]),
        (
            POINT,
            [
                {"x": 1, "name": "p", "weight": 1.5},
                {"x": 2, "name": None, "weight": None},
                {"x": 3, "name": None, "weight": 1e9},
                None,
            ],
        ),
        (POINT, [{"x": 1, "name": "p", "weight": 1.5}, {"x": 2, "name": "q", "weight": 2.0}]),
        (struct({}), [{}, {}]),
        (LIST, [[], [{"x": 1, "name": "p", "weight": None}, None], None]),
        (MAP, [[("a", 1.0), ("b", None)], [], None]),
        (
            DEEP,
            [
                {"points": None, "sizes": [("a", 2.0)], "inner": None, "day": 1},
                {"points": [None], "sizes": [], "inner": {"x": 1, "name": "p", "weight": None}, "day": 2},
            ],
        ),
        (None, [None, None]),
        (None, [{"a": 1, "b": {"c": None, "d": [1.0, None]}}, {"a": None, "b": {"c": "x", "d": None}}]),
        (None, [["a", None], [], None]),
        (None, [{}, {}]),
    ],
)
def test_a_column_has_the_texts_of_its_values(schema: Schema | None, values: list[Any]) -> None:
    array = pa.array(values, schema.arrow_type) if schema is not None else pa.array(values)
    for part in (array, array.slice(1), array.slice(0, 1), array.slice(0, 0)):
        expected = [None if value is None else text_of(schema, value) for value in part.to_pylist()]
        assert java_texts(schema, part).to_pylist() == expected


def test_elements_of_different_kinds() -> None:
    union = pa.UnionArray.from_dense(
        pa.array([0, 1, 1], pa.int8()), pa.array([0, 0, 1], pa.int32()), [pa.array([1]), pa.array(["a", None])]
    )
    assert java_texts(None, pa.ListArray.from_arrays(pa.array([0, 3]), union)).to_pylist() == ["[1, a, null]"]


def test_bytes_as_their_reader_wants_them() -> None:
    schema = struct({"raw": BYTES, "price": schemas.decimal(1)})
    values = pa.array([{"raw": b"abc", "price": b"\x0f"}], schema.arrow_type)
    assert java_texts(schema, values, bytes_text=bytes.decode).to_pylist() == ["Struct{raw=abc,price=1.5}"]
