"""The transactions of one log: open ones, completed ones, and the last stable offset (KIP-98).

Owns: the order of open transactions, and completed ones until their markers are below the high watermark.
Must never know: batches, files, replicas. The high watermark is an argument.

Invariant: every transaction below the last stable offset is decided, by a marker below the high watermark. A marker
that could still be lost decides nothing.
"""

from __future__ import annotations

from collections import deque

from penstock.log.transaction_index import TransactionIndex


class Transactions:
    __slots__ = ("_ended", "aborted", "open")

    def __init__(self) -> None:
        self.open: dict[int, int] = {}  # producer id by first offset, in order
        self.aborted = TransactionIndex()
        # First offset and marker of completed transactions. A transaction that began after one with a later marker is
        # left out: it never determines the last stable offset. So both values increase.
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
        """The first offset of the earliest transaction that is open, or whose marker is not below the high watermark.

        The high watermark must not decrease between calls.
        """
        ended = self._ended
        while ended and ended[0][1] < high_watermark:
            ended.popleft()
        first_open = self.first_open_offset
        if not ended:
            return first_open
        return ended[0][0] if first_open is None else min(ended[0][0], first_open)
