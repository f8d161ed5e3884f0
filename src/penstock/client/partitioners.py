"""Partitioners: by the hash of the key, round-robin, or any callable of the user.

A partitioner is any callable `(key, value, partition_count) -> partition` over the serialized key and value (None for
null). The producer does not call `Hash`, the default: librdkafka has the same function built in. It needs no partition
count in advance and is sticky for records without a key: they stay on one partition until a batch is full.

Invariant: `Hash` maps a key to the same partition as Apache Kafka's Java producer.
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
    """32-bit MurmurHash2 with Kafka's seed, as an unsigned number (Java has the same number, signed)."""
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
    """Equal keys go to the same partition. Records without a key go to a random one, batch by batch."""

    def __call__(self, key: bytes | None, value: bytes | None, partition_count: int) -> int:
        if key is None:
            return random.randrange(partition_count)  # noqa: S311 - spreads load, keeps no secret
        return (murmur2(key) & 0x7FFFFFFF) % partition_count


class RoundRobin:
    """Each record goes to the next partition of its topic, whatever its key."""

    def __init__(self) -> None:
        self._turn = count()

    def __call__(self, key: bytes | None, value: bytes | None, partition_count: int) -> int:
        return next(self._turn) % partition_count
