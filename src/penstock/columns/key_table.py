"""The newest offset of each key, compiled: `KeyOffsets` of log/cleaning, for large logs where numba is installed.

Keys are compared by hashes of 128 bits under a secret seed. A slot has 24 bytes, and the table doubles when it is two
thirds full.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from penstock.columns.compaction_kernels import (
    BAD_RECORD,
    FIELDS,
    FULL,
    move_slots,
    put_records,
    select_records,
)
from penstock.core.errors import ProtocolError
from penstock.protocol.record_filtering import SMALLEST_RECORD_BYTES, KeptRecords, StoredRecord

SEED_BYTES: Final = 32

_FIRST_SLOTS: Final = 1 << 16


class KeyTable:
    __slots__ = ("_capacity", "_highs", "_lows", "_offsets", "_seeds", "_used")

    def __init__(self, capacity: int, seed: bytes, slots: int = _FIRST_SLOTS) -> None:
        """`slots` is a power of two."""
        self._capacity = capacity
        self._seeds = np.frombuffer(seed, np.uint64, 4)
        self._used = 0
        self._highs, self._lows, self._offsets = _free_slots(slots)

    @property
    def is_full(self) -> bool:
        return self._used >= self._capacity

    def add_records(self, payload: bytes | memoryview, count: int, base_offset: int) -> None:
        content = _content(payload, count)
        position = 0
        while True:
            used_max = self._offsets.size * 2 // 3
            status, position, count, self._used = put_records(
                content,
                position,
                count,
                base_offset,
                used_max,
                self._seeds,
                self._highs,
                self._lows,
                self._offsets,
                self._used,
            )
            if status == BAD_RECORD:
                raise ProtocolError(f"a record of the batch at offset {base_offset} is longer than the batch")
            if status != FULL:
                return
            self._grow()

    def kept_records(
        self, payload: bytes | memoryview, count: int, base_offset: int, *, tombstones_stay: bool
    ) -> KeptRecords:
        content = _content(payload, count)
        kept = np.empty(FIELDS * count, np.int64)
        status, kept_count, has_tombstones = select_records(
            content, count, base_offset, tombstones_stay, self._seeds, self._highs, self._lows, self._offsets, kept
        )
        if status == BAD_RECORD:
            raise ProtocolError(f"a record of the batch at offset {base_offset} is longer than the batch")
        return KeptRecords(kept_count, bool(has_tombstones), lambda: _records(kept, kept_count))

    def _grow(self) -> None:
        highs, lows, offsets = _free_slots(2 * self._offsets.size)
        move_slots(self._highs, self._lows, self._offsets, highs, lows, offsets)
        self._highs, self._lows, self._offsets = highs, lows, offsets


def _free_slots(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.empty(count, np.uint64), np.empty(count, np.uint64), np.full(count, -1, np.int64)


def _content(payload: bytes | memoryview, count: int) -> np.ndarray:
    if not 0 <= count <= len(payload) // SMALLEST_RECORD_BYTES:
        raise ProtocolError(f"a batch of {len(payload)} bytes declares {count} records")
    return np.frombuffer(payload, np.uint8)


def _records(kept: np.ndarray, count: int) -> list[StoredRecord]:
    return [StoredRecord(*row) for row in kept[: FIELDS * count].reshape(count, FIELDS).tolist()]
