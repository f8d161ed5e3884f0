"""Errors of the table sink. Each names its condition of `core/error_table.py`, which decides about retries.

Invariant: `str(error)` is one line that says what is wrong and what to do. It never holds a password or a row.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.core.error_table import Retry
from penstock.core.errors import PenstockError


class TableSinkError(PenstockError):
    """A table cannot be written."""

    condition = "PENSTOCK_SINK_FAILED"

    def __init__(self, reason: str, advice: str = "") -> None:
        """`reason` says what is wrong and where, for callers that have advice of their own."""
        super().__init__(f"{reason}; {advice}" if advice else reason)
        self.reason = reason

    @property
    def fields(self) -> Mapping[str, str]:
        return {"key": "sink"}

    @property
    def may_pass(self) -> bool:
        """Whether the same batch may succeed when it runs again."""
        return self.entry.retry is not Retry.NEVER


class TableRefused(TableSinkError):
    """The table, or a row for it, does not fit; a person has to change one of them."""

    condition = "PENSTOCK_SINK_REFUSED"


class RowRefused(TableRefused):
    """A row, and not the table: it breaks a constraint, or a value does not fit its column."""


class DatabaseAccessDenied(TableSinkError):
    """The database refuses the user, the password or the operation."""

    condition = "PENSTOCK_ACCESS_DENIED"


class DatabaseNotWritable(TableSinkError):
    """The database is a file that cannot be created or written: its directory does not exist, or it is read-only."""

    condition = "PENSTOCK_NOT_WRITABLE"


class DatabaseFull(TableSinkError):
    """No space is left where the database writes."""

    condition = "PENSTOCK_DATABASE_FULL"


class Fenced(TableSinkError):
    """Another run of the pipeline has taken over; this one must end."""

    condition = "PENSTOCK_SINK_FENCED"


class DatabaseUnavailable(TableSinkError):
    """The database does not answer, closed the connection, or stayed locked for too long."""

    condition = "PENSTOCK_DATABASE_UNAVAILABLE"


class StagingLost(TableSinkError):
    """Rows that tasks have staged are gone: the batch has to run again."""

    condition = "PENSTOCK_STAGING_LOST"


def one_line(text: str) -> str:
    return " ".join(text.split())
