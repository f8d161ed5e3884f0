"""Which partition a record goes to: by its key's hash, in turn, or as a callable of the user's says.

A partitioner is any callable `(key, value, partition_count) -> partition` over the serialized key and value (None for
null). `Hash`, the default, is not called by the producer: librdkafka has the same function, which needs no partition
count beforehand and keeps records without a key on one partition until a batch is full.

Invariant: a key goes where Apache Kafka's Java producer sends it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count
from typing import Final

Partitioner = Callable[[bytes | None, bytes | None, int], int]

_MASK: Final = 0xFFFFFFFF
_MULTIPLIER: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C


def murmur2(data: bytes) -> int:
    """MurmurHash2 of 32 bits with Kafka's seed, as an unsigned number (Java's is the same number with a sign)."""
    length = len(data)
    hashed = _SEED ^ length
    whole = length & ~3
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        hashed = hashed * _MULTIPLIER & _MASK ^ word
    if whole < length:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    hashed = (hashed ^ hashed >> 13) * _MULTIPLIER & _MASK
    return hashed ^ hashed >> 15


class Hash:
    """The same key, the same partition. Records without a key go anywhere, a batch at a time."""

    def __call__(self, key: bytes | None, value: bytes | None, partition_count: int) -> int:
        if key is None:
            return random.randrange(partition_count)  # noqa: S311 - spreads load, keeps no secret
        return (murmur2(key) & 0x7FFFFFFF) % partition_count


class RoundRobin:
    """Every partition of a topic in turn, whatever the key."""

    def __init__(self) -> None:
        self._turn = count()

    def __call__(self, key: bytes | None, value: bytes | None, partition_count: int) -> int:
        return next(self._turn) % partition_count
