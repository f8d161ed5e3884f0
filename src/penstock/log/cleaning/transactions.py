"""The transactions that a cleaner meets as it reads a log: which data is aborted, which markers are no longer needed.

Invariant: an aborted transaction stays in the transaction index exactly as long as one of its batches may be in the
log. Without its data an entry would be wrong: a reader skips a producer's records until it meets the ABORT marker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from penstock.protocol.control_records import read_marker
from penstock.protocol.record_batch import BatchHeader


class AbortedEntry(NamedTuple):
    """An entry of the transaction index."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class ReadTransactions:
    """Give it every batch in order."""

    __slots__ = ("_aborted", "_ahead", "_committed", "_has_data", "kept")

    def __init__(self, aborted: Iterable[AbortedEntry], start_offset: int) -> None:
        """`aborted` are all aborted transactions of the log; those that ended before `start_offset` are not met."""
        self._ahead = deque(
            sorted((each for each in aborted if each.last_offset >= start_offset), key=lambda each: each.first_offset)
        )
        self._aborted: dict[int, AbortedEntry] = {}  # those whose ABORT marker is ahead, by producer
        self._has_data: set[int] = set()  # the producers of those whose data is in the log
        self._committed: set[int] = set()  # producers with data whose COMMIT marker is ahead
        self.kept: list[AbortedEntry] = []

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch of data belongs to an aborted transaction."""
        if not header.is_transactional:
            return False
        self._reach(header.end_offset - 1)
        producer_id = header.producer_id
        if producer_id in self._aborted:
            self._has_data.add(producer_id)
            return True
        self._committed.add(producer_id)
        return False

    def is_marker_needed(self, batch: memoryview, header: BatchHeader) -> bool:
        """Whether the log has, or had until this pass, data of the transaction that this marker ends."""
        self._reach(header.end_offset - 1)
        if header.records_count == 0:
            return False
        marker = read_marker(batch, header)
        if marker is None:
            return True
        producer_id = header.producer_id
        if marker.committed:
            needed = producer_id in self._committed
            self._committed.discard(producer_id)
            return needed
        entry = self._aborted.pop(producer_id, None)
        needed = producer_id in self._has_data
        self._has_data.discard(producer_id)
        if needed and entry is not None:
            self.kept.append(entry)
        return needed

    def _reach(self, offset: int) -> None:
        while self._ahead and self._ahead[0].first_offset <= offset:
            entry = self._ahead.popleft()
            self._aborted[entry.producer_id] = entry
