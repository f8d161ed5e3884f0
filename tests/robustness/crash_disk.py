"""A dead broker's partition as its files show it: where the log ends, which transactions are open, and tails as an
interrupted write leaves them.

Reads and writes the files by itself, without Penstock's log package, because it judges that package. To be used only
while no broker runs.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from crc32c import crc32c

from penstock.protocol.record_batch import CRC_START, HEADER, HEADER_BYTES, LOG_OVERHEAD, parse_header

_BASE_OFFSET_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The active segment behind its last whole batch."""

    segment: Path
    end_offset: int
    good_bytes: int
    torn_bytes: int
    last_batch: bytes


def active_segment(partition_directory: Path) -> Path:
    return max(partition_directory.glob("*.log"))


def log_end(partition_directory: Path) -> LogEnd:
    segment = active_segment(partition_directory)
    content = segment.read_bytes()
    end_offset = int(segment.stem)
    position = 0
    last_batch = b""
    while len(content) - position >= HEADER_BYTES:
        header = parse_header(content, position)
        batch = content[position : position + header.size]
        if header.size < HEADER_BYTES or len(batch) < header.size or crc32c(batch[CRC_START:]) != header.crc:
            break
        if header.base_offset != end_offset:
            break
        end_offset = header.end_offset
        position += header.size
        last_batch = batch
    return LogEnd(segment, end_offset, position, len(content) - position, last_batch)


def open_producers(partition_directory: Path) -> set[int]:
    """The ids of the producers that have written here in a transaction, of which no marker has come yet."""
    open_now: set[int] = set()
    for segment in sorted(partition_directory.glob("*.log")):
        content = segment.read_bytes()
        position = 0
        while len(content) - position >= HEADER_BYTES:
            header = parse_header(content, position)
            if header.size < HEADER_BYTES or len(content) - position < header.size:
                break
            position += header.size
            if header.is_control:
                open_now.discard(header.producer_id)
            elif header.is_transactional:
                open_now.add(header.producer_id)
    return open_now


def tear_tail(partition_directory: Path, chance: random.Random) -> bool:
    """Appends what a write that was cut short leaves: the beginning of the next batch, or room that was never filled.

    False where there is nothing to make it from, or a torn tail already.
    """
    end = log_end(partition_directory)
    if end.torn_bytes or not end.last_batch:
        return False
    header = parse_header(end.last_batch)._replace(base_offset=end.end_offset)
    batch = HEADER.pack(*header) + end.last_batch[HEADER_BYTES:]
    kept = chance.choice([chance.randrange(1, _BASE_OFFSET_BYTES + 4), LOG_OVERHEAD, chance.randrange(1, len(batch))])
    torn = batch[:kept]
    if chance.random() < 0.3:
        torn += bytes(len(batch) - kept)
        if torn == batch:
            return False
    with end.segment.open("ab") as file:
        file.write(torn)
    return True
