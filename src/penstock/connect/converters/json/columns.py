"""Whole columns of JSON values with a schema.

Columns whose values are all as their schema says are made at once. Where one value is not, the rows around it are read
one by one (`reading.py`), with exact numbers.

Owns the fast way. It must not know messages, nor envelopes.

Invariant: a column is what `value_of` would make of each value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.connect.converters.json.reading import (
    INT_RANGE,
    INTEGER_BITS,
    LOGICAL,
    MILLISECONDS_PER_DAY,
    DataError,
    base64_bytes,
    scale_of,
    value_of,
)
from penstock.connect.converters.json.shapes import scalars
from penstock.connect.data import schema as schemas
from penstock.connect.data.schema import Schema, Type

_NULL: Final = type(None)
_PLAIN: Final[dict[Type, set[type]]] = {
    Type.INT8: {int},
    Type.INT16: {int},
    Type.INT32: {int},
    Type.INT64: {int},
    Type.FLOAT64: {int, float},
    Type.BOOLEAN: {bool},
    Type.STRING: {str},
}
_CHUNK_ROWS: Final = (4096, 64)
# The bits of a double that a float does not have, and what they are halfway between two floats.
_FLOAT32_REST: Final = np.uint64((1 << 29) - 1)
_FLOAT32_TIE: Final = np.uint64(1 << 28)


class Unusual(Exception):
    """Some value of a column is not as its schema says: no reason to fail, but to look closer."""


def array_of(
    schema: Schema, values: Sequence[Any], exact: Callable[[int], Any], *, replace_nulls: bool
) -> tuple[pa.Array, dict[int, DataError]]:
    """The column, where rows that failed are null, and their errors. `exact` reads a value again, with exact
    numbers."""
    try:
        return _plain(schema, values, replace_nulls=replace_nulls), {}
    except (Unusual, DataError, OverflowError, ValueError, pa.ArrowTypeError):
        pass
    for size in _CHUNK_ROWS:
        if len(values) > size:
            return _by_chunks(schema, values, exact, size, replace_nulls=replace_nulls)
    errors: dict[int, DataError] = {}
    converted = []
    for row in range(len(values)):
        try:
            converted.append(value_of(schema, exact(row), replace_nulls=replace_nulls))
        except DataError as error:
            errors[row] = error
            converted.append(None)
    return pa.array(converted, schema.arrow_type), errors


def _by_chunks(
    schema: Schema, values: Sequence[Any], exact: Callable[[int], Any], size: int, *, replace_nulls: bool
) -> tuple[pa.Array, dict[int, DataError]]:
    """So that few unusual values make few rows slow."""
    arrays, errors = [], {}
    for start in range(0, len(values), size):
        array, its_errors = array_of(
            schema,
            values[start : start + size],
            partial(_shifted, exact, start),
            replace_nulls=replace_nulls,
        )
        arrays.append(array)
        errors.update({start + row: error for row, error in its_errors.items()})
    return pa.concat_arrays(arrays), errors


def _shifted(exact: Callable[[int], Any], start: int, row: int) -> Any:
    return exact(start + row)


def struct_of(schema: Schema, columns: Sequence[Sequence[Any]], *, replace_nulls: bool) -> pa.Array:
    """Structs of the values of their fields, where a missing one is null. Raises Unusual."""
    try:
        arrays = [
            _plain(field.schema, members, replace_nulls=replace_nulls)
            for field, members in zip(schema.fields, columns, strict=True)
        ]
    except (DataError, OverflowError, ValueError, pa.ArrowTypeError) as error:
        raise Unusual from error
    return pa.StructArray.from_arrays(arrays, fields=list(schema.arrow_type))


def _plain(schema: Schema, values: Sequence[Any], *, replace_nulls: bool) -> pa.Array:
    kinds = set(map(type, values))
    if _NULL in kinds:
        if schema.default is not None and replace_nulls:
            if schema.type not in _PLAIN or schema.name in LOGICAL:
                raise Unusual
            values = [schema.default if value is None else value for value in values]
            kinds.add(type(schema.default))
        elif not schema.is_optional:
            raise Unusual
        kinds.discard(_NULL)
    if schema.name in LOGICAL:
        return _plain_logical(schema, values, kinds)
    match schema.type:
        case Type.STRUCT:
            return _plain_structs(schema, values, kinds, replace_nulls=replace_nulls)
        case Type.ARRAY:
            return _plain_lists(schema, values, kinds, replace_nulls=replace_nulls)
        case Type.MAP:
            return _plain_maps(schema, values, kinds, replace_nulls=replace_nulls)
        case Type.FLOAT32:
            return _plain_floats(values, kinds)
        case Type.BYTES:
            if kinds - {str}:
                raise Unusual
            return pa.array([None if value is None else base64_bytes(value) for value in values], pa.binary())
    if kinds - _PLAIN[schema.type]:
        raise Unusual
    if schema.type is Type.FLOAT64 and int in kinds:
        return scalars([None if value is None else float(value) for value in values], pa.float64())
    if schema.type not in INTEGER_BITS or schema.type is Type.INT64:
        return scalars(values, schema.arrow_type)
    return scalars(values, pa.int64()).cast(schema.arrow_type, safe=False)


def _plain_floats(values: Sequence[Any], kinds: set[type]) -> pa.Array:
    if kinds - {float}:
        raise Unusual
    numbers = pa.array(values, pa.float64())
    bits = np.asarray(numbers.fill_null(0.0)).view(np.uint64)
    if ((bits & _FLOAT32_REST) == _FLOAT32_TIE).any():
        raise Unusual  # rounded to a double first, such a number may become another float
    return pc.add(numbers, 0.0).cast(pa.float32(), safe=False)


def _plain_maps(schema: Schema, values: Sequence[Any], kinds: set[type], *, replace_nulls: bool) -> pa.Array:
    assert schema.key_schema is not None
    assert schema.value_schema is not None
    if kinds - {dict} or schema.key_schema.type is not Type.STRING:
        raise Unusual
    counts = np.array([0 if value is None else len(value) for value in values], np.int64)
    keys = [name for value in values if value is not None for name in value]
    members = [member for value in values if value is not None for member in value.values()]
    items = _plain(schema.value_schema, members, replace_nulls=replace_nulls)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    is_null = [value is None for value in values]
    if any(is_null):
        raise Unusual
    return pa.MapArray.from_arrays(pa.array(offsets), pa.array(keys, pa.string()), items).cast(schema.arrow_type)


def _plain_logical(schema: Schema, values: Sequence[Any], kinds: set[type]) -> pa.Array:
    if schema.name == schemas.DECIMAL:
        if kinds - {str} or "" in values:
            raise Unusual
        scale_of(schema)
        return pa.array([None if value is None else base64_bytes(value) for value in values], pa.binary())
    if kinds - {int} or schema.type not in INTEGER_BITS:
        raise Unusual
    numbers = pa.array(values, pa.int64())
    if schema.name != schemas.TIMESTAMP and len(numbers):
        lowest, highest = pc.min_max(numbers).as_py().values()
        limits = (0, MILLISECONDS_PER_DAY) if schema.name == schemas.TIME else INT_RANGE
        if lowest is not None and not (limits[0] <= lowest and highest <= limits[1]):
            raise Unusual
    return numbers.cast(schema.arrow_type, safe=False)


def _plain_structs(schema: Schema, values: Sequence[Any], kinds: set[type], *, replace_nulls: bool) -> pa.Array:
    if kinds - {dict}:
        raise Unusual
    whole = values if _NULL not in set(map(type, values)) else [value for value in values if value is not None]
    if not schema.fields:
        return pa.array([None if value is None else {} for value in values], schema.arrow_type)
    arrays = []
    for field in schema.fields:
        try:
            members = list(map(itemgetter(field.name), whole))
        except KeyError:
            members = [value.get(field.name) for value in whole]
        arrays.append(_plain(field.schema, members, replace_nulls=replace_nulls))
    array = pa.StructArray.from_arrays(arrays, fields=list(schema.arrow_type))
    if len(whole) == len(values):
        return array
    is_null = np.array([value is None for value in values])
    return array.take(pa.array(np.cumsum(~is_null) - 1, mask=is_null))


def _plain_lists(schema: Schema, values: Sequence[Any], kinds: set[type], *, replace_nulls: bool) -> pa.Array:
    if kinds - {list}:
        raise Unusual
    assert schema.value_schema is not None
    counts = np.array([0 if value is None else len(value) for value in values], np.int64)
    flat = [element for value in values if value is not None for element in value]
    elements = _plain(schema.value_schema, flat, replace_nulls=replace_nulls)
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    is_null = [value is None for value in values]
    mask = pa.array(is_null) if any(is_null) else None
    return pa.ListArray.from_arrays(offsets, elements, type=schema.arrow_type, mask=mask)
