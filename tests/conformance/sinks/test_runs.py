"""Every sink with every guarantee that it keeps, on Spark: rows arrive, and crashes do what the guarantee says.

The kill of a whole driver is in `tests/pipeline/kills`; here the same windows are reached in one session of Spark, so
that the suite is quick enough for every change.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from penstock.core.exit_codes import ExitCode
from penstock.core.guarantee import Guarantee
from penstock.pipeline import crash_points as product_steps
from penstock.pipeline.failure import PipelineFailed
from tests import crash_points
from tests.conformance.sinks.adapters import (
    UNDER_TEST,
    Rows,
    SinkAdapter,
    kept_guarantees,
    remove_last_commit,
)
from tests.conftest import RunningBroker
from tests.pipeline.pipeline_runs import Pipelines
from tests.pipeline.table_job import rows_of

# `make test` runs the strongest guarantee of a sink of each way to commit, `make test-slow` everything else.
OFTEN: Final = ("topic", "table-sqlite", "files")


def _slow_unless(is_often: bool) -> list[pytest.MarkDecorator]:
    return [] if is_often else [pytest.mark.slow]


CASES: Final = [
    pytest.param(name, guarantee, id=f"{name}-{guarantee}", marks=_slow_unless(name in OFTEN and rank == 0))
    for name, (adapter, _) in UNDER_TEST.items()
    for rank, guarantee in enumerate(kept_guarantees(adapter))
]
STRONGEST: Final = [
    pytest.param(name, kept_guarantees(adapter)[0], id=name, marks=_slow_unless(name in OFTEN))
    for name, (adapter, _) in UNDER_TEST.items()
]
# More than a message of a task may carry, so that tables stage or stream them.
ROOM: Final = "x" * 2000
COUNT: Final = 60


class Scenario:
    """One pipeline from a topic to the sink under test, run as often as a test wants."""

    def __init__(self, sink: SinkAdapter, guarantee: Guarantee, transform: str = "SELECT * FROM source") -> None:
        self.sink = sink
        self.guarantee = guarantee
        self.pipelines = sink.pipelines
        self.source = self.pipelines.topic("numbers")
        self.letters = self.pipelines.topic("letters", partitions=1)
        self.events: list[Any] = []
        self._sent = 0
        self.yaml = json.dumps(
            {
                "name": self.pipelines.name("copied"),
                "guarantee": guarantee,
                "source": {"topic": self.source, "schema": "id BIGINT, word STRING"},
                "transform": transform,
                "sink": sink.declaration(guarantee),
                "on_error": {"dead_letters": self.letters},
            }
        )

    @property
    def checkpoint(self) -> Path:
        return self.pipelines.directory / ".penstock" / "checkpoints" / self.pipelines.name("copied")

    def send(self) -> Rows:
        """A few rows and one that does not parse."""
        first, self._sent = self._sent, self._sent + COUNT
        rows = [(number, f"{number} {ROOM}") for number in range(first, self._sent)]
        self.pipelines.send(self.source, [*({"id": number, "word": word} for number, word in rows), f"bad {first}"])
        return Counter(rows)

    def with_sink(self, sink: Any) -> str:
        return json.dumps({**json.loads(self.yaml), "sink": sink})

    def run(self, yaml: str | None = None) -> list[Any]:
        events = self.pipelines.once(yaml or self.yaml)
        self.events += events
        return events

    def rows(self) -> Rows:
        return self.sink.rows(self.events)

    def bad_rows(self) -> Counter[str | None]:
        return Counter(found.value for found in self.pipelines.records(self.letters))


NewScenario = Callable[..., Scenario]


@pytest.fixture
def new_scenario(
    spark: SparkSession, broker_under_test: RunningBroker, tmp_path: Path, urls: Callable[[str], str]
) -> NewScenario:
    def create(name: str, guarantee: Guarantee, **more: str) -> Scenario:
        adapter, database = UNDER_TEST[name]
        pipelines = Pipelines(spark, broker_under_test.bootstrap_servers, tmp_path)
        return Scenario(adapter(pipelines, urls(database) if database else ""), guarantee, **more)

    return create


@pytest.mark.parametrize(("name", "guarantee"), CASES)
def test_a_replayed_batch_does_what_the_guarantee_says(
    name: str, guarantee: Guarantee, new_scenario: NewScenario
) -> None:
    case = new_scenario(name, guarantee)
    first = case.send()
    case.run()
    assert case.rows() == first, "rows arrive"
    assert case.bad_rows() == Counter(["bad 0"])
    older = case.pipelines.directory / "older"
    shutil.copytree(case.checkpoint, older)

    second = case.send()
    require_the_same_sink(case)
    assert case.rows() == first, "nothing of what was refused has reached the sink"
    case.run(case.with_sink(case.sink.respelled(guarantee)))
    assert case.rows() == first + second, "a restart continues, also where the same sink is spelled in another way"
    bad = Counter(["bad 0", f"bad {COUNT}"])
    assert case.bad_rows() == bad

    remove_last_commit(case.checkpoint)
    case.run()
    repeats = guarantee == "at_least_once"
    assert case.rows() == first + second + (second if repeats else Counter())
    assert case.bad_rows() == bad + (Counter([f"bad {COUNT}"]) if repeats else Counter())

    if guarantee in case.sink.knows_its_batches:
        # It would give the numbers of batches that the sink holds to rows that it does not hold.
        third = case.send()
        with pytest.raises(PipelineFailed, match=r"older copy: .* holds batch 1 of it already") as refusal:
            case.pipelines.once(case.yaml, checkpoint=str(older))
        assert refusal.value.exit_code == ExitCode.CHECKPOINT_MISMATCH
        case.run()
        assert case.rows() == first + second + third, "the newest checkpoint continues"


@pytest.mark.parametrize(("name", "guarantee"), [case for case in CASES if str(case.values[0]).startswith("table-")])
def test_a_tombstone_deletes_the_row_of_its_key(name: str, guarantee: Guarantee, new_scenario: NewScenario) -> None:
    case = new_scenario(name, guarantee)
    declared = json.loads(case.yaml)
    declared["source"] |= {"include": ["key"], "tombstones": "keep"}
    declared["source"]["expect"] = {"a word": "word IS NOT NULL"}
    declared["transform"] = "SELECT coalesce(id, CAST(_key AS BIGINT)) AS id, word, _tombstone FROM source"
    declared["sink"] |= {"key": ["id"], "delete_when": "_tombstone"}
    yaml = json.dumps(declared)
    rows = [(number, f"{number} {ROOM}") for number in range(COUNT)]
    case.pipelines.send(case.source, [{"id": number, "word": word} for number, word in rows])
    case.run(yaml)
    assert case.rows() == Counter(rows)
    # Within a partition, the last change of a key wins.
    for number, change in (
        (0, None),
        (1, {"id": 1, "word": "late"}),
        (1, None),
        (2, None),
        (2, {"id": 2, "word": "again"}),
    ):
        case.pipelines.send(case.source, [change], key=str(number))
    case.pipelines.send(case.source, ["bad"])
    case.run(yaml)
    expected = Counter(dict.fromkeys(rows[3:], 1) | {(2, "again"): 1})
    assert case.rows() == expected
    assert case.bad_rows() == Counter(["bad"])
    remove_last_commit(case.checkpoint)
    case.run(yaml)
    assert case.rows() == expected, "deleting again changes nothing"


@pytest.mark.parametrize(
    ("name", "guarantee"), [case for case in STRONGEST if str(case.values[0]).startswith("table-")]
)
def test_nested_values_and_new_columns_arrive_in_tables(
    name: str, guarantee: Guarantee, new_scenario: NewScenario
) -> None:
    case = new_scenario(name, guarantee)
    declared = json.loads(case.yaml)
    columns = "id BIGINT, tags ARRAY<STRING>, place STRUCT<x: INT>, sizes MAP<STRING, INT>"
    declared["source"]["schema"] = columns
    case.pipelines.send(case.source, [{"id": 1, "tags": ["a", None], "place": {"x": 1}, "sizes": {"m": 2}}, {"id": 2}])
    case.run(json.dumps(declared))

    declared["source"]["schema"] = f"{columns}, word STRING"
    case.pipelines.send(case.source, [{"id": 3, "tags": [], "place": {}, "word": "new"}, "bad"])
    with pytest.raises(PipelineFailed, match=r"has no column 'word'; .*schema_evolution: add_columns") as refusal:
        case.run(json.dumps(declared))
    assert refusal.value.exit_code == ExitCode.SINK_REFUSED
    declared["sink"]["schema_evolution"] = "add_columns"
    case.run(json.dumps(declared))

    query = f"SELECT id, tags, place, sizes, word FROM {declared['sink']['table']} ORDER BY id"
    found = [[_parsed(value) for value in row] for row in rows_of(case.sink.url, query)]
    assert found == [
        [1, ["a", None], {"x": 1}, {"m": 2}, None],
        [2, None, None, None, None],
        [3, [], {"x": None}, None, "new"],
    ]


def _parsed(value: Any) -> Any:
    """JSON is text to some drivers; an array of PostgreSQL is a list to its own."""
    return json.loads(value) if isinstance(value, str) and value[:1] in "[{" else value


def require_the_same_sink(case: Scenario) -> None:
    """A checkpoint knows its sink: rows are never split over two places."""
    for sink in case.sink.elsewhere(case.guarantee):
        with pytest.raises(
            PipelineFailed, match=r"its batches went to .*, and .*; .*another directory with --checkp"
        ) as no:
            case.run(case.with_sink(sink))
        assert no.value.exit_code == ExitCode.CHECKPOINT_MISMATCH
    assert not (case.pipelines.directory / "elsewhere").exists()


@pytest.mark.parametrize(("name", "guarantee"), [case for case in CASES if case.values[1] != "at_least_once"])
def test_a_crash_before_the_commit_does_what_the_guarantee_says(
    name: str, guarantee: Guarantee, new_scenario: NewScenario, crash_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = new_scenario(name, guarantee)
    sent = case.send()
    step = case.sink.recorded if guarantee == "at_most_once" else case.sink.before_commit
    _run_with_crash(case, step, crash_directory, monkeypatch)
    assert case.rows() == (Counter() if guarantee == "at_most_once" else sent)
    assert case.bad_rows() <= Counter(["bad 0"]), "no dead letter is repeated"


@pytest.mark.parametrize(
    ("name", "guarantee"),
    [
        pytest.param(name, "exactly_once", id=f"{name}-exactly_once", marks=_slow_unless(name == "topic"))
        for name, (adapter, _) in UNDER_TEST.items()
        if "exactly_once" in kept_guarantees(adapter)
    ],
)
def test_rows_that_fail_in_the_transform_are_dead_letters_once(
    name: str, guarantee: Guarantee, new_scenario: NewScenario, crash_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch fails unguarded, then crashes before its commit, then commits, and then is replayed."""
    transform = "SELECT id, IF(word = 'fails', CAST(CAST(word AS INT) AS STRING), word) AS word FROM source"
    case = new_scenario(name, guarantee, transform=transform)
    sent = case.send()
    case.pipelines.send(case.source, [{"id": -1, "word": "fails"}])
    step = case.sink.before_commit
    _run_with_crash(case, step, crash_directory, monkeypatch)
    bad = Counter(["bad 0", '{"id": -1, "word": "fails"}'])
    assert (case.rows(), case.bad_rows()) == (sent, bad)
    remove_last_commit(case.checkpoint)
    more = case.send()
    case.run()
    assert (case.rows(), case.bad_rows()) == (sent + more, bad + Counter([f"bad {COUNT}"]))


def _run_with_crash(case: Scenario, step: str, crash_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if case.sink.steps_are_in_workers:
        crash_points.arm(crash_directory, step)
        case.run()
        assert crash_points.was_hit(crash_directory, step)
    else:
        crashed = _crash_once(monkeypatch, step)
        case.run()
        assert crashed.is_set()


def _crash_once(monkeypatch: pytest.MonkeyPatch, step: str) -> threading.Event:
    """In place of a kill, which would be the end of the tests: the driver's own code raises at the step."""
    crashed = threading.Event()

    def reached(arrived_at: str) -> None:
        if arrived_at == step and not crashed.is_set():
            crashed.set()
            raise ConnectionError("a crash that a test has asked for")

    monkeypatch.setattr(product_steps, "reached", reached)
    return crashed


@pytest.mark.parametrize(("name", "guarantee"), STRONGEST)
def test_a_second_run_fences_the_first(name: str, guarantee: Guarantee, new_scenario: NewScenario) -> None:
    case = new_scenario(name, guarantee)
    first = case.send()
    with case.pipelines.start(case.yaml) as running:
        running.wait_until(lambda: case.sink.rows(running.events) == first)
        second = case.send()
        case.run()
        ended = running.wait_for_end()
    assert ended is not None
    assert ended.exit_code == ExitCode.FENCED
    found = case.sink.rows([*running.events, *case.events])
    if guarantee == "exactly_once":
        assert found == first + second
    else:
        assert set(found) == set(first + second), "nothing is lost"
