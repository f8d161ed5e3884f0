"""The changes that records of one task make to one table, in an order in which whole sets of rows can be written.

Records arrive in groups of equal schema, and groups are out of order. Writing group after group would let an old record
of a key win over a newer one, and a tombstone over the record behind it. So the records of each key are numbered: a
phase is a series of records of one key with the same shape (the same columns, or a deletion). Of a phase only the last
record counts. All first phases are written, then all second ones: each statement has a key once, and each key sees its
records in their order. Nearly always there is one phase.

Owns that order. It must not know databases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.connect.connectors.jdbc.dialects.dialect import StagedColumn

Kind = Literal["insert", "upsert", "update", "delete"]
_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Shape:
    """What rows have in common: what happens to them, their columns, and the names of those of the key."""

    kind: Kind
    columns: tuple[StagedColumn, ...]
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one shape. `order` is their place among the records of the task, `key` the values of the key.

    The last column of `values` is `order` again.
    """

    shape: Shape
    order: pa.Array
    key: tuple[pa.Array, ...]
    values: pa.Table

    def filter(self, mask: pa.Array) -> Rows:
        key = tuple(each.filter(mask) for each in self.key)
        return Rows(self.shape, self.order.filter(mask), key, self.values.filter(mask))


def in_order(arrived: Sequence[Rows], *, every: bool = False) -> list[tuple[Shape, pa.Table]]:
    """Sets of rows to write one after the other.

    `every`: also records that a later one of the same key and shape replaces. A database may refuse that one.
    """
    shapes = list(dict.fromkeys(rows.shape for rows in arrived))
    if all(shape.kind == "insert" for shape in shapes) or not arrived[0].key:
        # Rows that are only inserted do not depend on each other.
        return [(shape, _values(arrived, shape)) for shape in shapes]
    order = np.concatenate([np.asarray(rows.order) for rows in arrived])
    codes = _key_codes(arrived)
    if len(shapes) == 1 and not every:
        chosen = _last_of_each(codes, order)
        values = _values(arrived, shapes[0])
        return [(shapes[0], values if len(chosen) == len(order) else values.take(pa.array(np.sort(chosen))))]
    return _by_phases(arrived, shapes, order, codes, every=every)


def _by_phases(
    arrived: Sequence[Rows], shapes: Sequence[Shape], order: _Numbers, codes: _Numbers, *, every: bool
) -> list[tuple[Shape, pa.Table]]:
    of_shape = np.concatenate([np.full(len(rows.order), shapes.index(rows.shape)) for rows in arrived])
    # The place of each row among the rows of its shape.
    place = np.empty(len(order), np.int64)
    for number in range(len(shapes)):
        mine = of_shape == number
        place[mine] = np.arange(mine.sum())
    tables = [_values(arrived, shape) for shape in shapes]
    phase = _phases(order, codes, of_shape, every=every)
    ranked = np.lexsort((order, of_shape, phase))
    is_new = (np.diff(phase[ranked]) != 0) | (np.diff(of_shape[ranked]) != 0)
    made = []
    for mine in np.split(ranked, np.flatnonzero(is_new) + 1):
        number = int(of_shape[mine[0]])
        shape = shapes[number]
        chosen = mine if every or shape.kind == "insert" else mine[_last_of_each(codes[mine], order[mine])]
        made.append((shape, tables[number].take(pa.array(place[chosen]))))
    return made


def _phases(order: _Numbers, codes: _Numbers, of_shape: _Numbers, *, every: bool) -> _Numbers:
    """`every`: each record of a key is a phase of its own."""
    by_key = np.lexsort((order, codes))
    keys, kinds = codes[by_key], of_shape[by_key]
    is_first = np.ones(len(keys), bool)
    is_first[1:] = keys[1:] != keys[:-1]
    changes = np.zeros(len(keys), np.int64)
    changes[1:] = (every | (kinds[1:] != kinds[:-1])) & ~is_first[1:]
    total = np.cumsum(changes)
    at_first = np.maximum.accumulate(np.where(is_first, np.arange(len(keys)), 0))
    phase = np.empty(len(keys), np.int64)
    phase[by_key] = total - total[at_first]
    return phase


def _last_of_each(codes: _Numbers, order: _Numbers) -> _Numbers:
    """Positions of the last row of each key. Rows with equal order (one record became several): the one behind."""
    by_key = np.lexsort((order, codes))
    is_last = np.ones(len(by_key), bool)
    is_last[:-1] = np.diff(codes[by_key]) != 0
    return by_key[is_last]


def _key_codes(arrived: Sequence[Rows]) -> _Numbers:
    """A number for each row; rows have the same if they have the same key."""
    codes = np.zeros(sum(len(rows.order) for rows in arrived), np.int64)
    for position in range(len(arrived[0].key)):
        found = pc.dictionary_encode(_concatenated([rows.key[position] for rows in arrived]), null_encoding="encode")
        own = np.asarray(found.indices).astype(np.int64)
        if not position:
            codes = own
        else:
            _, codes = np.unique(codes * len(found.dictionary) + own, return_inverse=True)
    return codes


def _concatenated(arrays: Sequence[pa.Array]) -> pa.Array:
    types = {array.type for array in arrays}
    same = arrays if len(types) == 1 else [array.cast(pa.string()) for array in arrays]
    return pa.concat_arrays(same)


def _values(arrived: Sequence[Rows], shape: Shape) -> pa.Table:
    tables = [rows.values for rows in arrived if rows.shape == shape]
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="permissive")
