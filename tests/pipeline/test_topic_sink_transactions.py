"""The sink's transactions against a real broker (--broker chooses whose), without Spark: every order of events that two
runs, a retry or a timeout can bring about."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from penstock.pipeline.topics import task_output, transaction
from penstock.pipeline.topics.batch_ledger import LedgerEntry, add_to_transaction, read_entry, take_epoch
from penstock.pipeline.topics.errors import BatchInterrupted, Fenced
from penstock.pipeline.topics.row_encoding import Chunk, RowEncoder
from penstock.pipeline.topics.sink_options import SinkOptions, read_sink_options
from penstock.pipeline.topics.transaction import BatchAttempt
from penstock.wire.client import WireClient
from tests.conftest import BrokerStarter, RunningBroker
from tests.pipeline.topic_contents import contents
from tests.pipeline.topic_feed import TopicFeed

PARTITIONS = 2
QUERY = "query-1"


@pytest.fixture
def topic(broker_under_test: RunningBroker) -> str:
    return TopicFeed(broker_under_test.bootstrap_servers).create(partitions=PARTITIONS)


def raw_options(broker: RunningBroker, topic: str, run: str = "run-1", **more: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "topic": topic,
        "guarantee": "exactly_once",
        "transactionalId": f"tx-{topic}",
        "run": run,
        **more,
    }


def claimed(broker: RunningBroker, topic: str, run: str = "run-1", **more: str) -> SinkOptions:
    raw = raw_options(broker, topic, run, **more)
    transaction.claim_ownership(raw)
    return read_sink_options(raw)


def chunks(options: SinkOptions, numbers: Iterable[int]) -> list[Chunk]:
    values = [b"%d" % number for number in numbers]
    rows = pa.record_batch({"key": pa.array(values, pa.binary()), "value": pa.array(values, pa.binary())})
    return list(RowEncoder(options, ["key", "value"], lambda _: PARTITIONS, 0).encode([rows]))


def write(options: SinkOptions, attempt: BatchAttempt, numbers: Iterable[int]) -> None:
    task_output.produce_in_transaction(options, attempt, chunks(options, numbers))


def run_batch(options: SinkOptions, batch_id: int, numbers: Iterable[int]) -> None:
    attempt = transaction.begin_stream_batch(options)
    if not attempt.is_committed(QUERY, batch_id):
        write(options, attempt, numbers)
        transaction.commit_stream_batch(options, attempt, QUERY, batch_id)


def committed_numbers(broker: RunningBroker, topic: str) -> list[int]:
    return sorted(int(record.value or b"") for record in contents(broker.bootstrap_servers, topic))


def test_a_replayed_batch_is_skipped(broker_under_test: RunningBroker, topic: str) -> None:
    options = claimed(broker_under_test, topic)
    run_batch(options, 0, range(100))
    run_batch(options, 0, range(100))
    run_batch(options, 1, range(100, 200))
    run_batch(options, 1, range(100, 200))
    assert committed_numbers(broker_under_test, topic) == list(range(200))


def test_another_query_counts_its_batches_from_the_start(broker_under_test: RunningBroker, topic: str) -> None:
    options = claimed(broker_under_test, topic)
    run_batch(options, 7, range(10))
    attempt = transaction.begin_stream_batch(options)
    assert attempt.is_committed(QUERY, 0)
    assert not attempt.is_committed("query-2", 0)


def test_a_new_run_goes_on_behind_the_last_committed_batch(broker_under_test: RunningBroker, topic: str) -> None:
    run_batch(claimed(broker_under_test, topic, "run-1"), 3, range(10))
    attempt = transaction.begin_stream_batch(claimed(broker_under_test, topic, "run-2"))
    assert attempt.is_committed(QUERY, 3)
    assert not attempt.is_committed(QUERY, 4)


def test_the_first_of_two_runs_is_fenced_before_its_next_batch(broker_under_test: RunningBroker, topic: str) -> None:
    first = claimed(broker_under_test, topic, "run-1")
    run_batch(first, 0, range(10))
    second = claimed(broker_under_test, topic, "run-2")
    with pytest.raises(Fenced):
        run_batch(first, 1, range(10, 20))
    run_batch(second, 1, range(10, 20))
    assert committed_numbers(broker_under_test, topic) == list(range(20))


def test_the_first_of_two_runs_is_fenced_in_the_middle_of_a_batch(broker_under_test: RunningBroker, topic: str) -> None:
    first = claimed(broker_under_test, topic, "run-1")
    attempt = transaction.begin_stream_batch(first)
    write(first, attempt, range(10))
    second = claimed(broker_under_test, topic, "run-2")
    with pytest.raises(Fenced):
        write(first, attempt, range(10, 20))
    with pytest.raises(Fenced):
        transaction.commit_stream_batch(first, attempt, QUERY, 0)
    run_batch(second, 0, range(10))
    assert committed_numbers(broker_under_test, topic) == list(range(10))


def test_a_disturbance_by_nobody_new_is_worth_another_attempt(broker_under_test: RunningBroker, topic: str) -> None:
    options = claimed(broker_under_test, topic)
    attempt = transaction.begin_stream_batch(options)
    write(options, attempt, range(10))
    with WireClient(options.wire_settings) as client:
        take_epoch(client, options)
    with pytest.raises(BatchInterrupted):
        transaction.commit_stream_batch(options, attempt, QUERY, 0)
    run_batch(options, 0, range(10))
    assert committed_numbers(broker_under_test, topic) == list(range(10))


def test_an_attempt_that_died_with_its_offset_pending_does_not_hold_up_the_next(
    broker_under_test: RunningBroker, topic: str
) -> None:
    options = claimed(broker_under_test, topic)
    attempt = transaction.begin_stream_batch(options)
    write(options, attempt, range(10))
    with WireClient(options.wire_settings) as client:
        add_to_transaction(client, options, attempt.producer, LedgerEntry("run-1", QUERY, 0, attempt.name))
    started = time.monotonic()
    run_batch(options, 0, range(10))
    assert time.monotonic() - started < 20
    assert committed_numbers(broker_under_test, topic) == list(range(10))


def test_a_transaction_that_timed_out_is_run_again(broker_under_test: RunningBroker, topic: str) -> None:
    options = claimed(broker_under_test, topic, **{"kafka.transaction.timeout.ms": "1000"})
    attempt = transaction.begin_stream_batch(options)
    write(options, attempt, range(10))
    with WireClient(options.wire_settings) as client:
        deadline = time.monotonic() + 60
        while _state(client, options) != "CompleteAbort":
            assert time.monotonic() < deadline
            time.sleep(0.2)
    with pytest.raises(BatchInterrupted):
        transaction.commit_stream_batch(options, attempt, QUERY, 0)
    run_batch(options, 0, range(10))
    assert committed_numbers(broker_under_test, topic) == list(range(10))


def _state(client: WireClient, options: SinkOptions) -> str:
    assert options.transactional_id is not None
    description = client.describe_transaction(options.transactional_id)
    assert description is not None
    return description.state


def test_a_broker_that_is_killed_within_a_batch(start_broker: BrokerStarter) -> None:
    with start_broker({}) as broker:
        topic = TopicFeed(broker.bootstrap_servers).create(partitions=PARTITIONS)
        options = claimed(broker, topic)
        attempt = transaction.begin_stream_batch(options)

        def interrupted_by_a_kill() -> Any:
            for number, chunk in enumerate([*chunks(options, range(100)), *chunks(options, range(100, 200))]):
                if number == 1:
                    broker.kill()
                    broker.start()
                yield chunk

        task_output.produce_in_transaction(options, attempt, interrupted_by_a_kill())
        broker.kill()
        broker.start()
        transaction.commit_stream_batch(options, attempt, QUERY, 0)
        assert committed_numbers(broker, topic) == list(range(200))


def test_at_most_once_lets_one_attempt_write(broker_under_test: RunningBroker, topic: str) -> None:
    options = claimed(broker_under_test, topic, guarantee="at_most_once")
    first = transaction.begin_stream_batch(options)
    assert transaction.record_before_writing(options, first, QUERY, 0)
    assert transaction.record_before_writing(options, first, QUERY, 0), "another task of the same attempt"
    second = transaction.begin_stream_batch(options)
    assert not transaction.record_before_writing(options, second, QUERY, 0)
    assert transaction.record_before_writing(options, second, QUERY, 1)
    assert not transaction.record_before_writing(options, first, QUERY, 1), "a task that outlived its attempt"


def test_at_most_once_refuses_a_task_that_outlived_its_run(broker_under_test: RunningBroker, topic: str) -> None:
    first_options = claimed(broker_under_test, topic, "run-1", guarantee="at_most_once")
    attempt = transaction.begin_stream_batch(first_options)
    claimed(broker_under_test, topic, "run-2", guarantee="at_most_once")
    with pytest.raises(Fenced):
        transaction.record_before_writing(first_options, attempt, QUERY, 0)


def test_without_a_name_the_planning_process_is_the_run(
    broker_under_test: RunningBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = raw_options(broker_under_test, topic)
    del raw["run"]
    options = read_sink_options(raw)
    run_batch(options, 0, range(10))
    run_batch(options, 1, range(10, 20))
    before = transaction._own_run
    monkeypatch.setattr(transaction, "_own_run", transaction.OwnRun())
    run_batch(options, 2, range(20, 30))
    monkeypatch.setattr(transaction, "_own_run", before)
    with pytest.raises(Fenced):
        run_batch(options, 3, range(30, 40))
    assert committed_numbers(broker_under_test, topic) == list(range(30))


def test_the_ledger_is_an_offset_that_group_tools_can_show(broker_under_test: RunningBroker, topic: str) -> None:
    options = claimed(broker_under_test, topic)
    run_batch(options, 4, range(10))
    with WireClient(options.wire_settings) as client:
        ((partition, committed),) = client.offset_fetch(f"tx-{topic}.batches").items()
        entry = read_entry(client, options, require_stable=True)
    assert (partition.topic, partition.partition, committed.offset) == (topic, 0, 5)
    assert entry is not None
    assert (entry.owner, entry.query_id, entry.batch_id) == ("run-1", QUERY, 4)


def test_a_job_is_one_transaction(broker_under_test: RunningBroker, topic: str) -> None:
    options = read_sink_options(raw_options(broker_under_test, topic, f"{uuid.uuid4()}"))
    given_up = transaction.begin_job(options)
    write(options, given_up, range(10))
    transaction.abort(options, given_up)
    attempt = transaction.begin_job(options)
    write(options, attempt, range(10, 20))
    assert committed_numbers(broker_under_test, topic) == []
    transaction.commit_job(options, attempt)
    assert committed_numbers(broker_under_test, topic) == list(range(10, 20))
