"""What a worker keeps configs and statuses in: a table of keyed records that every worker reads in one order.

Owns the interface, and the table of a standalone worker, which lives in memory. `topic_table.py` has the table of a
distributed worker: a compacted topic.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.connect.storage.json_values import KeyValue

OnRecords = Callable[[Sequence[KeyValue]], None]
"""Called with new records in their order, by one thread at a time."""


class Table(Protocol):
    def start(self, on_records: OnRecords) -> None:
        """Returns when `on_records` has seen all records that exist."""
        ...

    def stop(self) -> None: ...

    @property
    def is_reachable(self) -> bool:
        """Whether the last attempt to read it succeeded."""
        ...

    def read_to_end(self) -> None:
        """Returns when `on_records` has seen all records that exist now."""
        ...

    def write(self, records: Sequence[KeyValue]) -> None:
        """Returns when they are durable; `on_records` sees them shortly after."""
        ...

    def transact(self, decide: Callable[[], Sequence[KeyValue]]) -> None:
        """Writes what `decide` returns, all or nothing, and no other transaction of any worker comes between.

        When `decide` is called, `on_records` has seen every earlier record; when `transact` returns, also the new ones.
        `decide` may be called again; whatever it raises ends the transaction without effect.
        """
        ...


class MemoryTable:
    """For one worker that forgets: standalone mode."""

    is_reachable = True

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._on_records: OnRecords = lambda _records: None

    def start(self, on_records: OnRecords) -> None:
        self._on_records = on_records

    def stop(self) -> None:
        pass

    def read_to_end(self) -> None:
        pass

    def write(self, records: Sequence[KeyValue]) -> None:
        with self._lock:
            self._on_records(records)

    def transact(self, decide: Callable[[], Sequence[KeyValue]]) -> None:
        with self._lock:
            self.write(decide())
