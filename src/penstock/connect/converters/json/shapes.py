"""JSON values without a schema, sorted into groups of equal shape, as Arrow arrays.

Values of equal shape fill one array: the same kind of value and, in an object, the same keys with values of equal
shape. A null has the shape of its neighbours, so an object that lacks a key and one that has null there differ, but
two objects of which one has null where the other has a number do not. Elements of a list that have different shapes
share a union.

Owns shapes. It must not know schemas, nor where the values come from.

Invariant: the arrays hold exactly the values; nothing is converted, except that whole numbers beyond 64 bits lose their
upper bits, as in Kafka's JsonConverter.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_NULL: Final = type(None)
_SCALARS: Final = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string(), bytes: pa.binary()}
_UNION_MEMBERS_MAX: Final = 127


class Shaped(NamedTuple):
    """Values of one shape: `array[n]` is the value of `rows[n]`. Rows ascend."""

    rows: NDArray[np.int64]
    array: pa.Array


def sort_by_shape(values: Sequence[Any]) -> list[Shaped]:
    """Nulls are among the values of the first group. No group for no values."""
    if not values:
        return []
    kinds = set(map(type, values))
    kinds.discard(_NULL)
    if not kinds:
        return [Shaped(np.arange(len(values)), pa.nulls(len(values)))]
    if len(kinds) > 1:
        return _split(values, type)
    kind = kinds.pop()
    if kind is dict:
        return _objects(values)
    if kind is list:
        return _lists(values)
    return [Shaped(np.arange(len(values)), scalars(values, _SCALARS[kind]))]


def scalars(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array:
    """Jackson's numbers have no negative zero."""
    try:
        array = pa.array(values, arrow_type)
        return pc.add(array, 0.0) if pa.types.is_float64(arrow_type) else array
    except (OverflowError, pa.ArrowInvalid):
        return pa.array([None if value is None else low_64_bits(value) for value in values], pa.int64())


def low_64_bits(number: int) -> int:
    """`BigInteger.longValue()`."""
    return ((number + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)


def _split(values: Sequence[Any], label: Callable[[Any], Hashable]) -> list[Shaped]:
    """Groups of the values with equal labels, by their first value. Nulls go with the first group."""
    labels: dict[Hashable, list[int]] = {}
    nulls = []
    for row, value in enumerate(values):
        if value is None:
            nulls.append(row)
        else:
            labels.setdefault(label(value), []).append(row)
    found: list[Shaped] = []
    for number, members in enumerate(labels.values()):
        rows = sorted(members + nulls) if number == 0 else members
        places = np.array(rows, np.int64)
        found += [Shaped(places[shaped.rows], shaped.array) for shaped in sort_by_shape([values[row] for row in rows])]
    return found


def _objects(values: Sequence[Any]) -> list[Shaped]:
    whole = [value for value in values if value is not None]
    key_sets = {keys: frozenset(keys) for keys in dict.fromkeys(map(tuple, whole))}
    if len(set(key_sets.values())) > 1:
        return _split(values, lambda value: key_sets[tuple(value)])
    columns = [list(map(itemgetter(name), whole)) for name in whole[0]]
    is_null = None if len(whole) == len(values) else np.array([value is None for value in values])
    return _structs(tuple(whole[0]), columns, len(whole), is_null)


def sort_objects(names: Sequence[str], columns: Sequence[Sequence[Any]]) -> list[Shaped]:
    """Objects by their values for each key; there is at least one key."""
    return _structs(names, columns, len(columns[0]), None)


def _structs(
    names: Sequence[str], columns: Sequence[Sequence[Any]], count: int, is_null: NDArray[np.bool_] | None
) -> list[Shaped]:
    members = [(name, sort_by_shape(column)) for name, column in zip(names, columns, strict=True)]
    if all(len(shaped) == 1 for _name, shaped in members):
        return [_struct(members, [0] * len(members), np.arange(count), is_null)]
    return _object_combinations(members, count, is_null)


def _object_combinations(
    members: Sequence[tuple[str, list[Shaped]]], count: int, is_null: NDArray[np.bool_] | None
) -> list[Shaped]:
    """Objects whose members have equal shapes; nulls go with the first."""
    labels = np.zeros((len(members), count), np.int64)
    for number, (_name, groups) in enumerate(members):
        for label, shaped in enumerate(groups):
            labels[number, shaped.rows] = label
    distinct, which = np.unique(labels, axis=1, return_inverse=True)
    places = np.arange(count) if is_null is None else np.flatnonzero(~is_null)
    found = []
    for number in range(distinct.shape[1]):
        rows = np.flatnonzero(which.ravel() == number)
        shaped = _struct(members, distinct[:, number].tolist(), rows, None)
        found.append(Shaped(places[rows], shaped.array))
    if is_null is not None:
        rows = np.concatenate([found[0].rows, np.flatnonzero(is_null)])
        array = pa.concat_arrays([found[0].array, pa.nulls(int(is_null.sum()), found[0].array.type)])
        order = np.argsort(rows)
        found[0] = Shaped(rows[order], array.take(pa.array(order)))
    return found


def _struct(
    members: Sequence[tuple[str, list[Shaped]]],
    chosen: Sequence[int],
    rows: NDArray[np.int64],
    is_null: NDArray[np.bool_] | None,
) -> Shaped:
    """The objects of these rows. `is_null` has a place for nulls too; the members do not."""
    arrays = []
    for (_name, groups), label in zip(members, chosen, strict=True):
        shaped = groups[label]
        if len(rows) == len(shaped.rows):
            arrays.append(shaped.array)
        else:
            arrays.append(shaped.array.take(pa.array(np.searchsorted(shaped.rows, rows))))
    if not members:
        array = pa.array([{}] * len(rows), pa.struct([]))
    else:
        array = pa.StructArray.from_arrays(arrays, names=[name for name, _groups in members])
    if is_null is None:
        return Shaped(rows, array)
    places = np.cumsum(~is_null) - 1
    spread = array.take(pa.array(places, mask=is_null))
    return Shaped(np.arange(len(is_null)), spread)


def _lists(values: Sequence[Any]) -> list[Shaped]:
    counts = np.array([0 if value is None else len(value) for value in values], np.int64)
    is_null = np.array([value is None for value in values])
    flat = [element for value in values if value is not None for element in value]
    groups = sort_by_shape(flat)
    if len(groups) <= 1:
        elements = groups[0].array if groups else pa.nulls(0)
        return [Shaped(np.arange(len(values)), _list_array(elements, counts, is_null))]
    label = np.empty(len(flat), np.int64)
    for number, shaped in enumerate(groups):
        label[shaped.rows] = number
    label[np.array([element is None for element in flat], np.bool_)] = -1
    owner = np.repeat(np.arange(len(values)), counts)
    lowest, highest = np.full(len(values), len(groups)), np.full(len(values), -1)
    np.minimum.at(lowest, owner[label >= 0], label[label >= 0])
    np.maximum.at(highest, owner, label)
    alike = np.where(lowest == highest, lowest, len(groups))
    is_blank = highest < 0
    # Nulls, and lists of nothing but nulls, go with others.
    alike[is_blank] = alike[~is_blank].min()
    found = []
    for number in np.unique(alike).tolist():
        rows = np.flatnonzero(alike == number)
        places = np.flatnonzero(alike[owner] == number)
        if number == len(groups):
            elements = _union([flat[place] for place in places.tolist()])
        else:
            shaped = groups[number]
            indices = np.searchsorted(shaped.rows, places)
            elements = shaped.array.take(pa.array(np.minimum(indices, len(shaped.rows) - 1), mask=label[places] < 0))
        found.append(Shaped(rows, _list_array(elements, counts[rows], is_null[rows])))
    return found


def _list_array(elements: pa.Array, counts: NDArray[np.int64], is_null: NDArray[np.bool_]) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    mask = pa.array(is_null) if is_null.any() else None
    arrow_type = pa.list_(pa.field("element", elements.type))
    return pa.ListArray.from_arrays(pa.array(offsets), elements, type=arrow_type, mask=mask)


def _union(values: Sequence[Any]) -> pa.Array:
    return _union_of(sort_by_shape(values), len(values))


def _union_of(groups: list[Shaped], count: int) -> pa.Array:
    if len(groups) > _UNION_MEMBERS_MAX:
        # A union of Arrow's has at most 128 members; its last one can be a union again.
        groups, rest = groups[: _UNION_MEMBERS_MAX - 1], groups[_UNION_MEMBERS_MAX - 1 :]
        rows = np.sort(np.concatenate([shaped.rows for shaped in rest]))
        inner = [Shaped(np.searchsorted(rows, shaped.rows), shaped.array) for shaped in rest]
        groups.append(Shaped(rows, _union_of(inner, len(rows))))
    which, place = np.zeros(count, np.int8), np.zeros(count, np.int32)
    for number, shaped in enumerate(groups):
        which[shaped.rows] = number
        place[shaped.rows] = np.arange(len(shaped.rows))
    return pa.UnionArray.from_dense(pa.array(which), pa.array(place), [shaped.array for shaped in groups])
