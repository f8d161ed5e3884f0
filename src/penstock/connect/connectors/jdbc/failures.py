"""What a failure of a database means for a connector: try again, or wait for a person.

The databases' own classes of errors are those of the table sinks of pipelines. Their advice is for authors of
pipelines, so a connector takes the reason and names its own remedy.

Invariant: no message holds a password or a row.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

from penstock.connect.connector import ConnectError, RetriableError
from penstock.connect.data.records import CONNECT_ERRORS, Failure
from penstock.pipeline.sinks.table.errors import (
    DatabaseAccessDenied,
    DatabaseFull,
    DatabaseNotWritable,
    DatabaseUnavailable,
    Fenced,
    RowRefused,
    StagingLost,
    TableSinkError,
)

Result = TypeVar("Result")
CONNECT_EXCEPTION: Final = f"{CONNECT_ERRORS}.ConnectException"
_REMEDIES: Final[dict[type[TableSinkError], str]] = {
    DatabaseAccessDenied: "check connection.user, connection.password and what the user may do",
    DatabaseNotWritable: "correct connection.url, or create the directory and make it writable",
    DatabaseFull: "make room and restart the connector, nothing of the batch was kept",
}
_DEFAULT_REMEDY: Final = (
    "correct the table or the records (transforms, errors.tolerance) and restart the connector, nothing is lost"
)
_MAY_PASS: Final = (DatabaseUnavailable, StagingLost)


def of_connector(error: TableSinkError, remedy: str | None = None) -> RetriableError | ConnectError:
    """The error that the worker understands, in one line with a remedy."""
    if isinstance(error, _MAY_PASS):
        return RetriableError(error.reason)
    if isinstance(error, Fenced):
        return ConnectError(error.reason)
    return ConnectError(f"{error.reason}; {remedy or _REMEDIES.get(type(error), _DEFAULT_REMEDY)}")


def record_failure(rows: Sequence[int], refusal: RowRefused) -> Failure:
    """Records that a database refuses, for dead letters."""
    return Failure(rows, refusal.reason, CONNECT_EXCEPTION)


@contextmanager
def translated(remedy: str | None = None) -> Iterator[None]:
    try:
        yield
    except TableSinkError as error:
        raise of_connector(error, remedy) from None


def retrying(step: Callable[[], Result], retries_max: int, backoff_ms: int) -> Result:
    """Runs a step that may be repeated as a whole, as `max.retries` and `retry.backoff.ms` say."""
    for _attempt in range(retries_max):
        try:
            return step()
        except DatabaseUnavailable:
            time.sleep(backoff_ms / 1000)
    return step()
