"""The transactions of one log: which are open, which have ended, and how far everything is decided (KIP-98).

Owns: the order of open transactions, and the memory of ended ones until their markers may be read.
Must never know: batches, files, replicas. The high watermark arrives as an argument.

Invariant: what lies below the last stable offset is decided, and the markers that decided it lie below the high
watermark. A marker that could still be lost decides nothing.
"""

from __future__ import annotations

from collections import deque

from penstock.log.transaction_index import TransactionIndex


class Transactions:
    __slots__ = ("_ended", "aborted", "open")

    def __init__(self) -> None:
        self.open: dict[int, int] = {}  # the first offset of each, in order, and its producer id
        self.aborted = TransactionIndex()
        # First offset and marker of each transaction that has ended. One that began after a later one is left out: it
        # is readable before that one, and so never decides. What is left increases in both.
        self._ended: deque[tuple[int, int]] = deque()

    @property
    def first_open_offset(self) -> int | None:
        return next(iter(self.open), None)

    def begin(self, producer_id: int, first_offset: int) -> None:
        self.open[first_offset] = producer_id

    def end(self, producer_id: int, first_offset: int, marker_offset: int, committed: bool) -> None:
        del self.open[first_offset]
        if not committed:
            first_open = self.first_open_offset
            last_stable_offset = marker_offset + 1 if first_open is None else first_open
            self.aborted.append(producer_id, first_offset, marker_offset, last_stable_offset)
        ended = self._ended
        while ended and ended[-1][0] > first_offset:
            ended.pop()
        ended.append((first_offset, marker_offset))

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Where the first transaction began that is open, or whose marker is not below the high watermark.

        The high watermark may only grow from call to call.
        """
        ended = self._ended
        while ended and ended[0][1] < high_watermark:
            ended.popleft()
        first_open = self.first_open_offset
        if not ended:
            return first_open
        return ended[0][0] if first_open is None else min(ended[0][0], first_open)
