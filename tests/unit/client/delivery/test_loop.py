"""The order of handler and commit for each guarantee, and the handling of failed batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from penstock.client.delivery.handler_error import HandlerError
from penstock.client.delivery.loop import InvalidGuarantee, run
from penstock.client.delivery.sqlite_store import SQLiteStore
from penstock.client.records import Record
from penstock.core.ids import TopicPartition
from tests.unit.client.fake_consumer import FakeConsumer, record

P0 = TopicPartition("t", 0)


def go(consumer: FakeConsumer, handler: Any, guarantee: Any, store: Any = None, *, batch: bool = False) -> int:
    return run(consumer, handler, guarantee, store, batch=batch, stop_when_idle_s=0)  # type: ignore[arg-type]


def test_at_most_once_commits_before_the_handler() -> None:
    consumer = FakeConsumer([record(0), record(1)])
    assert go(consumer, lambda each: consumer.events.append(f"handle {each.offset}"), "at_most_once") == 2
    assert consumer.events == ["commit", "handle 0", "handle 1"]


def test_at_least_once_commits_after_the_handler() -> None:
    consumer = FakeConsumer([record(0), record(1)])
    assert go(consumer, lambda each: consumer.events.append(f"handle {each.offset}"), "at_least_once") == 2
    assert consumer.events == ["handle 0", "handle 1", "commit"]


def test_a_batch_is_handed_over_whole_where_that_is_asked_for() -> None:
    consumer = FakeConsumer([record(offset) for offset in range(5)], batch_size=3)
    sizes: list[int] = []
    assert go(consumer, lambda records: sizes.append(len(records)), "at_least_once", batch=True) == 5
    assert sizes == [3, 2]


class Failing:
    """Raises at one record, once."""

    def __init__(self, offset: int) -> None:
        self.handled: list[int] = []
        self._offset: int | None = offset

    def __call__(self, each: Record, *_transaction: object) -> None:
        if each.offset == self._offset:
            self._offset = None
            raise ValueError("no good")
        self.handled.append(each.offset)


@pytest.mark.parametrize(
    ("guarantee", "after_the_error", "in_the_end"),
    [
        # The record that failed was attempted, and is not attempted again; nothing else is lost with it.
        ("at_most_once", 2, [0, 2, 3]),
        # It comes again; the one before it does not.
        ("at_least_once", 1, [0, 1, 2, 3]),
    ],
)
def test_a_handler_that_raises(guarantee: str, after_the_error: int, in_the_end: list[int]) -> None:
    consumer = FakeConsumer([record(offset) for offset in range(4)], batch_size=4)
    handler = Failing(1)
    with pytest.raises(HandlerError) as raised:
        go(consumer, handler, guarantee)
    error = raised.value
    assert str(error) == "topic 't' partition 0 offset 1: the handler raised ValueError: no good"
    assert (error.topic, error.partition, error.offset) == ("t", 0, 1)
    assert isinstance(error.__cause__, ValueError)
    assert consumer.offsets_committed == {P0: after_the_error}
    go(consumer, handler, guarantee)
    assert handler.handled == in_the_end
    assert consumer.offsets_committed == {P0: 4}


def test_a_batch_that_raises_names_every_range() -> None:
    consumer = FakeConsumer([record(5), record(6), record(9, partition=1)])

    def fail(_records: Sequence[Record]) -> None:
        raise KeyError("x")

    with pytest.raises(
        HandlerError, match=r"topic 't' partition 0 offsets 5 to 6, topic 't' partition 1 offset 9: the"
    ):
        go(consumer, fail, "at_least_once", batch=True)
    assert consumer.offsets_committed == {}
    assert consumer.positions[P0] == 5


def test_at_most_once_handles_nothing_whose_commit_was_refused() -> None:
    consumer = FakeConsumer([record(0), record(1, partition=1)])
    consumer.refusals = 1
    consumer.lose(TopicPartition("t", 1))
    handled: list[int] = []
    go(consumer, lambda each: handled.append(each.offset), "at_most_once")
    # The first attempt gave the batch back; what was still ours came again.
    assert handled == [0]
    assert consumer.offsets_committed == {P0: 1}


def test_at_least_once_goes_on_after_a_refused_commit() -> None:
    consumer = FakeConsumer([record(offset) for offset in range(4)], batch_size=2)
    consumer.refusals = 1
    handled: list[int] = []
    assert go(consumer, lambda each: handled.append(each.offset), "at_least_once") == 4
    assert handled == [0, 1, 2, 3]
    assert consumer.offsets_committed == {P0: 4}


@pytest.mark.parametrize(
    ("guarantee", "store", "reason"),
    [
        ("exactly_twice", None, "choose one of at_most_once, at_least_once, exactly_once"),
        ("exactly_once", None, "exactly_once requires a store"),
        ("at_least_once", SQLiteStore(":memory:"), "takes no store"),
    ],
)
def test_a_guarantee_that_cannot_be_kept_is_refused(guarantee: str, store: SQLiteStore | None, reason: str) -> None:
    consumer = FakeConsumer([record(0)])
    with pytest.raises(InvalidGuarantee, match=reason):
        go(consumer, lambda _record: None, guarantee, store)
    assert consumer.positions == {P0: 0}
