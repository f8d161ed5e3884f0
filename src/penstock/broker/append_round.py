"""All appends of one socket read, written together: one pwritev a partition, then the acknowledgements.

Handlers stage and join the round; the connection closes the round when it has handled every whole frame of the read.
"""

from __future__ import annotations

from typing import Protocol

from penstock.broker.partition import Partition


class PendingAcknowledgement(Protocol):
    def written(self) -> None: ...


class AppendRound:
    """Belongs to the event loop: between the first `add` and `write` nothing else runs."""

    __slots__ = ("_partitions", "_pending")

    def __init__(self) -> None:
        self._partitions: set[Partition] = set()
        self._pending: list[PendingAcknowledgement] = []

    def add(self, partition: Partition) -> None:
        self._partitions.add(partition)

    def acknowledge(self, pending: PendingAcknowledgement) -> None:
        self._pending.append(pending)

    def write(self) -> None:
        """Until nothing is staged: what one append set in motion may be another one, such as a transaction's end."""
        while self._pending:
            partitions, self._partitions = self._partitions, set()
            pending, self._pending = self._pending, []
            for partition in partitions:
                partition.write_staged()
            for acknowledgement in pending:
                acknowledgement.written()
