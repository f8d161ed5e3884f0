"""`penstock run` and `penstock up` as processes, as a person or a script starts them."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.core.exit_codes import ExitCode
from penstock.testing import Broker
from tests.exposition import Exposition
from tests.pipeline.penstock_commands import PATIENCE_S, penstock, running

REVENUE = """
name: revenue
guarantee: exactly_once
source: {topic: orders, format: json, schema: "id BIGINT, customer STRING, amount DOUBLE"}
transform: SELECT customer, sum(amount) AS revenue FROM source GROUP BY customer
sink: {table: revenue, url: "sqlite:///revenue.db", mode: upsert, key: [customer]}
on_error: {dead_letters: revenue.dlq}
"""
COPY = """
name: copy
guarantee: exactly_once
source: {topic: invoices, schema: "id BIGINT"}
sink: {topic: copies}
on_error: drop
"""
PROGRAM = """
from penstock import Files, Pipeline, Topic

p = Pipeline("kept", guarantee="exactly_once", on_error={"dead_letters": "kept.dlq"})
orders = p.read(Topic("orders", schema="id BIGINT, customer STRING, amount DOUBLE"))
p.write(orders.where("amount > 1"), Files("kept", format="json"))
p.run(once=True)
"""


# Uses pyspark before it declares its pipeline, and runs until it is stopped.
LABELS = """
from pyspark.sql.functions import col, udf

from penstock import Files, Pipeline, Topic

big = col("amount") > 1

@udf("string")
def label(amount):
    return f"{amount:.0f} EUR"

p = Pipeline("labels", spark={"spark.sql.shuffle.partitions": 2})
orders = p.read(Topic("orders", schema="id BIGINT, customer STRING, amount DOUBLE"))
p.write(orders.where(big).select("id", label("amount").alias("label")), Files("labels", format="json"))
p.run()
"""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory in which `penstock up pipelines` runs: one pipeline, and a file with a mistake."""
    directory = tmp_path_factory.mktemp("up")
    for topic in ("orders", "invoices"):
        assert penstock(directory, "topic", "create", topic).returncode == 0
    (directory / "pipelines").mkdir()
    (directory / "pipelines" / "copy.yaml").write_text(COPY)
    (directory / "pipelines" / "broken.yaml").write_text(COPY.replace("sink:", "snk:").replace("name: copy", "name: b"))
    with running(
        directory, "up", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--json", "pipelines"
    ) as process:
        (directory / "metrics.txt").write_text(process.wait_for("metrics")["address"])
        process.wait_for("ready")
        yield directory
        assert process.terminate() == ExitCode.OK
        assert process.events[-1]["event"] == "pipeline"
        assert process.process.stderr is not None
        assert process.process.stderr.read() == ""


def scrape(address: str) -> Exposition:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=PATIENCE_S) as answer:
        return Exposition(answer.read().decode())


def shown(directory: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(penstock(directory, "status", "--json", name).stdout)
    return found


def wait_for_status(directory: Path, name: str, happens: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_S
    while not happens(status := shown(directory, name)):
        assert time.monotonic() < deadline, status
        time.sleep(0.1)
    return status


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


def test_the_pipelines_of_a_directory_are_seen_and_steered(up: Path) -> None:
    wait_for_status(up, "copy", lambda status: status["state"] == "RUNNING")
    broken = shown(up, "broken")
    assert broken["state"] == "FAILED"
    assert broken["reason"].endswith("broken.yaml:5: snk: unknown key (did you mean 'sink'?)")
    before = shown(up, "copy")["total"]["rows"]
    assert penstock(up, "produce", "invoices", stdin='{"id": 1}\n').returncode == 0
    wait_for_status(up, "copy", lambda status: status["total"]["rows"] > before and status["activity"] == "up to date")

    beside = penstock(up, "run", "--once", "pipelines/copy.yaml")
    assert (beside.returncode, beside.stdout) == (ExitCode.FENCED, "")
    assert "`penstock stop copy`" in beside.stderr
    wrong = up / "wrong.yaml"
    wrong.write_text(COPY.replace("on_error: drop", "transform: SELECT idd FROM source"))
    validated = penstock(up, "validate", "wrong.yaml")
    assert validated.returncode == ExitCode.INVALID_SQL
    assert validated.stderr == "wrong.yaml:6:19: transform[0].sql: no column is called 'idd' (did you mean 'id'?)\n"

    assert penstock(up, "stop", "copy").stdout == "copy is STOPPED\n"
    listed = json.loads(penstock(up, "ps", "--json").stdout)
    assert [(each["name"], each["state"]) for each in listed] == [("broken", "FAILED"), ("copy", "STOPPED")]
    assert penstock(up, "restart", "copy").stdout == "copy is RUNNING\n"
    assert "running, exactly_once" in penstock(up, "logs", "copy").stdout


@pytest.mark.kills
def test_pipelines_that_should_run_run_again_after_kill_9_of_the_engine(tmp_path: Path) -> None:
    (tmp_path / "copy.yaml").write_text(COPY)
    assert penstock(tmp_path, "produce", "invoices", stdin='{"id": 1}\n').returncode == 0
    with running(tmp_path, "up", "--listen", "127.0.0.1:0", "--json") as engine:
        engine.wait_for("ready")
        assert penstock(tmp_path, "run", "--detach", "copy.yaml").returncode == ExitCode.OK
        wait_for_status(tmp_path, "copy", lambda status: status["total"]["rows"] == 1)
        engine.process.kill()
        engine.process.wait(PATIENCE_S)
    assert shown(tmp_path, "copy")["state"] == "UNASSIGNED"
    assert penstock(tmp_path, "produce", "invoices", stdin='{"id": 2}\n').returncode == 0
    with running(tmp_path, "up", "--listen", "127.0.0.1:0", "--json") as engine:
        engine.wait_for("ready")
        wait_for_status(tmp_path, "copy", lambda status: status["total"]["rows"] == 1)
        copies = penstock(tmp_path, "consume", "copies", "--from-beginning", "-e").stdout
        assert copies.splitlines() == ['{"id":1}', '{"id":2}']
        assert engine.terminate() == ExitCode.OK


@pytest.mark.slow
def test_a_program_with_functions_at_its_top_tells_an_outage_at_once_and_ends_well_on_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "labels.py").write_text(LABELS)
    with Broker() as broker:
        address = ["--bootstrap-server", broker.bootstrap_servers]
        order = '{"id": 1, "customer": "ada", "amount": 5}\n'
        assert penstock(tmp_path, "produce", *address, "orders", stdin=order).returncode == 0
        with running(tmp_path, "run", "--json", *address, "labels.py") as process:
            process.wait_for("progress")
            process.wait_for("idle")
            broker.kill()
            assert "no broker answers" in process.wait_for("waiting")["reason"]
            assert not [event for event in process.events if event["event"] == "restarting"]
            broker.start()
            process.wait_for("resumed")
            process.process.send_signal(signal.SIGINT)
            assert process.process.wait(PATIENCE_S) == ExitCode.OK
            assert process.process.stderr is not None
            assert process.process.stderr.read() == ""
        assert process.events[-1]["event"] == "stopped"
    labels = "".join(part.read_text() for part in (tmp_path / "labels").glob("*.json"))
    assert json.loads(labels) == {"id": 1, "label": "5 EUR"}


@pytest.mark.slow
def test_a_program_runs_with_a_spark_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "kept.py").write_text(PROGRAM)
    lines = '{"id": 1, "customer": "ada", "amount": 5}\nnonsense\n{"id": 2, "customer": "bob", "amount": 1}\n'
    assert penstock(tmp_path, "produce", "orders", stdin=lines).returncode == 0
    ran = penstock(tmp_path, "run", "--json", "kept.py")
    assert (ran.returncode, ran.stderr) == (ExitCode.OK, "")
    events = [json.loads(line) for line in ran.stdout.splitlines()]
    # A batch that takes longer than a second tells how far it is.
    kinds = [event["event"] for event in events if event["event"] != "batch"]
    assert kinds == ["starting", "started", "progress", "stopped"]
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


@pytest.mark.slow
def test_metrics_of_a_run_and_of_the_engine_with_its_broker(up: Path) -> None:
    (up / "counted.yaml").write_text(
        COPY.replace("name: copy", "name: counted")
        .replace("topic: invoices", "topic: payments")
        .replace("copies", "counted")
        .replace("on_error: drop", "on_error: {dead_letters: counted.dlq}")
    )
    assert penstock(up, "topic", "create", "payments").returncode == 0
    assert penstock(up, "produce", "payments", stdin='{"id": 1}\n{"id": 2}\nbad\n').returncode == 0
    with running(up, "run", "--json", "--metrics", "127.0.0.1:0", "counted.yaml") as process:
        progress = process.wait_for("progress")
        assert progress["rows"] == 3
        assert process.process.stderr is not None
        line = process.process.stderr.readline()
        assert line.startswith("penstock: metrics on http://127.0.0.1:")
        figures = scrape(line.removeprefix("penstock: metrics on http://").removesuffix("/metrics\n"))
        engine = scrape((up / "metrics.txt").read_text())
        assert process.terminate() == ExitCode.OK
    labels = {"pipeline": "counted", "sink": ""}
    for found in (figures, engine):
        assert found.value("penstock_pipeline_rows_read_total", **labels) == 3
        assert found.value("penstock_pipeline_rows_written_total", **labels) == 3  # one of them a dead letter
        assert found.value("penstock_pipeline_deadletters_total", **labels) == 1
        assert found.value("penstock_pipeline_batch_seconds_count", **labels) == 1
        assert found.value("penstock_pipeline_restarts_total", **labels) == 0
        assert found.value("penstock_pipeline_lag", **labels, topic="payments", partition="0") == 0
        assert found.value("penstock_pipeline_state", pipeline="counted", state="RUNNING") == 1
    # One target for everything: what the engine keeps, what is broken, and the broker beside it.
    assert engine.value("penstock_pipeline_state", pipeline="broken", state="FAILED") == 1
    assert "copy" in {dict(labels)["pipeline"] for labels in engine.values("penstock_pipeline_state")}
    assert engine.value("penstock_broker_scrape_success") == 1
    assert engine.value("kafka_server_brokertopicmetrics_messagesin_total", topic="payments") == 3
    group = {"consumergroup": "counted", "topic": "payments", "partition": "0"}
    assert engine.value("kafka_consumergroup_lag", **group) == 0


def test_a_run_that_logs_json(up: Path) -> None:
    (up / "broken.yaml").write_text(COPY.replace("sink:", "snk:").replace("name: copy", "name: c"))
    ended = penstock(up, "run", "--log-format", "json", "broken.yaml")
    assert ended.returncode == ExitCode.INVALID_PIPELINE
    problems = [json.loads(line) for line in ended.stderr.splitlines()]
    assert {problem["code"] for problem in problems} == {"PENSTOCK_INVALID_PIPELINE"}
    assert {problem["level"] for problem in problems} == {"ERROR"}
    assert any("snk" in problem["message"] for problem in problems)
    (up / "again.yaml").write_text(COPY.replace("name: copy", "name: again"))
    ended = penstock(up, "run", "--once", "--log-format", "json", "again.yaml")
    assert ended.returncode == ExitCode.OK
    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    assert [line["logger"] for line in lines] == ["penstock.pipeline"] * len(lines)
    assert lines[-1]["message"].startswith("again: stopped after")
    assert penstock(up, "run", "--log-format", "xml", "again.yaml").returncode == ExitCode.USAGE
