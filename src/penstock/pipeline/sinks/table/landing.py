"""Tables that take all rows of a batch in one session while its tasks run: what the row receiver needs of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.pipeline.sinks.table.database import Database
from penstock.pipeline.sinks.table.numbered_rows import numbered
from penstock.pipeline.sinks.table.store import TableStore
from penstock.pipeline.sinks.table.task_output import TaskOutput


@dataclass(frozen=True, slots=True)
class Landing:
    """The table that bulk load fills: the target itself, or a table of the session, whose rows are numbered."""

    table: str
    columns: Any  # as Arrow's schema
    schema: str | None = None
    in_session: bool = False

    def arranged(self, batches: Iterator[Any], task: int) -> Iterator[Any]:
        return numbered(batches, task) if self.in_session else batches


class LandingStore(TableStore):
    @abstractmethod
    def introduce(self, database: Database) -> None:
        """Gives the session a name, by which a run that takes over finds and ends it."""

    @abstractmethod
    def landing(self, database: Database) -> Landing:
        """Inside a transaction: where rows are to be sent."""

    @abstractmethod
    def land(self, database: Database, landing: Landing, batches: Iterator[Any]) -> int:
        """Loads batches that were arranged for the landing, until they end. The number of their rows."""

    @abstractmethod
    def settle(self, database: Database, landing: Landing, landed: int, outputs: Sequence[TaskOutput]) -> None:
        """Puts landed rows into the target, if they are not there yet. Raises StagingLost unless all have landed."""
