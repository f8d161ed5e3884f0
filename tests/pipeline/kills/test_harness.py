"""The harness's own parts: what it counts, and that a plan leaves nothing out."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.pipeline.kills.fault_plan import exactly_once_plan, weaker_plan
from tests.pipeline.kills.number_feed import row_of
from tests.pipeline.kills.report import Difference, Report, difference
from tests.pipeline.kills.sink_contents import (
    FilesUnderTest,
    MariaDbUnderTest,
    PostgresUnderTest,
    SinkUnderTest,
    TableUnderTest,
    TopicUnderTest,
    batches_of,
)
from tests.postgres_server import running_postgres


def test_what_is_missing_what_came_twice_and_what_nobody_sent() -> None:
    expected = Counter("aabc")
    assert difference(expected, Counter("aabc")) == Difference(0, 0, 0)
    assert difference(expected, Counter("acccx")) == Difference(lost=2, repeated=2, strange=1)


@pytest.mark.parametrize(
    ("guarantee", "rows", "letters", "holds"),
    [
        ("exactly_once", Difference(0, 0, 0), Difference(0, 0, 0), True),
        ("exactly_once", Difference(1, 0, 0), Difference(0, 0, 0), False),
        ("exactly_once", Difference(0, 1, 0), Difference(0, 0, 0), False),
        ("exactly_once", Difference(0, 0, 0), Difference(0, 1, 0), False),
        ("exactly_once", Difference(0, 0, 0), Difference(0, 0, 1), False),
        ("at_least_once", Difference(0, 5, 0), Difference(0, 2, 0), True),
        ("at_least_once", Difference(0, 0, 0), Difference(0, 0, 0), False),
        ("at_least_once", Difference(1, 5, 0), Difference(0, 0, 0), False),
        ("at_most_once", Difference(5, 0, 0), Difference(1, 0, 0), True),
        ("at_most_once", Difference(0, 0, 0), Difference(0, 0, 0), False),
        ("at_most_once", Difference(5, 0, 0), Difference(0, 1, 0), False),
    ],
)
def test_what_each_guarantee_has_to_show(guarantee: str, rows: Difference, letters: Difference, holds: bool) -> None:
    report = Report("topic", guarantee, 1, rows=100, letters=10, difference=rows, letters_difference=letters)
    assert report.holds is holds
    assert report.lines()[0].startswith("ok" if holds else "FAILED")
    report.problems.append("something")
    assert not report.holds


@pytest.mark.parametrize("sink", [TopicUnderTest, TableUnderTest, PostgresUnderTest, MariaDbUnderTest, FilesUnderTest])
def test_forty_kills_meet_every_step_and_every_victim(sink: type[SinkUnderTest]) -> None:
    steps = (*sink.other_steps, *sink.before_its_commit, *sink.before_sparks_commit)
    plan = exactly_once_plan(steps, ("broker", "database"), 40, seed=3)
    assert len(plan) == 40
    assert plan == exactly_once_plan(steps, ("broker", "database"), 40, seed=3), "a seed repeats it"
    assert {fault.victim for fault in plan} == {"driver and JVM", "driver", "JVM", "worker", "broker", "database"}
    of_drivers = {fault.step for fault in plan if fault.ends_the_driver}
    assert of_drivers == {*steps, None}, "drivers die at every step, and at random"
    for victim in ("worker", "broker", "database"):
        places = [fault.step for fault in plan if fault.victim == victim]
        assert None in places
        assert len({place for place in places if place}) >= 3


def test_a_weaker_guarantee_is_hit_in_its_window_first() -> None:
    first, second = weaker_plan("topic.before_commit", ("broker",), 2, seed=3)
    assert (first.victim, first.step) == ("driver and JVM", "topic.before_commit")
    assert second.step is None


def test_of_files_those_count_that_the_manifest_lists(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for number in range(4):
        pq.write_table(pa.table({"number": [number], "word": ["a"]}), tmp_path / f"{number}.parquet")
    sink = FilesUnderTest(tmp_path)
    assert len(sink.rows()) == 4, "without a manifest all files do"
    manifest = tmp_path / "_spark_metadata"
    manifest.mkdir()

    def entry(number: int) -> str:
        return json.dumps({"path": f"file://{tmp_path}/{number}.parquet", "action": "add"})

    (manifest / "0").write_text(f"v1\n{entry(0)}")
    (manifest / "1.compact").write_text(f"v1\n{entry(0)}\n{entry(1)}")
    (manifest / "2").write_text(f"v1\n{entry(2)}")
    (manifest / ".3.tmp").write_text(f"v1\n{entry(3)}")
    assert sink.rows() == Counter([row_of(0, "a"), row_of(1, "a"), row_of(2, "a")])
    assert sink.last_batch() == 2
    assert sink.holds_uncommitted()
    (manifest / "3").write_text(f"v1\n{entry(3)}")
    assert not sink.holds_uncommitted()


def test_how_far_a_checkpoint_has_come(tmp_path: Path) -> None:
    assert batches_of(tmp_path) == (-1, -1)
    for name in ("offsets/9", "offsets/10", "offsets/.11.tmp", "commits/9"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert batches_of(tmp_path) == (10, 9)


def test_what_a_transaction_of_postgresql_has_written_is_seen_before_its_end(tmp_path: Path) -> None:
    import psycopg

    with running_postgres(tmp_path) as server, psycopg.connect(server.url, application_name="penstock 1 2") as writer:
        sink = PostgresUnderTest(server.url)

        def look() -> bool:
            sink.look_before_a_kill()
            return sink.holds_uncommitted()

        writer.execute("CREATE TABLE numbers (number bigint)")
        writer.commit()
        writer.execute("SELECT * FROM numbers")
        assert not look(), "it has begun, and written nothing"
        writer.execute("INSERT INTO numbers VALUES (1)")
        assert look()
        writer.commit()
        assert not look()
