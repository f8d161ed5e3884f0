"""The records of a copy in transactions, what its workers said about each transaction, and the verdict on the copy.

Owns the content of every record. An input record says where it belongs (its partition, its number there); a copied one
says beside that to which transaction it belongs, and how many records that has. So a reader's view can be judged by
itself: what is missing, what came twice, and which transaction is not whole. Must never know how faults were made.

Invariant: the verdict is spoken over what readers found and what clients were told, never over what the broker says.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

INPUT_PARTITIONS: Final = 4
OUTPUT_PARTITIONS: Final = 3
_POOL: Final = random.Random(11).randbytes(1 << 14).hex().encode()
_SHOWN: Final = 5

View = Mapping[int, Sequence[tuple[int, bytes]]]  # by partition: offset and value of every record, as they were read


class Copied(NamedTuple):
    """What the value of a copied record says."""

    transaction: str
    place: int  # in its transaction, from 0
    total: int  # records of its transaction
    source: int  # input partition
    number: int  # in its input partition


def input_value(source: int, number: int) -> bytes:
    """Unique, and of some ten bytes to some hundred."""
    mixed = (number * 2_654_435_761 + source * 40_503) & 0xFFFFFFFF
    length = mixed % 150
    start = (mixed >> 8) % (len(_POOL) - length)
    return b"%d %d %b" % (source, number, _POOL[start : start + length])


def copied_value(transaction: str, place: int, total: int, value: bytes) -> bytes:
    """The transformation: upper case, and the transaction that did it."""
    return b"%b %d %d %b" % (transaction.encode(), place, total, value.upper())


def output_partition(source: int, number: int) -> int:
    """Short runs go to each partition in turn, so that every transaction covers all of them."""
    return (source + number // 7) % OUTPUT_PARTITIONS


def parse_copied(partition: int, value: bytes) -> Copied | None:
    """None: nobody has copied this to there."""
    try:
        transaction, place, total, source, number, _ = value.split(b" ", 5)
        copied = Copied(transaction.decode(), int(place), int(total), int(source), int(number))
    except ValueError:
        return None
    if copied.source not in range(INPUT_PARTITIONS) or partition != output_partition(copied.source, copied.number):
        return None
    expected = copied_value(copied.transaction, copied.place, copied.total, input_value(copied.source, copied.number))
    return copied if value == expected else None


class Event(StrEnum):
    """What a worker says of a transaction, each time before or after it has done it."""

    BEGUN = "begun"
    WRITTEN = "written"  # the first of its records are acknowledged
    COMMITTING = "committing"  # about to ask for it
    COMMITTED = "committed"
    ABORTING = "aborting"
    ABORTED = "aborted"


class Journal:
    """What the workers said, by transaction. Written by the threads that read from them."""

    def __init__(self) -> None:
        self._said: dict[str, dict[Event, int]] = {}  # by transaction: when each event came, in ns
        self._changed = threading.Condition()
        self._count = Counter[Event]()
        self._latest: dict[Event, str] = {}

    def note(self, transaction: str, event: Event, when_ns: int) -> None:
        with self._changed:
            self._said.setdefault(transaction, {})[event] = when_ns
            self._count[event] += 1
            self._latest[event] = transaction
            self._changed.notify_all()

    def await_next(self, event: Event, timeout_s: float) -> str | None:
        """The transaction of which somebody says this next; None after a while."""
        with self._changed:
            before = self._count[event]
            said = self._changed.wait_for(lambda: self._count[event] > before, timeout_s)
            return self._latest[event] if said else None

    def count(self, event: Event) -> int:
        with self._changed:
            return self._count[event]

    def when(self, transaction: str, event: Event) -> int | None:
        with self._changed:
            return self._said.get(transaction, {}).get(event)

    def having(self, event: Event) -> set[str]:
        with self._changed:
            return {transaction for transaction, said in self._said.items() if event in said}

    def unanswered(self) -> set[str]:
        """The transactions whose commit was asked for, and of which nobody has been told how it went."""
        return self.having(Event.COMMITTING) - self.having(Event.COMMITTED) - self.having(Event.ABORTED)


@dataclass(slots=True)
class Verdict:
    sent: int = 0
    copied: int = 0  # distinct input records of which a copy was read
    transactions: int = 0  # committed ones
    lost: int = 0
    repeated: int = 0
    out_of_order: int = 0
    strange: int = 0  # content that nobody copied to this partition
    torn: int = 0  # transactions of which a part was read
    aborted_read: int = 0  # transactions that were aborted, and read
    committed_missing: int = 0  # transactions whose commit was confirmed, and that were not read
    aborted_in_log: int = 0  # records that are in the log, and in no committed transaction
    problems: list[str] = field(default_factory=list)

    @property
    def is_exactly_once(self) -> bool:
        return not (
            self.lost
            or self.repeated
            or self.out_of_order
            or self.strange
            or self.torn
            or self.aborted_read
            or self.committed_missing
            or self.problems
        )


def judge(sent: Sequence[int], committed: View, uncommitted: View, journal: Journal) -> Verdict:
    """`sent` is the number of records of each input partition."""
    verdict = Verdict(sent=sum(sent))
    seen: set[tuple[int, int]] = set()
    places: dict[str, set[int]] = {}
    totals: dict[str, int] = {}
    for partition, records in committed.items():
        highest = [-1] * INPUT_PARTITIONS
        for _, value in records:
            copied = parse_copied(partition, value)
            if copied is None or copied.number >= sent[copied.source]:
                verdict.strange += 1
                continue
            origin = (copied.source, copied.number)
            if origin in seen:
                verdict.repeated += 1
            elif copied.number < highest[copied.source]:
                verdict.out_of_order += 1
            highest[copied.source] = max(highest[copied.source], copied.number)
            seen.add(origin)
            places.setdefault(copied.transaction, set()).add(copied.place)
            totals[copied.transaction] = copied.total
    verdict.copied = len(seen)
    verdict.lost = verdict.sent - len(seen)
    torn = [name for name, found in places.items() if found != set(range(totals[name]))]
    aborted_read = journal.having(Event.ABORTED) & set(places)
    missing = journal.having(Event.COMMITTED) - set(places)
    verdict.transactions = len(places)
    verdict.torn, verdict.aborted_read, verdict.committed_missing = len(torn), len(aborted_read), len(missing)
    for what, names in (("torn", torn), ("aborted and read", aborted_read), ("committed and missing", missing)):
        if names:
            verdict.problems.append(f"{what}: {_some(names)}")
    _compare_with_log(verdict, committed, uncommitted)
    return verdict


def _compare_with_log(verdict: Verdict, committed: View, uncommitted: View) -> None:
    for partition, records in committed.items():
        in_log = set(uncommitted[partition])
        beside = [record for record in records if record not in in_log]
        if beside:
            verdict.problems.append(f"partition {partition}: {len(beside)} committed records are not in the log")
        verdict.aborted_in_log += len(in_log) - len(set(records))


def compare_views(live: View, final: View, first_seen_ns: Mapping[str, int], journal: Journal) -> list[str]:
    """What is wrong with what a reader saw all along, beside what a later one found.

    It may see a transaction only after its worker has decided to commit it, and must see in the end what others see.
    """
    problems = []
    for partition, records in final.items():
        if list(live[partition]) != list(records):
            extra = set(live[partition]) - set(records)
            lacking = set(records) - set(live[partition])
            problems.append(
                f"partition {partition}: the reader along saw {len(extra)} other records, and not {len(lacking)}"
            )
    early = []
    for transaction, seen_ns in first_seen_ns.items():
        decided_ns = journal.when(transaction, Event.COMMITTING)
        if decided_ns is None or seen_ns < decided_ns:
            early.append(transaction)
    if early:
        problems.append(f"read before their commit was asked for: {_some(early)}")
    return problems


def _some(names: Iterable[str]) -> str:
    ordered = sorted(names)
    shown = ", ".join(ordered[:_SHOWN])
    return shown if len(ordered) <= _SHOWN else f"{shown} and {len(ordered) - _SHOWN} more"
