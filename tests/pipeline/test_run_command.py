"""`penstock run` and `penstock up` as processes, as a person or a script starts them."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from penstock.core.exit_codes import ExitCode
from tests.pipeline.penstock_commands import PATIENCE_S, penstock, running

REVENUE = """
name: revenue
guarantee: exactly_once
source: {topic: orders, format: json, schema: "id BIGINT, customer STRING, amount DOUBLE"}
transform: SELECT customer, sum(amount) AS revenue FROM source GROUP BY customer
sink: {table: revenue, url: "sqlite:///revenue.db", mode: upsert, key: [customer]}
on_error: {dead_letters: revenue.dlq}
"""
PROGRAM = """
from penstock import Files, Pipeline, Topic

p = Pipeline("kept", guarantee="exactly_once", on_error={"dead_letters": "kept.dlq"})
orders = p.read(Topic("orders", schema="id BIGINT, customer STRING, amount DOUBLE"))
p.write(orders.where("amount > 1"), Files("kept", format="json"))
p.run(once=True)
"""


def revenue(directory: Path) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(directory / "revenue.db")
    try:
        return connection.execute("SELECT * FROM revenue ORDER BY customer").fetchall()
    finally:
        connection.close()


@pytest.mark.slow
def test_a_pipeline_runs_in_the_engine_and_finishes_its_batch_when_it_is_told_to_stop(up: Path) -> None:
    (up / "revenue.yaml").write_text(REVENUE)
    orders = [{"id": number, "customer": "ada", "amount": 1} for number in range(10)]
    lines = "".join(json.dumps(order) + "\n" for order in orders) + "nonsense\n"
    assert penstock(up, "produce", "orders", stdin=lines).returncode == 0

    with running(up, "run", "--json", "revenue.yaml") as process:
        progress = process.wait_for("progress")
        assert process.terminate() == ExitCode.OK
    assert progress["total"] == {"rows": 11, "batches": 1, "dead_letters": 1, "dropped": 0}
    assert process.events[-1]["event"] == "stopped"
    assert revenue(up) == [("ada", 10.0)]
    assert penstock(up, "consume", "revenue.dlq", "--from-beginning", "-e").stdout == "nonsense\n"

    begun = time.monotonic()
    again = penstock(up, "run", "--once", "revenue.yaml")
    assert (again.returncode, again.stdout) == (ExitCode.OK, "")
    assert "revenue: stopped after 0 rows" in again.stderr
    assert time.monotonic() - begun < 20, "the engine was not used"
    assert revenue(up) == [("ada", 10.0)]


@pytest.mark.slow
def test_a_program_runs_with_a_spark_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "kept.py").write_text(PROGRAM)
    lines = '{"id": 1, "customer": "ada", "amount": 5}\nnonsense\n{"id": 2, "customer": "bob", "amount": 1}\n'
    assert penstock(tmp_path, "produce", "orders", stdin=lines).returncode == 0
    ran = penstock(tmp_path, "run", "--json", "kept.py")
    assert (ran.returncode, ran.stderr) == (ExitCode.OK, "")
    events = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [event["event"] for event in events] == ["starting", "started", "progress", "stopped"]
    assert events[-1]["total"] == {"rows": 3, "batches": 1, "dead_letters": 1, "dropped": 0}
    kept = "".join(part.read_text() for part in (tmp_path / "kept").glob("*.json"))
    assert json.loads(kept) == {"id": 1, "customer": "ada", "amount": 5.0}


@pytest.mark.kills
def test_a_spark_that_dies_is_told_and_the_next_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "copy.yaml").write_text(
        'name: copy\nguarantee: exactly_once\nsource: {topic: numbers, schema: "id BIGINT"}\nsink: {topic: copies}\n'
    )
    with running(tmp_path, "broker", "--listen", "127.0.0.1:0") as broker:
        deadline = time.monotonic() + PATIENCE_S
        while not (tmp_path / ".penstock" / "broker.json").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert penstock(tmp_path, "produce", "numbers", stdin='{"id": 1}\n').returncode == 0
        with running(tmp_path, "run", "--json", "copy.yaml") as process:
            process.wait_for("progress")
            for child in Path(f"/proc/{process.process.pid}/task/{process.process.pid}/children").read_text().split():
                if Path(f"/proc/{child}/comm").read_text().strip() == "java":
                    os.kill(int(child), signal.SIGKILL)
            assert process.process.wait(PATIENCE_S) == ExitCode.ENGINE_LOST
            assert process.process.stderr is not None
            assert process.process.stderr.read() == (
                "penstock: copy.yaml: Spark has ended; run the pipeline again, it resumes from its last commit\n"
            )
        assert penstock(tmp_path, "produce", "numbers", stdin='{"id": 2}\n').returncode == 0
        assert penstock(tmp_path, "run", "--once", "copy.yaml").returncode == ExitCode.OK
        copies = penstock(tmp_path, "consume", "copies", "--from-beginning", "-e").stdout
        assert sorted(copies.splitlines()) == ['{"id":1}', '{"id":2}']
        assert broker.process.poll() is None
