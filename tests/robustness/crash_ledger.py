"""What the producers of a crash test sent, what they were told, and the verdict on what is in the log in the end.

Owns: the content of every record, which follows from its place in its line, and the book of acknowledgements. A line is
what one producer sends to one partition; its records are numbered from 0. Must never know how a broker was killed.

Invariant: the verdict is spoken over what a reader found, record by record, and never over what the broker says it has.
"""

from __future__ import annotations

import random
from array import array
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple

_NUMBERS: Final = Struct(">BBHI")  # producer, topic, partition, number in the line
_POOL: Final = random.Random(7).randbytes(1 << 16)
_LARGE_EVERY: Final = 97

_PENDING: Final = -1
_FAILED: Final = -2
_ACKED_SOMEWHERE: Final = -3  # acks=0: nobody says where


class Partition(NamedTuple):
    topic: int
    number: int  # in its topic


class LineKey(NamedTuple):
    producer: int
    partition: Partition


def record_value(key: LineKey, number: int) -> bytes:
    """Mostly some hundred bytes, now and then nothing beyond the numbers, now and then some thousand."""
    mixed = (number * 2_654_435_761 + key.producer * 40_503 + key.partition.number * 977) & 0xFFFFFFFF
    length = 6000 if mixed % _LARGE_EVERY == 0 else mixed % 400
    start = (mixed >> 8) % (len(_POOL) - length)
    return _NUMBERS.pack(key.producer, *key.partition, number) + _POOL[start : start + length]


@dataclass(slots=True)
class Verdict:
    sent: int = 0
    acked: int = 0
    failed: int = 0
    found: int = 0
    lost: int = 0  # acknowledged and not there
    repeated: int = 0
    out_of_order: int = 0
    misplaced: int = 0  # there, but not at the offset that was acknowledged
    strange: int = 0  # content that nobody sent to this partition

    @property
    def is_exactly_once(self) -> bool:
        return not (self.lost or self.repeated or self.out_of_order or self.misplaced or self.strange)


class _Line:
    __slots__ = ("_confirmed", "_found", "_highest", "_out_of_order", "_repeated", "offsets")

    def __init__(self) -> None:
        self.offsets = array("q")  # by number: where the record was acknowledged to be, or one of the marks above
        self._found = bytearray()  # by number: whether it was read
        self._confirmed = bytearray()  # by number: whether it was read at the offset that was acknowledged
        self._highest = -1
        self._repeated = 0
        self._out_of_order = 0

    def found(self, number: int, offset: int) -> None:
        missing = len(self.offsets) - len(self._found)
        self._found.extend(bytes(missing))
        self._confirmed.extend(bytes(missing))
        if self._found[number]:
            self._repeated += 1
        elif number < self._highest:
            self._out_of_order += 1
        self._found[number] = 1
        self._highest = max(self._highest, number)
        if self.offsets[number] == offset:
            self._confirmed[number] = 1

    def add_to(self, verdict: Verdict) -> None:
        self._found.extend(bytes(len(self.offsets) - len(self._found)))
        self._confirmed.extend(bytes(len(self.offsets) - len(self._confirmed)))
        verdict.sent += len(self.offsets)
        verdict.found += sum(self._found) + self._repeated
        verdict.repeated += self._repeated
        verdict.out_of_order += self._out_of_order
        for offset, found, confirmed in zip(self.offsets, self._found, self._confirmed, strict=True):
            if offset == _FAILED:
                verdict.failed += 1
            elif offset != _PENDING:
                verdict.acked += 1
                verdict.lost += not found
                verdict.misplaced += bool(found) and not confirmed and offset != _ACKED_SOMEWHERE


class Ledger:
    """Written by the thread that sends and polls; asked for the verdict when that has ended."""

    def __init__(self) -> None:
        self._lines: dict[LineKey, _Line] = {}
        self._strange = 0
        self.acked_end: dict[Partition, int] = {}  # one more than the highest acknowledged offset

    def next_record(self, key: LineKey) -> bytes:
        """The value of the next record of a line, which is written down as sent."""
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line()
        line.offsets.append(_PENDING)
        return record_value(key, len(line.offsets) - 1)

    def acknowledged(self, value: bytes, offset: int | None) -> None:
        key, number = _place(value)
        if offset is None or offset < 0:
            self._lines[key].offsets[number] = _ACKED_SOMEWHERE
            return
        self._lines[key].offsets[number] = offset
        if offset >= self.acked_end.get(key.partition, 0):
            self.acked_end[key.partition] = offset + 1

    def failed(self, value: bytes) -> None:
        key, number = _place(value)
        self._lines[key].offsets[number] = _FAILED

    def found(self, partition: Partition, offset: int, value: bytes) -> None:
        """One record as a reader meets it; to be called in the order of the offsets."""
        if len(value) >= _NUMBERS.size:
            key, number = _place(value)
            line = self._lines.get(key)
            known = line is not None and number < len(line.offsets) and key.partition == partition
            if line is not None and known and value == record_value(key, number):
                line.found(number, offset)
                return
        self._strange += 1

    def verdict(self) -> Verdict:
        verdict = Verdict(strange=self._strange)
        for line in self._lines.values():
            line.add_to(verdict)
        return verdict


def _place(value: bytes) -> tuple[LineKey, int]:
    producer, topic, partition, number = _NUMBERS.unpack_from(value)
    return LineKey(producer, Partition(topic, partition)), number
