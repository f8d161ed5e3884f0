"""Partitions whole columns: the target partition of each row, and the rows grouped by partition.

Owns: the hash partitioner of Kafka's Java producer, for whole columns of keys.
Must never know: the partition count of a topic, which is passed in.

Invariant: a key goes to the same partition as with Kafka's Java producer, and rows of one partition keep their order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.columns.binary_columns import NO_BINARY, BinaryColumn, numbers_of, validity_of
from penstock.columns.partition_kernels import choose_partitions, group_rows


class RowGroups(NamedTuple):
    """Rows grouped by partition: those of partition p are `order[ends[p - 1]:ends[p]]`."""

    order: NDArray[np.int32]
    ends: NDArray[np.int64]


class ColumnPartitioner:
    """Sticky round-robin for rows without a key: a number of them goes to one partition, then to the next.

    `first_turn` is the first partition: parallel tasks should use different ones.
    """

    def __init__(self, partition_count: int, *, first_turn: int = 0, rows_per_turn: int = 16 * 1024) -> None:
        if not 1 <= partition_count < 2**31 or rows_per_turn < 1:
            raise ValueError("a topic must have at least one partition, and a turn at least one row")
        self._partition_count = partition_count
        self._turn = first_turn % partition_count
        self._rows_per_turn = rows_per_turn

    @property
    def partition_count(self) -> int:
        return self._partition_count

    def targets(self, rows: int, keys: BinaryColumn = NO_BINARY, partitions: Any = None) -> NDArray[np.int32]:
        """The partition of each row: from the Arrow column `partitions`, or by key where it is null or missing."""
        targets = np.full(rows, -1, np.int32) if partitions is None else self._explicit(partitions)
        without_key = choose_partitions(*keys, self._partition_count, self._turn, self._rows_per_turn, targets)
        turns = -(-without_key // self._rows_per_turn)
        self._turn = (self._turn + turns) % self._partition_count
        return targets

    def grouped(self, targets: NDArray[np.int32]) -> RowGroups:
        """`targets` must come from this partitioner."""
        ends = np.zeros(self._partition_count, np.int64)
        order = np.empty(len(targets), np.int32)
        group_rows(targets, ends, order)
        return RowGroups(order, ends)

    def _explicit(self, partitions: Any) -> NDArray[np.int32]:
        if not pa.types.is_integer(partitions.type):
            raise ValueError(f"column 'partition' is {partitions.type}; it must be an integer")
        numbers = numbers_of(partitions, np.dtype(partitions.type.to_pandas_dtype())).astype(np.int64)
        is_given = validity_of(partitions)
        is_wrong = is_given & ((numbers < 0) | (numbers >= self._partition_count))
        if is_wrong.any():
            raise ValueError(
                f"column 'partition' contains {numbers[is_wrong][0]}; the topic's partitions are"
                f" 0 to {self._partition_count - 1}"
            )
        return np.where(is_given, numbers, -1).astype(np.int32)
