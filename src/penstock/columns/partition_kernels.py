"""Compiled loops that choose the partitions of rows and sort rows by partition.

Owns: the work of `partitioning.py` per row. For compilation and caching see `kernel_compilation.py`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from penstock.columns.kernel_compilation import (
    BINARY_IN,
    INT,
    INT32S_IN,
    INT32S_OUT,
    INT64S_OUT,
    NOTHING,
    compiled,
    inlined,
)

_MURMUR2_SEED: Final = np.uint32(0x9747B28C)
_MURMUR2_MULTIPLIER: Final = np.uint32(0x5BD1E995)


@inlined
def _murmur2(content: Any, start: Any, length: Any) -> Any:
    """32-bit MurmurHash2 with Kafka's seed."""
    hashed = _MURMUR2_SEED ^ np.uint32(length)
    position = start
    whole_end = start + (length & ~3)
    end = start + length
    while position < whole_end:
        word = np.uint32(content[position]) | (np.uint32(content[position + 1]) << np.uint32(8))
        word |= np.uint32(content[position + 2]) << np.uint32(16)
        word |= np.uint32(content[position + 3]) << np.uint32(24)
        word = np.uint32(word * _MURMUR2_MULTIPLIER)
        word = np.uint32((word ^ (word >> np.uint32(24))) * _MURMUR2_MULTIPLIER)
        hashed = np.uint32(hashed * _MURMUR2_MULTIPLIER) ^ word
        position += 4
    if position < end:
        shift = np.uint32(0)
        while position < end:
            hashed ^= np.uint32(content[position]) << shift
            shift += np.uint32(8)
            position += 1
        hashed = np.uint32(hashed * _MURMUR2_MULTIPLIER)
    hashed = np.uint32((hashed ^ (hashed >> np.uint32(13))) * _MURMUR2_MULTIPLIER)
    return hashed ^ (hashed >> np.uint32(15))


@compiled(INT(*BINARY_IN, INT, INT, INT, INT32S_OUT))
def choose_partitions(
    starts: Any, lengths: Any, keys: Any, partition_count: Any, turn: Any, rows_per_turn: Any, targets: Any
) -> Any:
    """Sets the partition of each row whose target is negative: by the hash of its key, or round-robin without a key.

    Of the rows without a key, `rows_per_turn` go to one partition, then to the next. Returns their number.
    """
    has_keys = lengths.size > 0
    without_key = np.int64(0)
    rows_left = rows_per_turn
    for row in range(targets.size):
        if targets[row] >= 0:
            continue
        if has_keys and lengths[row] >= 0:
            hashed = np.int64(_murmur2(keys, starts[row], lengths[row]))
            targets[row] = (hashed & 0x7FFFFFFF) % partition_count
        else:
            if rows_left == 0:
                turn = (turn + 1) % partition_count
                rows_left = rows_per_turn
            targets[row] = turn
            rows_left -= 1
            without_key += 1
    return without_key


@compiled(NOTHING(INT32S_IN, INT64S_OUT, INT32S_OUT))
def group_rows(targets: Any, group_ends: Any, order: Any) -> None:
    """A stable counting sort: `order` becomes the rows by target, and `group_ends[t]` the end of target t.

    The caller ensures that each target is an index of `group_ends`, which is zeroed.
    """
    for row in range(targets.size):
        group_ends[targets[row]] += 1
    total = np.int64(0)
    for target in range(group_ends.size):
        count = group_ends[target]
        group_ends[target] = total
        total += count
    for row in range(targets.size):
        place = group_ends[targets[row]]
        order[place] = row
        group_ends[targets[row]] = place + 1
