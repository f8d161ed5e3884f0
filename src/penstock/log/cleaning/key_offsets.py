"""The newest offset of each key in the dirty part of a log, within a bound.

Short keys are compared. Longer ones are compared by a hash of 128 bits, so that the memory of an entry is bounded; a
stored key is never as long as a hash, so one cannot be mistaken for the other.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

_HASH_BYTES: Final = 16


class KeyOffsets:
    __slots__ = ("_capacity", "_offsets")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._offsets: dict[bytes, int] = {}

    @property
    def is_full(self) -> bool:
        """The caller asks before each batch, and adds a batch whole, so that every pass makes progress."""
        return len(self._offsets) >= self._capacity

    def put(self, key: bytes, offset: int) -> None:
        self._offsets[_stored(key)] = offset

    def is_newest(self, key: bytes, offset: int) -> bool:
        return offset >= self._offsets.get(_stored(key), -1)


def _stored(key: bytes) -> bytes:
    return key if len(key) < _HASH_BYTES else blake2b(key, digest_size=_HASH_BYTES).digest()
