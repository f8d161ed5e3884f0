"""Open files and loaded indexes of sealed segments, which all logs of a broker share within one bound.

Invariant: the least recently used entries are evicted once the entries together weigh more than the cache's capacity.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

from penstock.log.filesystem import File
from penstock.log.index import OffsetIndex, TimeIndex

Value = TypeVar("Value")


class LruCache(Generic[Value]):
    """Bounded by weight: 1 per open file, bytes per loaded index. The newest value always stays."""

    __slots__ = ("_capacity", "_values", "weight")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._values: OrderedDict[str, tuple[Value, int]] = OrderedDict()
        self.weight = 0

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: str) -> Value | None:
        found = self._values.get(key)
        if found is None:
            return None
        self._values.move_to_end(key)
        return found[0]

    def put(self, key: str, value: Value, weight: int = 1) -> None:
        self.remove(key)
        self._values[key] = (value, weight)
        self.weight += weight
        while self.weight > self._capacity and len(self._values) > 1:
            _, (_, dropped) = self._values.popitem(last=False)
            self.weight -= dropped

    def remove(self, key: str) -> None:
        found = self._values.pop(key, None)
        if found is not None:
            self.weight -= found[1]


class SegmentCaches:
    __slots__ = ("files", "indexes")

    def __init__(self, open_files_max: int = 512, index_bytes_max: int = 64 << 20) -> None:
        self.files: LruCache[File] = LruCache(open_files_max)
        self.indexes: LruCache[tuple[OffsetIndex, TimeIndex]] = LruCache(index_bytes_max)
