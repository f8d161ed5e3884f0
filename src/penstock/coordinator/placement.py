"""Maps a group or a transactional id to a partition of its internal topic, by Kafka's rule, as tools expect."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from penstock.core.limits import COORDINATOR_KEYS_REMEMBERED_MAX

_INT32_MIN: Final = -(1 << 31)


@lru_cache(maxsize=COORDINATOR_KEYS_REMEMBERED_MAX)
def partition_of(coordinator_key: str, partition_count: int) -> int:
    """The absolute value of Java's hash modulo the partition count; the hash without an absolute value counts as 0."""
    hashed = java_string_hash(coordinator_key)
    return 0 if hashed == _INT32_MIN else abs(hashed) % partition_count


def java_string_hash(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 code units, as a signed 32-bit number."""
    encoded = text.encode("utf-16-be", "surrogatepass")
    hashed = 0
    for position in range(0, len(encoded), 2):
        hashed = (31 * hashed + (encoded[position] << 8) + encoded[position + 1]) & 0xFFFFFFFF
    return hashed - (1 << 32) if hashed >= 1 << 31 else hashed
