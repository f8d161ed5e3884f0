"""Staged rows with their order: the number of the task, and below it the number of the row, in the column `o`.

Invariant: the order tells rows of one task from those of another. So rows of a task that failed do not count, and "the
last row of a key" is defined.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from penstock.pipeline.sinks.table.task_output import Relation, TaskOutput

ROW_BITS: Final = 40
_TASK_MASK: Final = (1 << (63 - ROW_BITS)) - 1


def staging_schema(relation: Relation) -> Any:
    """c0, c1, ... and o."""
    fields = [pa.field(f"c{number}", column.type.arrow) for number, column in enumerate(relation.columns)]
    return pa.schema([*fields, pa.field("o", pa.int64())])


def numbered(batches: Iterator[Any], task: int) -> Iterator[Any]:
    first = (task & _TASK_MASK) << ROW_BITS
    for batch in batches:
        end = first + batch.num_rows
        order = pa.Array.from_buffers(
            pa.int64(), batch.num_rows, [None, pa.py_buffer(np.arange(first, end, dtype=np.int64))]
        )
        names = [*(f"c{number}" for number in range(batch.num_columns)), "o"]
        yield pa.RecordBatch.from_arrays([*batch.columns, order], names=names)
        first = end


def of_tasks(outputs: Sequence[TaskOutput]) -> str:
    """The SQL condition for rows of these tasks."""
    tasks = ", ".join(str(output.task & _TASK_MASK) for output in outputs)
    return f"(o >> {ROW_BITS}) IN ({tasks})"
