from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from penstock.connect.herder.status_writer import StatusWriter
from penstock.connect.runtime.runner import State
from penstock.connect.storage.json_values import KeyValue
from penstock.connect.storage.status_records import Status, TopicUse, decode
from penstock.connect.storage.table import MemoryTable
from penstock.core.errors import BrokerUnreachable
from tests.unit.connect.herder.fakes import eventually


class SlowTable(MemoryTable):
    """Every write waits for `allowed`, and fails while `is_away`."""

    def __init__(self) -> None:
        super().__init__()
        self.allowed = threading.Event()
        self.allowed.set()
        self.is_away = False
        self.attempts = 0
        self.written: list[object] = []

    def write(self, records: Sequence[KeyValue]) -> None:
        self.attempts += 1
        self.allowed.wait()
        if self.is_away:
            raise BrokerUnreachable("no broker answered in time")
        self.written += [decode(key, value) for key, value in records]

    def transact(self, decide: Callable[[], Sequence[KeyValue]]) -> None:
        raise AssertionError("statuses need no transaction")


def status(state: State, **details: int) -> Status:
    return Status("a", None, state, "worker", 1, details=details)


@pytest.fixture
def table() -> SlowTable:
    return SlowTable()


@pytest.fixture
def writer(table: SlowTable) -> Iterator[StatusWriter]:
    writer = StatusWriter(table, progress_interval_s=3600)
    writer.start()
    yield writer
    table.allowed.set()
    writer.stop()


def test_a_state_that_returns_while_another_is_being_written_is_written(writer: StatusWriter, table: SlowTable) -> None:
    writer.put(status(State.RUNNING))
    eventually(lambda: writer.is_settled("a"))
    table.allowed.clear()
    writer.put(status(State.PAUSED))
    eventually(lambda: table.attempts == 2)
    writer.put(status(State.RUNNING))
    table.allowed.set()
    eventually(lambda: writer.is_settled("a"))
    assert table.written == [status(State.RUNNING), status(State.PAUSED), status(State.RUNNING)]


def test_only_the_latest_of_many_states_is_written(writer: StatusWriter, table: SlowTable) -> None:
    table.allowed.clear()
    writer.put(status(State.RUNNING))
    eventually(lambda: table.attempts == 1)
    for state in (State.RESTARTING, State.FAILED, State.PAUSED):
        writer.put(status(state))
    assert not writer.is_settled("a")
    assert writer.is_settled("b")
    table.allowed.set()
    eventually(lambda: writer.is_settled("a"))
    assert table.written == [status(State.RUNNING), status(State.PAUSED)]


def test_progress_is_written_now_and_then(table: SlowTable) -> None:
    for interval_s, count in ((3600.0, 1), (-1.0, 3)):
        table.written.clear()
        writer = StatusWriter(table, progress_interval_s=interval_s)
        writer.start()
        for records in range(3):
            writer.put(status(State.RUNNING, records=records))
            eventually(lambda writer=writer: writer.is_settled("a"))
        writer.stop()
        assert len(table.written) == count


def test_what_cannot_be_written_is_tried_again_unless_it_moved_away(writer: StatusWriter, table: SlowTable) -> None:
    table.is_away = True
    writer.put(status(State.RUNNING), Status("moved", None, State.RUNNING, "worker", 1), TopicUse("a", "lines", 0, 5))
    eventually(lambda: table.attempts == 1)
    writer.forget("moved", also_waiting=True)
    table.is_away = False
    eventually(lambda: writer.is_settled("a"))
    assert table.written == [status(State.RUNNING), TopicUse("a", "lines", 0, 5)]
    assert writer.is_settled("moved")


def test_a_stop_writes_what_waits(table: SlowTable) -> None:
    writer = StatusWriter(table)
    writer.put(status(State.RUNNING))
    writer.start()
    writer.stop()
    assert table.written == [status(State.RUNNING)]
