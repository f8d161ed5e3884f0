"""Failures stop a task, or become dead letters with Kafka Connect's headers."""

from __future__ import annotations

import pickle
from typing import Final

import pytest

from penstock.connect.config.definition import ConfigException
from penstock.connect.data.records import Failure
from penstock.connect.errors.policy import ErrorPolicy
from penstock.connect.errors.retries import RetryPolicy
from penstock.connect.errors.stage import Stage, StagedFailure
from tests.unit.connect.raw_records import raw_records

CONVERTER: Final = "org.apache.kafka.connect.json.JsonConverter"
BATCH: Final = raw_records([b"{", b"1", b"["], keys=[b"a", b"b", b"c"], headers=[[("own", b"x")], [], []])
FAILURES: Final = [
    StagedFailure(Stage.VALUE_CONVERTER, CONVERTER, Failure([2, 0], "no JSON")),
]
DLQ: Final = "errors.deadletterqueue"


def test_without_tolerance_the_first_failure_stops_the_task() -> None:
    outcome = ErrorPolicy.of({f"{DLQ}.topic.name": "dlq"}).decide(FAILURES, BATCH, connector="files", task=1)
    assert outcome.error is not None
    assert str(outcome.error).startswith(
        "Tolerance exceeded in error handler: org.apache.kafka.connect.errors.DataException: no JSON"
        " (stage VALUE_CONVERTER, topic orders partition 3 offset 100)"
    )
    assert outcome.dead_letters is not None  # of the record that stops the task, and of no other
    assert outcome.dead_letters.column("value").to_pylist() == [b"{"]
    trace = pickle.loads(pickle.dumps(outcome.error)).trace
    assert trace.splitlines() == [
        "org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler",
        "Caused by: org.apache.kafka.connect.errors.DataException: no JSON",
    ]


def test_nothing_happens_without_failures() -> None:
    outcome = ErrorPolicy.of({}).decide([], BATCH, connector="files", task=1)
    assert outcome.error is None
    assert outcome.skipped == 0


def test_tolerated_failures_are_skipped_without_a_topic() -> None:
    outcome = ErrorPolicy.of({"errors.tolerance": "all"}).decide(FAILURES, BATCH, connector="files", task=1)
    assert (outcome.error, outcome.dead_letters, outcome.skipped, list(outcome.log_lines)) == (None, None, 2, [])


def test_dead_letters_have_the_record_and_its_context() -> None:
    config = {
        "errors.tolerance": "all",
        f"{DLQ}.topic.name": " dlq ",
        f"{DLQ}.context.headers.enable": "true",
    }
    policy = ErrorPolicy.of(config)
    assert policy.dead_letter_topic == "dlq"
    outcome = policy.decide(FAILURES, BATCH, connector="files", task=1)
    assert outcome.dead_letters is not None
    first, second = outcome.dead_letters.to_pylist()
    assert (first["key"], first["value"], second["value"]) == (b"a", b"{", b"[")
    assert [(header["key"], header["value"]) for header in first["headers"]] == [
        ("own", b"x"),
        ("__connect.errors.topic", b"orders"),
        ("__connect.errors.partition", b"3"),
        ("__connect.errors.offset", b"100"),
        ("__connect.errors.connector.name", b"files"),
        ("__connect.errors.task.id", b"1"),
        ("__connect.errors.stage", b"VALUE_CONVERTER"),
        ("__connect.errors.class.name", CONVERTER.encode()),
        ("__connect.errors.exception.class.name", b"org.apache.kafka.connect.errors.DataException"),
        ("__connect.errors.exception.message", b"no JSON"),
        ("__connect.errors.exception.stacktrace", b"org.apache.kafka.connect.errors.DataException: no JSON\n"),
    ]
    assert second["headers"][2]["value"] == b"102"


def test_letters_have_no_context_unless_it_is_wanted() -> None:
    policy = ErrorPolicy.of({"errors.tolerance": "all", f"{DLQ}.topic.name": "dlq"})
    outcome = policy.decide(FAILURES, BATCH, connector="files", task=1)
    assert outcome.dead_letters is not None
    assert [len(headers) for headers in outcome.dead_letters.column("headers").to_pylist()] == [1, 0]


def test_log_lines_show_the_record_if_they_may() -> None:
    config = {"errors.tolerance": "all", "errors.log.enable": "true"}
    (first, _second) = ErrorPolicy.of(config).decide(FAILURES, BATCH, connector="files", task=1).log_lines
    assert first == (
        f"Error encountered in task files-1. Executing stage 'VALUE_CONVERTER' with class '{CONVERTER}'."
        " org.apache.kafka.connect.errors.DataException: no JSON"
    )
    config["errors.log.include.messages"] = "true"
    (first, _second) = ErrorPolicy.of(config).decide(FAILURES, BATCH, connector="files", task=1).log_lines
    assert ", where consumed record is {topic='orders', partition=3, offset=100, timestamp=0, timestampType=" in first


def test_an_unknown_tolerance_is_refused() -> None:
    with pytest.raises(ConfigException, match=r"errors\.tolerance"):
        ErrorPolicy.of({"errors.tolerance": "some"})


def test_delays_double_up_to_a_random_one_below_the_maximum() -> None:
    policy = RetryPolicy(timeout_ms=10_000, delay_max_ms=1000)
    assert [policy.delay_ms(attempt, 0, 0, 0.5) for attempt in (1, 2, 3, 40)] == [300, 600, 500, 500]


def test_retries_end_with_the_timeout() -> None:
    policy = RetryPolicy(timeout_ms=1000)
    assert policy.delay_ms(2, 0, 900, 0.5) == 100
    assert policy.delay_ms(2, 0, 1000, 0.5) is None
    assert RetryPolicy().delay_ms(1, 0, 0, 0.5) is None
    assert RetryPolicy(timeout_ms=-1).delay_ms(1, 0, 10**12, 0.5) == 300
