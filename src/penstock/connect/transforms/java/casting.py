"""Casts of whole columns between Connect's primitive types, with Java's rules for numbers.

Integers wrap when they narrow, floating-point numbers saturate when they become integers, texts are parsed as Java
parses them. Owns these rules. It must not know records.
"""

from __future__ import annotations

import base64
import decimal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.connect.data.java_objects import decimal_of, decimal_text
from penstock.connect.data.schema import DATE, DECIMAL, DECIMAL_SCALE, TIME, TIMESTAMP, Schema, Type
from penstock.connect.data.text_columns import float_texts
from penstock.connect.transforms.java.date_format import SimpleDateFormat
from penstock.connect.transforms.java.values import class_name, schemaless_type

INTEGERS: Final[dict[Type, tuple[Any, pa.DataType]]] = {
    Type.INT8: (np.int8, pa.int8()),
    Type.INT16: (np.int16, pa.int16()),
    Type.INT32: (np.int32, pa.int32()),
    Type.INT64: (np.int64, pa.int64()),
}
FLOATS: Final[dict[Type, tuple[Any, pa.DataType]]] = {
    Type.FLOAT32: (np.float32, pa.float32()),
    Type.FLOAT64: (np.float64, pa.float64()),
}
INPUT_TYPES: Final = (*INTEGERS, *FLOATS, Type.BOOLEAN, Type.STRING, Type.BYTES)
OUTPUT_TYPES: Final = (*INTEGERS, *FLOATS, Type.BOOLEAN, Type.STRING)
Mask = npt.NDArray[np.bool_]

MILLIS_PER_DAY: Final = 86_400_000

_WHOLE_NUMBER: Final = r"^[+-]?[0-9]+$"
_PLAIN_NUMBER: Final = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"


@dataclass(frozen=True, slots=True)
class Casted:
    """`values` is null where the input was, and where the cast failed. `message` takes the index of a bad row."""

    values: pa.Array
    bad: Mask | None = None
    message: Callable[[int], str] = lambda _index: ""


def type_names(types: Sequence[Type]) -> str:
    return f"[{', '.join(each.name for each in types)}]"


def cast(values: pa.Array, schema: Schema | None, target: Type) -> Casted:
    """`schema` is that of the values; None for values without one."""
    source = schema.type if schema is not None else schemaless_type(values.type)
    present = values.is_valid().to_numpy(zero_copy_only=False)
    arrow_target = _arrow_type(target)
    if not present.any():
        return Casted(pa.nulls(len(values), arrow_target))
    java_class = class_name(schema, values.type)
    if source is None:
        why = (
            f"Cast transformation was passed a value of type class {java_class} which is not supported by Connect's "
            "data API"
        )
        return _all_bad(values, arrow_target, present, why)
    if source not in INPUT_TYPES:
        why = (
            f"Cast transformation does not support casting from {source.name}; "
            f"supported types are {type_names(INPUT_TYPES)}"
        )
        return _all_bad(values, arrow_target, present, why)
    logical = schema.name if schema is not None else None
    if logical == DECIMAL:
        assert schema is not None
        return _cast_decimals(values, schema, target)
    if logical in (DATE, TIME, TIMESTAMP) and target is Type.STRING:
        millis = pc.cast(values, pa.int64())
        return Casted(date_texts(pc.multiply(millis, MILLIS_PER_DAY) if logical == DATE else millis))
    if source is Type.BYTES:
        if target is not Type.STRING:
            return _all_bad(
                values, arrow_target, present, f"Unexpected type in Cast transformation: class {java_class}"
            )
        encoded = [None if each is None else base64.b64encode(each).decode() for each in values.to_pylist()]
        return Casted(pa.array(encoded, pa.string()))
    if source is Type.STRING:
        return _cast_texts(values, target, present)
    return Casted(_cast_numbers(values, source, target, present))


def _arrow_type(target: Type) -> pa.DataType:
    return Schema(target).arrow_type


def _all_bad(values: pa.Array, arrow_type: pa.DataType, present: Mask, why: str) -> Casted:
    return Casted(pa.nulls(len(values), arrow_type), present, lambda _index: why)


def date_texts(millis: pa.Array) -> pa.Array:
    """As Connect prints a java.util.Date: a time on the first day of 1970 and before, a date at midnight, or both."""
    is_time = pc.less(millis, MILLIS_PER_DAY)
    is_date = pa.array((millis.fill_null(0).to_numpy() % MILLIS_PER_DAY) == 0)
    times, dates, stamps = (
        SimpleDateFormat(pattern).format(millis)
        for pattern in ("HH:mm:ss.SSS'Z'", "yyyy-MM-dd", "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")
    )
    return pc.if_else(is_time, times, pc.if_else(is_date, dates, stamps))


# Numbers and booleans


def _cast_numbers(values: pa.Array, source: Type, target: Type, present: Mask) -> pa.Array:
    if target is Type.STRING:
        return float_texts(values) if source in FLOATS else pc.cast(values, pa.string())
    if source is target:
        return values
    numbers = values.fill_null(False if source is Type.BOOLEAN else 0).to_numpy(zero_copy_only=False)
    if target is Type.BOOLEAN:
        whole = saturate(numbers, np.int64) if source in FLOATS else numbers
        return pa.array(whole != 0, mask=~present)
    if target in FLOATS:
        with np.errstate(over="ignore"):
            return pa.array(numbers.astype(FLOATS[target][0]), mask=~present)
    kind = INTEGERS[target][0]
    if source in FLOATS:
        # Java narrows to int or long first, which saturates, and then wraps.
        numbers = saturate(numbers, np.int64 if target is Type.INT64 else np.int32)
    return pa.array(numbers.astype(kind), mask=~present)


def saturate(numbers: np.ndarray, kind: type[np.int32] | type[np.int64]) -> np.ndarray:
    """As Java narrows floating-point numbers: NaN is 0, and what is too large is the largest."""
    bounds = np.iinfo(kind)
    wide = np.nan_to_num(numbers.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
    above, below = wide >= float(bounds.max), wide <= float(bounds.min)
    whole = np.where(above | below, 0.0, wide).astype(np.int64)
    return np.where(above, bounds.max, np.where(below, bounds.min, whole)).astype(kind)


# Texts


def _cast_texts(values: pa.Array, target: Type, present: Mask) -> Casted:
    if target is Type.STRING:
        return Casted(values)
    if target is Type.BOOLEAN:
        return Casted(pc.equal(pc.utf8_lower(values), "true"))
    parsed, good = _parse_integers(values, target) if target in INTEGERS else _parse_floats(values, target)
    bad = present & ~good
    return Casted(
        parsed,
        bad if bad.any() else None,
        lambda index: f"Value ({values[index].as_py()}) was out of range for requested data type",
    )


def _parse_integers(values: pa.Array, target: Type) -> tuple[pa.Array, Mask]:
    kind, arrow_type = INTEGERS[target]
    # 18 digits always fit; longer ones, and digits of other scripts, are rare.
    simple = pc.and_(pc.match_substring_regex(values, _WHOLE_NUMBER), pc.less_equal(pc.utf8_length(values), 18))
    simple = simple.fill_null(False)
    digits = pc.utf8_ltrim(pc.if_else(simple, values, "0"), "+")
    numbers = pc.cast(digits, pa.int64()).to_numpy(zero_copy_only=False).copy()
    good = simple.to_numpy(zero_copy_only=False).copy()
    bounds = np.iinfo(kind)
    for index in np.flatnonzero(~good & values.is_valid().to_numpy(zero_copy_only=False)):
        text = values[index].as_py()
        unsigned = text[1:] if text[:1] in ("+", "-") else text
        if unsigned.isdecimal() and bounds.min <= int(text) <= bounds.max:
            numbers[index] = int(text)
            good[index] = True
    good &= (numbers >= bounds.min) & (numbers <= bounds.max)
    return pa.array(np.where(good, numbers, 0).astype(kind), type=arrow_type, mask=~good), good


def _parse_floats(values: pa.Array, target: Type) -> tuple[pa.Array, Mask]:
    kind, arrow_type = FLOATS[target]
    simple = pc.match_substring_regex(values, _PLAIN_NUMBER).fill_null(False)
    numbers = pc.cast(pc.if_else(simple, values, "0"), arrow_type).to_numpy(zero_copy_only=False).copy()
    good = simple.to_numpy(zero_copy_only=False).copy()
    for index in np.flatnonzero(~good & values.is_valid().to_numpy(zero_copy_only=False)):
        number = _java_float(values[index].as_py())
        if number is not None:
            with np.errstate(over="ignore"):
                numbers[index] = kind(number)
            good[index] = True
    return pa.array(numbers, type=arrow_type, mask=~good), good


def _java_float(text: str) -> float | None:
    """What Double.parseDouble accepts and Arrow does not: blanks, signs, a type suffix, hexadecimal, Infinity."""
    text = text.strip("".join(map(chr, range(33))))
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    sign = -1.0 if text[:1] == "-" else 1.0
    if unsigned in ("NaN", "Infinity"):
        return sign * float(unsigned)
    hexadecimal = unsigned[:2] in ("0x", "0X")
    if hexadecimal and "p" not in unsigned.lower():
        return None
    if not hexadecimal or "p" in unsigned.lower():
        unsigned = unsigned[:-1] if unsigned[-1:] in "fFdD" and unsigned else unsigned
    if not unsigned or not unsigned.isascii() or "_" in unsigned or unsigned[0] not in "0123456789.":
        return None
    try:
        return sign * (float.fromhex(unsigned) if hexadecimal else float(unsigned))
    except (ValueError, OverflowError):
        return None


# Decimals


def _cast_decimals(values: pa.Array, schema: Schema, target: Type) -> Casted:
    scale = int(schema.parameter(DECIMAL_SCALE) or 0)

    def convert(raw: bytes | None) -> object:
        if raw is None:
            return None
        unscaled = int.from_bytes(raw, "big", signed=True)
        if target is Type.STRING:
            return decimal_text(decimal_of(raw, schema))
        if target in FLOATS:
            with decimal.localcontext(prec=max(len(raw) * 3, 1)), np.errstate(over="ignore"):
                return FLOATS[target][0](str(decimal.Decimal(unscaled).scaleb(-scale)))
        whole = abs(unscaled) // 10**scale if scale >= 0 else abs(unscaled) * 10**-scale
        whole = -whole if unscaled < 0 else whole
        if target is Type.BOOLEAN:
            return whole & (2**64 - 1) != 0
        bits = np.dtype(INTEGERS[target][0]).itemsize * 8
        wrapped = whole & (2**bits - 1)
        return wrapped - 2**bits if wrapped >= 2 ** (bits - 1) else wrapped

    return Casted(pa.array([convert(raw) for raw in values.to_pylist()], _arrow_type(target)))
