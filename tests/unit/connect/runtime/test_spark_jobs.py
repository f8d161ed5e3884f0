"""What a task's failure means, without Spark."""

from __future__ import annotations

import pickle

import pytest

from penstock.connect.connector import ConnectError, RetriableError
from penstock.connect.runtime.spark_jobs import TaskFailed, TaskFailure, retry_of, run_task
from penstock.core.error_table import Retry
from penstock.core.errors import AccessDenied, BrokerUnreachable, ProtocolError


def raises(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "retry", "condition"),
    [
        (RetriableError("busy"), Retry.UNTIL_IT_RETURNS, None),
        (BrokerUnreachable("away"), Retry.UNTIL_IT_RETURNS, "PENSTOCK_BROKER_UNREACHABLE"),
        (ProtocolError("odd"), Retry.A_FEW_TIMES, "PENSTOCK_PROTOCOL_VIOLATION"),
        (AccessDenied("no"), Retry.NEVER, "PENSTOCK_ACCESS_DENIED"),
        (ConnectError("wrong"), Retry.NEVER, None),
        (ZeroDivisionError("a bug"), Retry.NEVER, None),
    ],
)
def test_a_failure_crosses_processes_with_what_may_be_done(
    error: Exception, retry: Retry, condition: str | None
) -> None:
    failure = pickle.loads(pickle.dumps(run_task(raises, error, 0)))
    assert isinstance(failure, TaskFailure)
    assert (failure.message, failure.retry, failure.condition) == (str(error), retry, condition)
    assert "raise error" in failure.trace
    assert retry_of(TaskFailed(failure)) is retry


def test_a_second_attempt_does_nothing() -> None:
    done: list[int] = []
    assert run_task(done.append, 1, 0) is None
    failure = run_task(done.append, 2, 1)
    assert isinstance(failure, TaskFailure)
    assert failure.retry is Retry.UNTIL_IT_RETURNS
    assert done == [1]
