"""What a broker wrote to its disk, read without the broker: Kafka's layout is the same for every broker."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

from tests.clients.records import COMPRESSIONS

_BATCH_OVERHEAD: Final = 12
_ATTRIBUTES_AT: Final = 21


def stored_compressions(data_dir: Path, topic: str, partition: int) -> set[str]:
    """The codecs of all record batches of a partition, from their attributes."""
    found = set()
    for segment in (data_dir / f"{topic}-{partition}").glob("*.log"):
        log = segment.read_bytes()
        position = 0
        while position < len(log):
            (length,) = struct.unpack_from(">i", log, position + 8)
            (attributes,) = struct.unpack_from(">h", log, position + _ATTRIBUTES_AT)
            found.add(COMPRESSIONS[attributes & 7])
            position += _BATCH_OVERHEAD + length
    return found
