"""Pipelines with several sinks: each has its own progress, a bad row is published once, and one failure ends all."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import Pipeline, Table, Topic
from penstock.core.exit_codes import ExitCode
from penstock.pipeline.api import ProgramRun, hosting
from penstock.pipeline.failure import PipelineFailed
from penstock.pipeline.run import PipelineRun
from tests.pipeline.pipeline_runs import Pipelines, of_kind, sqlite_rows

ORDERS = "id BIGINT, customer STRING, amount DOUBLE"


def order(number: int, customer: str, amount: Any) -> dict[str, Any]:
    return {"id": number, "customer": customer, "amount": amount}


def test_two_sinks_get_every_row_once_and_the_dead_letters_are_published_once(pipelines: Pipelines) -> None:
    orders, large, letters = pipelines.topic("orders"), pipelines.topic("large"), pipelines.topic("letters")
    name = pipelines.name("two")
    declared = f"""
        name: {name}
        guarantee: exactly_once
        source: {{topic: {orders}, schema: "{ORDERS}"}}
        transform:
          - cleaned: SELECT id, customer, amount FROM source WHERE amount > 0
          - revenue: SELECT customer, sum(amount) AS revenue FROM cleaned GROUP BY customer
        sinks:
          large: {{topic: {large}, from: cleaned, key: customer}}
          totals: {{table: revenue, url: "sqlite:///revenue.db", key: [customer]}}
        on_error: {{dead_letters: {letters}}}
    """
    pipelines.send(orders, [order(1, "ada", 10), "nonsense", order(2, "bob", 5), order(3, "ada", "much")])
    events = pipelines.once(declared)
    database = pipelines.directory / "revenue.db"
    assert sorted(row["id"] for row in pipelines.values(large)) == [1, 2]
    assert sqlite_rows(database, "SELECT * FROM revenue ORDER BY customer") == [("ada", 10.0), ("bob", 5.0)]
    assert len(pipelines.records(letters)) == 2, "once, and not once for each sink"

    [started] = of_kind(events, "started")
    assert started["sinks"] == ["large", "totals", "dead_letters"]
    progress = of_kind(events, "progress")
    assert {(event["pipeline"], event["sink"]) for event in progress} == {
        (name, "large"),
        (name, "totals"),
        (name, "dead_letters"),
    }
    assert events[-1]["total"] == {"rows": 4, "batches": 3, "dead_letters": 2, "dropped": 0}
    assert events[-1]["sinks"]["totals"] == {"rows": 4, "batches": 1, "dead_letters": 0, "dropped": 0}

    pipelines.send(orders, [order(4, "ada", 1), "more nonsense"])
    pipelines.once(declared)
    assert sorted(row["id"] for row in pipelines.values(large)) == [1, 2, 4]
    assert sqlite_rows(database, "SELECT * FROM revenue ORDER BY customer") == [("ada", 11.0), ("bob", 5.0)]
    found = pipelines.records(letters)
    assert sorted(letter.value or "" for letter in found)[:2] == ["more nonsense", "nonsense"]
    assert len(found) == 3
    assert {letter.headers["penstock.pipeline"] for letter in found} == {name}

    # The documented names: consumer groups, ledger entries, directories.
    for sink in ("large", "totals", "dead_letters"):
        assert pipelines.committed(f"{name}/{sink}", orders) == {0: 3, 1: 3}
    assert sqlite_rows(database, "SELECT pipeline FROM penstock_ledger") == [(f"{name}/totals",)]
    checkpoint = pipelines.directory / ".penstock" / "checkpoints" / name
    assert sorted(path.name for path in (checkpoint / "sinks").iterdir()) == ["dead_letters", "large", "totals"]
    assert not (checkpoint / "offsets").exists()


def test_a_checkpoint_of_one_sink_is_not_taken_for_that_of_several(pipelines: Pipelines) -> None:
    orders, copy = pipelines.topic("orders"), pipelines.topic("copy")
    pipelines.send(orders, [order(1, "ada", 10)])
    head = f"name: {pipelines.name('layout')}\nsource: {{topic: {orders}, schema: '{ORDERS}'}}\n"
    one, several = f"{head}sink: {{topic: {copy}}}\n", f"{head}sinks: {{copy: {{topic: {copy}}}}}\n"
    pipelines.once(one, checkpoint="one")
    with pytest.raises(PipelineFailed, match=r"holds the progress of one sink .* name another directory") as refused:
        pipelines.once(several, checkpoint="one")
    assert refused.value.exit_code == ExitCode.CHECKPOINT_MISMATCH
    pipelines.once(several, checkpoint="several")
    with pytest.raises(PipelineFailed, match="holds the progress of several sinks"):
        pipelines.once(one, checkpoint="several")
    assert len(pipelines.records(copy)) == 2


STORE = """
from pathlib import Path

failures = Path(__file__).with_name("failures")


def store(rows, batch_id):
    rows.count()
    left = int(failures.read_text())
    failures.write_text(str(left - 1))
    if left > 0:
        raise ConnectionError("the store is away")
"""


@pytest.mark.slow
def test_a_sink_that_fails_restarts_alone_and_one_that_fails_for_good_ends_the_pipeline(pipelines: Pipelines) -> None:
    orders, copy = pipelines.topic("orders"), pipelines.topic("copy")
    pipelines.send(orders, [order(1, "ada", 10), order(2, "bob", 5)])
    declared = (
        f"name: {pipelines.name('failing')}\n"
        f'source: {{topic: {orders}, schema: "{ORDERS}"}}\n'
        f"sinks:\n  copy: {{topic: {copy}}}\n  store: {{python: 'failing_store:store'}}\n"
    )
    (pipelines.directory / "failing_store.py").write_text(STORE)
    failures = pipelines.directory / "failures"
    failures.write_text("1")
    events = pipelines.once(declared)
    [restarting] = of_kind(events, "restarting")
    assert restarting["sink"] == "store"
    assert {event["sink"]: event["rows"] for event in of_kind(events, "progress")} == {"copy": 2, "store": 2}
    assert len(pipelines.records(copy)) == 2

    pipelines.send(orders, [order(3, "ada", 1)])
    failures.write_text("100")
    with pytest.raises(PipelineFailed, match=r"^sinks\.store: "):
        pipelines.once(declared)
    assert len(pipelines.records(copy)) == 3, "the other has its own progress"


@pytest.mark.slow  # tests/conformance/sinks shows it for one sink
def test_a_row_that_fails_in_the_transform_of_one_sink_is_one_dead_letter(pipelines: Pipelines) -> None:
    orders, whole, letters = pipelines.topic("orders"), pipelines.topic("whole"), pipelines.topic("letters")
    pipelines.send(orders, [order(1, "7", 1), order(2, "seven", 1), order(3, "8", 1)])
    pipelines.once(
        f"""
        name: {pipelines.name("cast")}
        guarantee: exactly_once
        source: {{topic: {orders}, schema: "{ORDERS}"}}
        transform: SELECT id, CAST(customer AS INT) AS number FROM source
        sinks:
          whole: {{topic: {whole}, from: source}}
          numbers: {{table: numbers, url: "sqlite:///numbers.db"}}
        on_error: {{dead_letters: {letters}}}
        """
    )
    assert sqlite_rows(pipelines.directory / "numbers.db", "SELECT * FROM numbers ORDER BY id") == [(1, 7), (3, 8)]
    [letter] = pipelines.records(letters)
    assert letter.headers["penstock.stage"] == "transform"
    assert sorted(row["id"] for row in pipelines.values(whole)) == [1, 3], "a bad row is bad for every sink"


@pytest.mark.slow
def test_a_renamed_sink_is_not_taken_for_a_new_one(pipelines: Pipelines) -> None:
    orders, copy = pipelines.topic("orders"), pipelines.topic("copy")
    pipelines.send(orders, [order(1, "ada", 10)])
    head = f"name: {pipelines.name('renamed')}\nsource: {{topic: {orders}, schema: '{ORDERS}'}}\n"
    pipelines.once(f"{head}sinks: {{copy: {{topic: {copy}}}}}\n")
    with pytest.raises(PipelineFailed, match=r"sinks\.other is new, and writes where sinks\.copy wrote") as refused:
        pipelines.once(f"{head}sinks: {{other: {{topic: {copy}}}}}\n")
    assert refused.value.exit_code == ExitCode.CHECKPOINT_MISMATCH
    assert len(pipelines.records(copy)) == 1


def test_what_a_sink_cannot_take_names_its_key(pipelines: Pipelines) -> None:
    orders = pipelines.topic("orders")
    pipelines.send(orders, [order(1, "ada", 10)])
    with pytest.raises(PipelineFailed, match=r"^sinks\.totals\.key: no column is called 'custmer'"):
        pipelines.once(
            f"""
            name: {pipelines.name("wrong")}
            source: {{topic: {orders}, schema: "{ORDERS}"}}
            sinks:
              totals: {{table: revenue, url: "sqlite:///revenue.db", key: [custmer]}}
              copy: {{topic: {pipelines.name("copy")}}}
            """
        )


@pytest.mark.slow
def test_a_program_writes_to_several_sinks(pipelines: Pipelines) -> None:
    orders, copy = pipelines.topic("orders"), pipelines.topic("copy")
    pipelines.send(orders, [order(1, "ada", 10), order(2, "ada", 5)])
    events: list[Any] = []

    def open_run(pipeline: Pipeline) -> ProgramRun:
        return PipelineRun(pipeline.head, pipelines.settings(once=True, report=events.append))

    with hosting(open_run):
        p = Pipeline(pipelines.name("program"), guarantee="exactly_once")
        read = p.read(Topic(orders, schema=ORDERS))
        p.write(read.where("amount > 7"), Topic(copy), name="large")
        p.write(read.groupBy("customer").sum("amount"), Table("sqlite:///sums.db", "sums", key="customer"), name="sums")
        p.run()
    assert [row["id"] for row in pipelines.values(copy)] == [1]
    assert sqlite_rows(pipelines.directory / "sums.db", "SELECT * FROM sums") == [("ada", 15.0)]
    assert set(events[-1]["sinks"]) == {"large", "sums"}
