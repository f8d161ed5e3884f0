"""The replicas of a partition as the files of dead brokers show them: the same batches at the same offsets.

Reads the files by itself, without Penstock's log package, because it judges that package and replication.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from penstock.protocol.record_batch import HEADER_BYTES, parse_header

Batches = dict[int, tuple[int, int, int]]  # by base offset: end offset, leader epoch, CRC


def batches_of(partition_directory: Path) -> Batches:
    """The whole batches, in order."""
    found: Batches = {}
    for segment in sorted(partition_directory.glob("*.log")):
        content = segment.read_bytes()
        position = 0
        while len(content) - position >= HEADER_BYTES:
            header = parse_header(content, position)
            if header.size < HEADER_BYTES or len(content) - position < header.size:
                break
            found[header.base_offset] = (header.end_offset, header.partition_leader_epoch, header.crc)
            position += header.size
    return found


def differences(name: str, replicas: Mapping[int, Path]) -> list[str]:
    """What is wrong with replicas that have all caught up and compact nothing: one line for each that differs."""
    contents = {number: batches_of(directory) for number, directory in replicas.items()}
    (first, expected), *others = contents.items()
    problems = []
    for number, batches in others:
        differing = sorted(offset for offset in {*expected, *batches} if expected.get(offset) != batches.get(offset))
        if differing:
            at = differing[0]
            problems.append(
                f"{name}: brokers {first} and {number} differ in {len(differing)} of {len(expected)} batches, first at "
                f"offset {at}: {expected.get(at)} and {batches.get(at)}"
            )
    return problems
