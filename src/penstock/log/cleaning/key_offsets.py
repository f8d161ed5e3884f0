"""The newest offset of each key in the dirty part of a log, within a bound.

Short keys are compared. Longer ones are compared by a hash of 128 bits, so that the memory of an entry is bounded; a
stored key is never as long as a hash, so one cannot be mistaken for the other.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, Protocol

from penstock.protocol.record_filtering import KeptRecords, keyed_records

_HASH_BYTES: Final = 16


class NewestOffsets(Protocol):
    """Knows the newest offset of each key in the batches that it was given."""

    @property
    def is_full(self) -> bool:
        """The caller asks before each batch, and adds a batch whole, so that every pass makes progress."""

    def add_records(self, payload: bytes | memoryview, count: int, base_offset: int) -> None:
        """Adds the records of a batch; later ones replace earlier ones of the same key."""

    def kept_records(
        self, payload: bytes | memoryview, count: int, base_offset: int, *, tombstones_stay: bool
    ) -> KeptRecords:
        """The records of a batch that are the newest of their key, and tombstones only if those stay."""


class KeyOffsets:
    """Plain Python. `columns/key_table.py` is compiled, for large logs."""

    __slots__ = ("_capacity", "_offsets")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._offsets: dict[bytes, int] = {}

    @property
    def is_full(self) -> bool:
        return len(self._offsets) >= self._capacity

    def add_records(self, payload: bytes | memoryview, count: int, base_offset: int) -> None:
        offsets = self._offsets
        for record in keyed_records(payload, count):
            if record.key is not None:
                offsets[_stored(record.key)] = base_offset + record.offset_delta

    def kept_records(
        self, payload: bytes | memoryview, count: int, base_offset: int, *, tombstones_stay: bool
    ) -> KeptRecords:
        newest = self._offsets
        has_tombstones = False
        kept = []
        for record in keyed_records(payload, count):
            if record.key is None or base_offset + record.offset_delta < newest.get(_stored(record.key), -1):
                continue
            if not record.has_value:
                if not tombstones_stay:
                    continue
                has_tombstones = True
            kept.append(record.stored)
        return KeptRecords(len(kept), has_tombstones, lambda: kept)


def _stored(key: bytes) -> bytes:
    return key if len(key) < _HASH_BYTES else blake2b(key, digest_size=_HASH_BYTES).digest()
