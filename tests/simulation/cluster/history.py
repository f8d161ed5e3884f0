"""What clients asked for and were told, and what must follow from it.

Every value is written by one producer at most once, so that a value found twice is a duplicate. A record that was
acknowledged must be found at its offset for ever. A transaction's values are seen by `read_committed` readers all or
none, and none of them before the end of the transaction is known to be its commit.

Owns the promises. Must never know how brokers keep them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Final

from tests.simulation.cluster.client import Place
from tests.simulation.cluster.world import SimulationFault

_SHOWN: Final = 5


class Outcome(Enum):
    OPEN = "open"
    UNKNOWN = "unknown"  # a commit was asked for
    COMMITTED = "committed"
    ABORTED = "aborted"


class Transaction:
    """`acknowledged` are its values that the cluster took; others may have been written, or not."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.outcome = Outcome.OPEN
        self.acknowledged: set[bytes] = set()
        self.offset: int | None = None
        """What it committed as its group's offset."""


class History:
    """Raises SimulationFault when an answer contradicts an earlier one."""

    def __init__(self) -> None:
        self.acknowledged: dict[Place, dict[int, bytes]] = {}
        self.transaction_of: dict[bytes, Transaction] = {}
        self.transactions: list[Transaction] = []
        self.attempted: set[bytes] = set()
        self.committed_offsets: dict[str, int] = {}
        """By group: the newest offset whose commit was acknowledged."""
        self.attempted_offsets: dict[str, int] = {}
        self._known: dict[Place, dict[int, bytes]] = {}
        self._read_committed: dict[bytes, str] = {}

    # Told by clients

    def begin_transaction(self, name: str) -> Transaction:
        transaction = Transaction(name)
        self.transactions.append(transaction)
        return transaction

    def attempts(self, values: Iterable[bytes], transaction: Transaction | None) -> None:
        for value in values:
            self.attempted.add(value)
            if transaction is not None:
                self.transaction_of[value] = transaction

    def acknowledges(self, place: Place, base_offset: int, values: Iterable[bytes]) -> None:
        for offset, value in enumerate(values, base_offset):
            self._sees(place, offset, value, "acknowledged")
            self.acknowledged.setdefault(place, {})[offset] = value
            if value in self.transaction_of:
                self.transaction_of[value].acknowledged.add(value)

    def reads(self, place: Place, offset: int, value: bytes, reader: str) -> None:
        self._sees(place, offset, value, f"read by {reader}")

    def reads_committed(self, place: Place, offset: int, value: bytes, reader: str) -> None:
        self.reads(place, offset, value, reader)
        self._read_committed[value] = reader
        transaction = self.transaction_of.get(value)
        if transaction is not None and transaction.outcome in (Outcome.OPEN, Outcome.ABORTED):
            raise SimulationFault(
                f"{reader} (read_committed) read {value!r} of the transaction {transaction.name}, which is "
                f"{transaction.outcome.value}"
            )

    def _sees(self, place: Place, offset: int, value: bytes, how: str) -> None:
        known = self._known.setdefault(place, {}).setdefault(offset, value)
        if known != value:
            raise SimulationFault(f"{place} offset {offset} was {known!r} before, and now {value!r} is {how}")

    def attempts_offset(self, group: str, offset: int) -> None:
        self.attempted_offsets[group] = offset

    def commits_offset(self, group: str, offset: int) -> None:
        self.committed_offsets[group] = offset

    def finds_offset(self, group: str, offset: int, how: str) -> None:
        """`offset` is -1 where the group has none."""
        least, most = self.committed_offsets.get(group, -1), self.attempted_offsets.get(group, -1)
        if not least <= offset <= most:
            raise SimulationFault(
                f"{how}: the group {group} has offset {offset}; {least} was acknowledged, {most} was the last one sent"
            )

    # Asked at the end

    def check_logs(self, values: Mapping[Place, Mapping[int, bytes]]) -> None:
        """Against everything that the logs hold: data records by offset."""
        for place, acknowledged in self.acknowledged.items():
            found = values.get(place, {})
            lost = [f"{value!r} at {offset}" for offset, value in acknowledged.items() if found.get(offset) != value]
            if lost:
                raise SimulationFault(f"{place}: {len(lost)} acknowledged records are lost: {lost[:_SHOWN]}")
        places: dict[bytes, tuple[Place, int]] = {}
        for place, records in values.items():
            for offset, value in records.items():
                if value in places:
                    raise SimulationFault(f"{value!r} is twice in the log: at {places[value]} and {(place, offset)}")
                places[value] = (place, offset)
                if value not in self.attempted:
                    raise SimulationFault(f"{place} offset {offset} holds {value!r}, which was never sent")

    def check_committed(self, values: Mapping[Place, Mapping[int, bytes]]) -> None:
        """Against everything that a `read_committed` reader finds."""
        visible = {value for records in values.values() for value in records.values()}
        for transaction in self.transactions:
            seen = transaction.acknowledged & visible
            if transaction.outcome is Outcome.COMMITTED and seen != transaction.acknowledged:
                lost = sorted(transaction.acknowledged - seen)[:_SHOWN]
                raise SimulationFault(f"the transaction {transaction.name} was committed, and {lost} are not visible")
            if transaction.outcome is Outcome.UNKNOWN and seen and seen != transaction.acknowledged:
                raise SimulationFault(f"of the transaction {transaction.name} only {sorted(seen)} are visible")
        self._check_visible(visible, lambda value: "the last reader")
        self._check_visible(self._read_committed, lambda value: self._read_committed[value])
        for acknowledged in self.acknowledged.values():
            for value in acknowledged.values():
                if value not in self.transaction_of and value not in visible:
                    raise SimulationFault(f"{value!r} was acknowledged, and read_committed readers do not see it")

    def _check_visible(self, values: Iterable[bytes], reader: Callable[[bytes], str]) -> None:
        for value in values:
            transaction = self.transaction_of.get(value)
            if transaction is not None and transaction.outcome in (Outcome.OPEN, Outcome.ABORTED):
                raise SimulationFault(
                    f"{reader(value)} (read_committed) read {value!r} of the transaction {transaction.name}, which is "
                    f"{transaction.outcome.value}"
                )
