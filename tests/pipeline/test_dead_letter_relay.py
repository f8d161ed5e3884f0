"""Dead letters of the outbox reach their topic exactly once, whatever dies in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from penstock.pipeline import crash_points
from penstock.pipeline.rows.dead_letters import DEAD_LETTER
from penstock.pipeline.sinks.table import outbox
from penstock.pipeline.sinks.table.column_types import columns_of
from penstock.pipeline.sinks.table.connections import forget, in_worker
from penstock.pipeline.sinks.table.dead_letter_relay import relay, relay_at_start
from penstock.pipeline.sinks.table.outbox import WaitingLetter
from penstock.pipeline.sinks.table.preparation import claim, prepare, table_store
from penstock.pipeline.sinks.table.target import TableTarget
from penstock.pipeline.sinks.table.task_output import DEAD_LETTERS, TaskOutput
from tests.conftest import RunningBroker
from tests.pipeline.topic_contents import contents
from tests.pipeline.topic_feed import TopicFeed

SCHEMA = StructType(
    [StructField("id", LongType()), StructField(DEAD_LETTER, StructType([StructField("reason", StringType())]))]
)


class Died(Exception):
    pass


@pytest.fixture
def target(broker_under_test: RunningBroker, tmp_path: Path) -> Iterator[TableTarget]:
    servers = broker_under_test.bootstrap_servers
    created = TableTarget(
        url=f"sqlite:///{tmp_path}/t.db",
        table="t",
        mode="append",
        pipeline=f"letters-{uuid4().hex[:8]}",
        run="r",
        dead_letters=TopicFeed(servers).create(partitions=2),
        kafka=(("bootstrap.servers", servers),),
    )
    prepare(created, SCHEMA)
    claim(created, SCHEMA)
    yield created
    forget(created)


def bury(target: TableTarget, batch_id: int, numbers: range) -> None:
    """A batch of one good row and of these dead letters."""
    letters = [
        None,
        *(
            {"key": b"k%d" % n, "value": None, "reason": f"bad {n}", "topic": "orders", "partition": 1, "offset": n}
            for n in numbers
        ),
    ]
    # The field `stage` is missing on purpose.
    kind = pa.struct([field for field in DEAD_LETTERS.schema if field.name != "stage"])
    batch = pa.RecordBatch.from_arrays(
        [pa.array([7] + [None] * len(numbers), pa.int64()), pa.array(letters, kind)], names=["id", DEAD_LETTER]
    )
    store = table_store(target, columns_of(SCHEMA))
    output = TaskOutput(uuid4().hex[:12], "q", batch_id)
    store.stage(output, iter([batch]))
    store.commit_once([output], batch_id)


def offsets_in_topic(target: TableTarget, servers: str) -> list[int]:
    assert target.dead_letters is not None
    letters = contents(servers, target.dead_letters)
    return sorted(int(dict(letter.headers)["penstock.offset"] or b"-1") for letter in letters)


def waiting(target: TableTarget) -> int:
    ((count,),) = in_worker(target).query("SELECT count(*) FROM penstock_dead_letters")
    return int(count)


def test_letters_carry_why_and_where(target: TableTarget, broker_under_test: RunningBroker) -> None:
    bury(target, 0, range(1))
    assert relay(target, in_worker(target)) == 1
    assert target.dead_letters is not None
    (letter,) = contents(broker_under_test.bootstrap_servers, target.dead_letters)
    assert (letter.key, letter.value) == (b"k0", None)
    assert dict(letter.headers) == {
        "penstock.reason": b"bad 0",
        "penstock.stage": None,
        "penstock.topic": b"orders",
        "penstock.partition": b"1",
        "penstock.offset": b"0",
        "penstock.pipeline": target.pipeline.encode(),
    }
    assert in_worker(target).query("SELECT id FROM t") == [(7,)]
    assert waiting(target) == 0


def test_each_letter_is_published_once_whenever_the_relay_dies(
    target: TableTarget, broker_under_test: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    bury(target, 0, range(2500))  # three transactions
    deaths = iter([0, 1, 0])

    def die_after(passes: int) -> Callable[[str], None]:
        left = [passes]

        def reached(step: str) -> None:
            if step == "table.dead_letters_published":
                if not left[0]:
                    raise Died
                left[0] -= 1

        return reached

    for passes in deaths:
        with monkeypatch.context() as patched:
            patched.setattr(crash_points, "reached", die_after(passes))
            with pytest.raises(Died):
                relay(target, in_worker(target))
        if passes == 1:
            bury(target, 1, range(2500, 2600))
    assert waiting(target) == 2600
    forget(target)
    assert relay_at_start(target) == 0  # all were published; what is left is to remove them
    assert waiting(target) == 0
    assert offsets_in_topic(target, broker_under_test.bootstrap_servers) == list(range(2600))


def test_the_later_of_two_relays_wins(
    target: TableTarget, broker_under_test: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    bury(target, 0, range(2500))  # three transactions; the other relay comes behind the first
    others = iter([2500 - 1000])

    def other_relay(step: str) -> None:
        if step == "table.dead_letters_published":
            for left in others:
                assert relay(target, in_worker(target)) == left

    monkeypatch.setattr(crash_points, "reached", other_relay)
    # What the first had read before it was overtaken it cannot publish; what it reads now is not there any more.
    assert relay(target, in_worker(target)) == 1000
    assert offsets_in_topic(target, broker_under_test.bootstrap_servers) == list(range(2500))


def test_a_relay_that_was_overtaken_publishes_nothing(
    target: TableTarget, broker_under_test: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    bury(target, 0, range(100))
    overtaken = iter([outbox.waiting])

    def slow_waiting(*arguments: Any) -> list[WaitingLetter]:
        letters = original(*arguments)
        if arguments[-1] > 1:  # not the first look, whether there is anything
            for _ in overtaken:
                assert relay(target, in_worker(target)) == 100
        return letters

    original = outbox.waiting
    monkeypatch.setattr(outbox, "waiting", slow_waiting)
    assert relay(target, in_worker(target)) == 0
    assert next(overtaken, None) is None
    assert offsets_in_topic(target, broker_under_test.bootstrap_servers) == list(range(100))


def test_a_database_made_anew_is_not_taken_for_the_old_one(
    target: TableTarget, broker_under_test: RunningBroker, tmp_path: Path
) -> None:
    bury(target, 0, range(10))
    relay(target, in_worker(target))
    forget(target)
    for file in tmp_path.glob("t.db*"):
        file.unlink()
    prepare(target, SCHEMA)
    claim(target, SCHEMA)
    bury(target, 0, range(10, 15))  # ids from 1 again
    assert relay(target, in_worker(target)) == 5
    assert offsets_in_topic(target, broker_under_test.bootstrap_servers) == list(range(15))
