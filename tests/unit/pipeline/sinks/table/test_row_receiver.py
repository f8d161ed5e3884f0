"""Rows that tasks stream into the driver's open transaction, on a real PostgreSQL and without Spark."""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from penstock.pipeline import crash_points
from penstock.pipeline.rows.dead_letters import DEAD_LETTER
from penstock.pipeline.sinks.table import row_receiver
from penstock.pipeline.sinks.table.column_types import arrow_schema
from penstock.pipeline.sinks.table.connections import in_driver
from penstock.pipeline.sinks.table.errors import Fenced, StagingLost, TableRefused, TableSinkError
from penstock.pipeline.sinks.table.preparation import claim
from penstock.pipeline.sinks.table.receiver_messages import BeginRows, receive_message, send_message
from penstock.pipeline.sinks.table.row_receiver import with_row_receiver
from penstock.pipeline.sinks.table.target import TableTarget
from penstock.pipeline.sinks.table.task_output import DEAD_LETTERS, Portion, TaskOutput
from tests.postgres_server import PostgresServer
from tests.unit.pipeline.sinks.table.landing_table import MANY, PATIENCE_S, SCHEMA, LandingTable, NewLanding, words


@pytest.fixture
def table(new_landing: NewLanding) -> LandingTable:
    return new_landing()


def await_that(came: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not came():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# One batch


def test_tasks_send_side_by_side_and_nothing_shows_before_the_commit(table: LandingTable) -> None:
    tasks = [table.begin(words(MANY, "x")), table.begin(words(MANY, "y"))]
    for task in tasks:
        task.await_half()
    outputs = [task.finish() for task in tasks]
    assert all(output.rows == Portion(MANY, landed=True) for output in outputs)
    assert table.rows() == Counter()
    assert table.last_batch() is None
    table.commit(*outputs)
    assert table.rows() == Counter([*words(MANY, "x"), *words(MANY, "y")])
    assert table.last_batch() == 0


def test_batch_follows_batch_on_one_connection(table: LandingTable) -> None:
    for batch in range(3):
        table.commit(table.stage(words(MANY, first=batch * MANY), attempt=f"a{batch}"), batch=batch)
    assert table.rows() == Counter(words(3 * MANY))
    assert table.last_batch() == 2
    assert table.sessions() == 1


@pytest.mark.parametrize("dead", [3, MANY], ids=["few dead", "many dead"])
def test_rows_in_the_message_and_dead_letters_go_with_the_landed_ones(new_landing: NewLanding, dead: int) -> None:
    letter = StructType([StructField("value", StringType()), StructField("offset", LongType())])
    table = new_landing(schema=StructType([*SCHEMA, StructField(DEAD_LETTER, letter)]))
    few, many = TaskOutput("a", "q", 1), TaskOutput("a", "q", 2)
    table.store.stage(few, iter([with_dead_letters(table, 10, 0, "x")]))
    table.store.stage(many, iter([with_dead_letters(table, MANY, dead, "y")]))
    assert (few.rows.landed, many.rows.landed) == (False, True)
    assert many.dead.rows == dead
    assert many.dead.is_staged is (dead == MANY)
    table.commit(few, many)
    assert table.rows() == Counter([*words(10, "x"), *words(MANY, "y")])
    found = table.sql(f"SELECT \"offset\" FROM penstock_dead_letters WHERE pipeline = '{table.table}'")
    assert Counter(found) == Counter((number,) for number in range(dead))
    table.store.discard([few, many])


def with_dead_letters(table: LandingTable, good: int, dead: int, word: str) -> Any:
    """Good rows and behind them dead ones, as Spark hands them over."""
    rows = table.batch([*words(good, word), *[(None, None)] * dead])
    kind = pa.struct([(each.name, each.type) for each in arrow_schema(DEAD_LETTERS.columns)])
    letters = [*[None] * good, *({"value": b"a dead row", "offset": number} for number in range(dead))]
    return rows.append_column(DEAD_LETTER, pa.array(letters, kind))


# Tries that fail


def test_a_task_that_dies_takes_its_try_with_it(table: LandingTable) -> None:
    other, done, dies = table.begin(words(MANY)), table.stage(words(MANY, "done")), table.begin(words(MANY))
    other.await_half()
    dies.await_half().die()
    await_that(lambda: not accepts(table, "a"))
    with pytest.raises(StagingLost):
        other.finish()
    with pytest.raises(StagingLost):
        table.commit(done)
    assert (table.rows(), table.last_batch()) == (Counter(), None)
    table.commit(table.stage(words(MANY), attempt="b"))
    assert table.rows() == Counter(words(MANY))


def test_a_task_that_is_gone_between_two_of_its_bytes_does_too(table: LandingTable) -> None:
    done = table.stage(words(MANY))
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(table.receiver.path)
        send_message(connection, BeginRows("a", 99))
        assert receive_message(connection) is None
        connection.sendall(b"\1\2\3")
    await_that(lambda: not accepts(table, "a"))
    with pytest.raises(StagingLost):
        table.commit(done)
    assert table.rows() == Counter()


def accepts(table: LandingTable, attempt: str) -> bool:
    """Whether a task may still come to this try. It would spoil the count of its rows."""
    try:
        table.stage(words(MANY), attempt=attempt)
    except StagingLost:
        return False
    return True


def test_rows_of_a_task_that_succeeded_and_was_lost_behind_that_are_noticed(table: LandingTable) -> None:
    """Spark runs it again under the same try, and COPY cannot take its rows back."""
    table.stage(words(MANY))
    again = table.stage(words(MANY))
    with pytest.raises(StagingLost, match=f"{2 * MANY} of {MANY} staged rows are there"):
        table.commit(again)
    assert (table.rows(), table.last_batch()) == (Counter(), None)
    table.commit(table.stage(words(MANY), attempt="b"))
    assert table.rows() == Counter(words(MANY))


def test_a_newer_try_takes_the_older_ones_place(table: LandingTable) -> None:
    old = table.begin(words(MANY, "old")).await_half()
    new = table.stage(words(MANY), attempt="b")
    with pytest.raises(StagingLost):
        old.finish()
    with pytest.raises(StagingLost):
        table.commit(TaskOutput("a", "q", 1, Portion(MANY, landed=True)))
    table.commit(new)
    assert table.rows() == Counter(words(MANY))


def test_a_newer_try_may_begin_while_the_older_one_commits(
    table: LandingTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after the death of the process that has asked for the commit."""
    arrived, released = threading.Event(), threading.Event()

    def wait(step: str) -> None:
        if step == "table.before_database_commit" and not arrived.is_set():
            arrived.set()
            assert released.wait(PATIENCE_S)

    monkeypatch.setattr(crash_points, "reached", wait)
    commit = table.threads.submit(table.commit, table.stage(words(MANY)))
    assert arrived.wait(PATIENCE_S)
    new = table.stage(words(MANY), attempt="b")
    released.set()
    commit.result(PATIENCE_S)
    table.commit(new)
    assert table.rows() == Counter(words(MANY))
    table.commit(table.stage(words(MANY, "next"), attempt="c"), batch=1)
    await_that(lambda: table.sessions() == 1)


def test_a_try_that_nobody_has_begun_is_not_committed(table: LandingTable) -> None:
    with pytest.raises(StagingLost, match="is no longer open"):
        table.commit(TaskOutput("a", "q", 1, Portion(MANY, landed=True)))


def test_an_aborted_try_ends_its_transaction(table: LandingTable) -> None:
    output = table.stage(words(MANY))
    assert table.sessions() == 1
    table.store.abandon([output])
    await_that(lambda: table.sessions() == 0)
    with pytest.raises(StagingLost):
        table.commit(output)


def test_a_batch_that_the_ledger_holds_is_done(table: LandingTable) -> None:
    table.commit(table.stage(words(MANY)))
    table.commit(table.stage(words(MANY), attempt="b"))
    assert table.rows() == Counter(words(MANY))
    table.commit(table.stage(words(MANY, "next"), attempt="c"), batch=1)
    assert table.rows() == Counter([*words(MANY), *words(MANY, "next")])


def test_a_row_that_the_table_refuses_is_one_line_and_the_next_try_works(new_landing: NewLanding) -> None:
    table = new_landing(create="CREATE TABLE {table} (id bigint PRIMARY KEY, word text)")
    with pytest.raises(TableRefused, match="a row breaks a constraint of the table") as refusal:
        table.commit(table.stage([*words(MANY, "hunter"), (0, "twice")]))
    assert "hunter" not in str(refusal.value)
    assert table.rows() == Counter()
    table.commit(table.stage(words(MANY), attempt="b"))
    assert table.rows() == Counter(words(MANY))


# Other runs


def test_a_run_that_was_taken_over_commits_nothing(table: LandingTable, new_landing: NewLanding) -> None:
    output = table.stage(words(MANY))
    second = new_landing(table=table.table)
    with pytest.raises(TableSinkError) as failure:
        table.commit(output)
    assert isinstance(failure.value, Fenced) or failure.value.may_pass
    with pytest.raises(Fenced):
        table.stage(words(MANY), attempt="b")
    assert (table.rows(), table.last_batch()) == (Counter(), None)
    second.commit(second.stage(words(MANY)))
    assert table.rows() == Counter(words(MANY))


def test_the_ledger_alone_keeps_a_run_that_was_taken_over_from_committing(table: LandingTable) -> None:
    """Whoever takes over may not be allowed to end the sessions of others."""
    output = table.stage(words(MANY))
    table.sql(f"UPDATE penstock_ledger SET owner = 'another' WHERE pipeline = '{table.table}'")
    with pytest.raises(Fenced):
        table.commit(output)
    assert (table.rows(), table.last_batch()) == (Counter(), None)


def test_a_run_that_takes_over_is_not_kept_waiting(new_landing: NewLanding) -> None:
    """By rows of the other's open transaction, which are in the same unique index."""
    first = new_landing(create="CREATE TABLE {table} (id bigint PRIMARY KEY, word text)")
    held = first.begin(words(MANY)).await_half()
    await_that(lambda: first.sql(f"SELECT pg_relation_size('{first.table}')") != [(0,)])
    second = new_landing(table=first.table)
    second.commit(second.threads.submit(second.stage, words(MANY, "second")).result(PATIENCE_S))
    assert first.rows() == Counter(words(MANY, "second"))
    with pytest.raises(TableSinkError):
        first.commit(held.finish())
    assert first.rows() == Counter(words(MANY, "second"))


# Servers that go away


def test_a_server_that_dies_under_a_batch(table: LandingTable, postgres: PostgresServer) -> None:
    table.commit(table.stage(words(10), attempt="before"))
    task = table.begin(words(MANY)).await_half()
    await_that(lambda: table.sql(f"SELECT pg_relation_size('{table.table}')") > [(8192,)])
    postgres.kill()
    postgres.start()
    with pytest.raises(TableSinkError) as failure:
        table.commit(task.finish(), batch=1)
    assert failure.value.may_pass
    assert (table.rows(), table.last_batch()) == (Counter(words(10)), 0)
    table.commit(table.stage(words(MANY), attempt="b"), batch=1)
    assert table.rows() == Counter([*words(10), *words(MANY)])


@pytest.mark.parametrize("step", ["table.before_ledger", "table.before_database_commit", "table.after_database_commit"])
def test_a_server_that_dies_in_a_commit(
    table: LandingTable, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    armed = [step]

    def die(reached: str) -> None:
        if reached in armed:
            armed.remove(reached)
            postgres.kill()
            postgres.start()

    monkeypatch.setattr(crash_points, "reached", die)
    output = table.stage(words(MANY))
    if step == "table.after_database_commit":
        table.commit(output)
    else:
        with pytest.raises(TableSinkError) as failure:
            table.commit(output)
        assert failure.value.may_pass
        assert (table.rows(), table.last_batch()) == (Counter(), None)
    assert not armed
    table.commit(table.stage(words(MANY), attempt="b"))
    assert table.rows() == Counter(words(MANY))


@pytest.mark.parametrize("is_known", [True, False])
def test_a_server_that_is_away_at_the_beginning_is_waited_for(
    table: LandingTable, postgres: PostgresServer, is_known: bool
) -> None:
    if is_known:  # a connection of the last batch is there
        table.commit(table.stage(words(MANY), attempt="before"))
    postgres.kill()
    try:
        task = table.threads.submit(table.stage, words(MANY, "late"))
        time.sleep(0.5)
        assert not task.done()
    finally:
        postgres.start()
    table.commit(task.result(PATIENCE_S), batch=1)
    assert table.rows() == Counter([*(words(MANY) if is_known else []), *words(MANY, "late")])


# The end


def test_what_is_open_at_the_end_is_rolled_back_and_nothing_is_left(table: LandingTable) -> None:
    before = set(threading.enumerate())
    task, output = table.begin(words(MANY)).await_half(), table.stage(words(MANY))
    assert {thread.name.partition("-")[0] for thread in threading.enumerate()} >= {"penstock"}
    directory = Path(table.receiver.path).parent
    assert directory.exists()
    table.receiver.close()
    assert not directory.exists()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("penstock-batch")]
    await_that(lambda: table.sessions() == 0)
    for come_too_late in (task.finish, lambda: table.commit(output), lambda: table.stage(words(MANY))):
        with pytest.raises(StagingLost):
            come_too_late()
    await_that(lambda: not [each for each in threading.enumerate() if each.name == "penstock-row-receiver"])
    assert {thread for thread in set(threading.enumerate()) - before if thread.name.startswith("penstock")} == set()
    assert table.rows() == Counter()
    with in_driver(table.target) as database:
        assert table.store.ledger.is_ours(database)


def test_a_table_that_is_locked_does_not_keep_a_pipeline_from_ending(
    table: LandingTable, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_receiver, "_END_S_MAX", 0.5)
    with psycopg.connect(postgres.url) as somebody:
        somebody.execute(f"LOCK TABLE {table.table} IN ACCESS EXCLUSIVE MODE".encode())
        table.begin(words(MANY))
        await_that(lambda: table.sql("SELECT count(*) FROM pg_locks WHERE NOT granted") == [(1,)])
        table.receiver.close()
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("penstock-batch")]
        assert table.sql("SELECT count(*) FROM pg_locks WHERE NOT granted") == [(0,)]
    assert table.rows() == Counter()


@pytest.mark.parametrize(
    ("settings", "master", "has_receiver"),
    [
        ({}, "local[4]", True),
        ({}, "spark://somewhere:7077", False),
        ({"guarantee": "at_least_once"}, "local[4]", False),
        ({"guarantee": "at_most_once"}, "local[4]", False),
        ({"url": "sqlite:///t.db"}, "local[4]", False),
    ],
)
def test_who_gets_a_row_receiver(settings: dict[str, Any], master: str, has_receiver: bool) -> None:
    target = replace(TARGET, **settings)
    with ExitStack() as resources:
        told = with_row_receiver(target, frame(master), resources)
        assert (told.receiver is not None) is has_receiver
        assert replace(told, receiver=None) == target
        if told.receiver is not None:
            assert Path(told.receiver).parent.stat().st_mode & 0o077 == 0, "others could send rows"
    assert told.receiver is None or not Path(told.receiver).parent.exists()


def test_without_a_place_for_the_socket_tasks_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("d" * 120)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with ExitStack() as resources:
        assert with_row_receiver(TARGET, frame("local[4]"), resources) == TARGET
    assert list(long.iterdir()) == []


TARGET = TableTarget(url="postgresql://127.0.0.1:1/none", table="t", mode="append", pipeline="p", run="r")


def frame(master: str) -> Any:
    return SimpleNamespace(schema=SCHEMA, sparkSession=SimpleNamespace(sparkContext=SimpleNamespace(master=master)))


def test_a_claim_of_the_same_run_leaves_its_own_session_alone(table: LandingTable) -> None:
    output = table.stage(words(MANY))
    claim(table.target, SCHEMA)
    table.commit(output)
    assert table.rows() == Counter(words(MANY))
