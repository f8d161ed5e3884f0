"""Which partition each row of a column goes to, and the rows in the order of their partitions.

Owns: the same choice as Kafka's Java producer makes, for whole columns of keys.
Must never know: how many partitions a topic has; that is passed in.

Invariant: a key goes where Apache Kafka's Java producer sends it, and rows of one partition keep their order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.columns.binary_columns import NO_BINARY, BinaryColumn, numbers_of, validity_of
from penstock.columns.partition_kernels import choose_partitions, group_rows


class RowGroups(NamedTuple):
    """Rows by partition: those of partition p are `order[ends[p - 1]:ends[p]]`."""

    order: NDArray[np.int32]
    ends: NDArray[np.int64]


class ColumnPartitioner:
    """Remembers whose turn it is: rows without a key fill one partition for a while, then the next.

    `first_turn` is where that begins: tasks that run side by side take different ones.
    """

    def __init__(self, partition_count: int, *, first_turn: int = 0, rows_per_turn: int = 16 * 1024) -> None:
        if not 1 <= partition_count < 2**31 or rows_per_turn < 1:
            raise ValueError("a topic has at least one partition, and a turn at least one row")
        self._partition_count = partition_count
        self._turn = first_turn % partition_count
        self._rows_per_turn = rows_per_turn

    @property
    def partition_count(self) -> int:
        return self._partition_count

    def targets(self, rows: int, keys: BinaryColumn = NO_BINARY, partitions: Any = None) -> NDArray[np.int32]:
        """The partition of each row: what the Arrow column `partitions` says, else (also where it is null) by key."""
        targets = np.full(rows, -1, np.int32) if partitions is None else self._explicit(partitions)
        without_key = choose_partitions(*keys, self._partition_count, self._turn, self._rows_per_turn, targets)
        turns = -(-without_key // self._rows_per_turn)
        self._turn = (self._turn + turns) % self._partition_count
        return targets

    def grouped(self, targets: NDArray[np.int32]) -> RowGroups:
        """`targets` are those of this partitioner."""
        ends = np.zeros(self._partition_count, np.int64)
        order = np.empty(len(targets), np.int32)
        group_rows(targets, ends, order)
        return RowGroups(order, ends)

    def _explicit(self, partitions: Any) -> NDArray[np.int32]:
        if not pa.types.is_integer(partitions.type):
            raise ValueError(f"column 'partition' is {partitions.type}; it has to be an integer")
        numbers = numbers_of(partitions, np.dtype(partitions.type.to_pandas_dtype())).astype(np.int64)
        is_given = validity_of(partitions)
        is_wrong = is_given & ((numbers < 0) | (numbers >= self._partition_count))
        if is_wrong.any():
            raise ValueError(
                f"column 'partition' says {numbers[is_wrong][0]}, but the topic's partitions are"
                f" 0 to {self._partition_count - 1}"
            )
        return np.where(is_given, numbers, -1).astype(np.int32)
