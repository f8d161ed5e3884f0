"""Our errors in the text of a traceback."""

from __future__ import annotations

import traceback

import pytest

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.sinks.errors import DatabaseUnavailable, Fenced, TableSinkError, error_in


def told(error: TableSinkError) -> str:
    try:
        raise error
    except TableSinkError:
        return f"Failed when ...: {traceback.format_exc()} SQLSTATE: 38000"


@pytest.mark.parametrize("error", [Fenced("another run has taken over"), DatabaseUnavailable("it went away: why")])
def test_an_error_is_found_again_behind_spark(error: TableSinkError) -> None:
    found = error_in(told(error))
    assert type(found) is type(error)
    assert str(found) == str(error)


def test_other_failures_are_not_ours() -> None:
    assert error_in("java.lang.OutOfMemoryError: Java heap space") is None


def test_what_may_pass_and_what_has_to_stop() -> None:
    assert DatabaseUnavailable("").may_pass
    assert not Fenced("").may_pass
    assert Fenced("").exit_code == ExitCode.FENCED
