"""What a person is told when a table cannot be written, and how that survives its way through Spark.

Spark carries an exception of its Python processes as the text of a traceback. `error_in` finds ours in it again, so
that whoever runs the query can tell what to try again from what has to stop.

Invariant: `str(error)` is one line that says what is wrong and what to do. It never holds a password or a row.
"""

from __future__ import annotations

import re
from typing import ClassVar, Final

from penstock.core.exit_codes import ExitCode


class TableSinkError(Exception):
    """A table cannot be written. `may_pass` says whether trying the same batch again can help."""

    exit_code: ClassVar[ExitCode] = ExitCode.PIPELINE_FAILED
    may_pass: ClassVar[bool] = False


class TableRefused(TableSinkError):
    """The table, or a row for it, does not fit; somebody has to change something."""

    exit_code = ExitCode.SINK_REFUSED


class DatabaseAccessDenied(TableSinkError):
    """The database refuses the user, the password or what we may do."""

    exit_code = ExitCode.ACCESS_DENIED


class DatabaseFull(TableSinkError):
    """No space is left where the database writes."""

    exit_code = ExitCode.DISK_FULL


class Fenced(TableSinkError):
    """Another run of the pipeline has taken over; this one must end."""

    exit_code = ExitCode.FENCED


class DatabaseUnavailable(TableSinkError):
    """The database does not answer, went away, or is busy for too long."""

    may_pass = True


class StagingLost(TableSinkError):
    """Rows that tasks have staged are not there any more: the batch has to be made again."""

    may_pass = True


_BY_NAME: Final[dict[str, type[TableSinkError]]] = {
    kind.__name__: kind
    for kind in (TableRefused, DatabaseAccessDenied, DatabaseFull, Fenced, DatabaseUnavailable, StagingLost)
}
_IN_TRACEBACK: Final = re.compile(rf"{re.escape(__name__)}\.({'|'.join(_BY_NAME)}): (.*)")


def error_in(text: str) -> TableSinkError | None:
    """The last of our errors that a traceback, such as Spark's message, tells of."""
    found = _IN_TRACEBACK.findall(text)
    if not found:
        return None
    name, message = found[-1]
    return _BY_NAME[name](message.strip())


def one_line(text: str) -> str:
    return " ".join(text.split())
