"""What a broker wrote to its disk, read without the broker: Kafka's layout is the same for every broker."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.clients.records import COMPRESSIONS

_BATCH_OVERHEAD: Final = 12
_ATTRIBUTES_AT: Final = 21
_PRODUCER_AT: Final = 43


@dataclass(frozen=True, slots=True)
class StoredBatch:
    compression: str
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int


def stored_batches(data_dir: Path, topic: str, partition: int) -> Iterator[StoredBatch]:
    """The record batches of a partition in their order, from their headers."""
    for segment in sorted((data_dir / f"{topic}-{partition}").glob("*.log")):
        log = segment.read_bytes()
        position = 0
        while position < len(log):
            (length,) = struct.unpack_from(">i", log, position + 8)
            (attributes,) = struct.unpack_from(">h", log, position + _ATTRIBUTES_AT)
            producer = struct.unpack_from(">qhii", log, position + _PRODUCER_AT)
            yield StoredBatch(COMPRESSIONS[attributes & 7], *producer)
            position += _BATCH_OVERHEAD + length
