"""`penstock ps`, `status`, `stop`, `restart`, `logs` and `run --detach`, beside an engine whose host only pretends."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.main import main
from penstock.cli.pipeline_table import COLUMNS
from penstock.core.exit_codes import ExitCode
from penstock.pipeline.engine.desired_state import DesiredState, DesiredStates
from penstock.pipeline.engine.event_log import EventLog, log_path
from penstock.pipeline.engine.herder import Herder
from penstock.pipeline.engine.host import Outcome, Run, Work
from penstock.pipeline.engine.layout import EngineLock, desired_states_dir, logs_dir
from penstock.pipeline.engine.server import EngineServer

DATA_DIR = Path(".penstock")
COPY = 'name: copy\nguarantee: exactly_once\nsource: {topic: in, schema: "id BIGINT"}\nsink: {topic: out}\n'
Captured = pytest.CaptureFixture[str]


class Host:
    """Runs until it is stopped, after one batch; `topic: missing` fails."""

    def run(self, work: Work, run: Run) -> Outcome:
        about = {"pipeline": work.name}
        if "missing" in work.spec["source"]["topic"]:
            return Outcome(
                int(ExitCode.NOT_FOUND), "source.topic: topic 'missing' does not exist", "PENSTOCK_NOT_FOUND"
            )
        run.report({"event": "started", **about, "guarantee": "exactly_once", "checkpoint": "/cp", "run": "r"})
        total = {"rows": 1200, "batches": 3, "dead_letters": 2, "dropped": 0}
        batch = {"batch": 2, "rows": 400, "batch_ms": 80, "lag": 7, "lag_by_partition": {"in": {"0": 7}}}
        run.report({"event": "progress", **about, **batch, "watermark": None, "total": total})
        run.stop.wait()
        run.report({"event": "stopped", **about, "total": total})
        return Outcome()

    def check(self, work: Work) -> dict[str, Any]:
        problem = {"path": ["transform", 0, "sql"], "message": "no column is called 'nme'", "line": 1, "position": 7}
        return {"problems": [problem] if "transform" in work.spec else [], "notes": []}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PENSTOCK_BOOTSTRAP_SERVER", raising=False)


@pytest.fixture
def engine(_elsewhere: None) -> Iterator[Herder]:
    lock = EngineLock(DATA_DIR)
    host = Host()
    herder = Herder(host, DesiredStates(desired_states_dir(DATA_DIR)), logs_dir(DATA_DIR))
    server = EngineServer(DATA_DIR, herder, host)
    serving = threading.Thread(target=server.serve)
    serving.start()
    yield herder
    assert herder.close(30)
    server.close()
    serving.join(30)
    lock.release()


def run(capsys: Captured, *words: str) -> tuple[int, str, str]:
    code = main(list(words))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def as_json(capsys: Captured, *words: str) -> Any:
    code, out, err = run(capsys, *words, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


@pytest.mark.usefixtures("engine")
def test_a_pipeline_is_detached_seen_stopped_and_started_again(capsys: Captured) -> None:
    Path("copy.yaml").write_text(COPY)
    code, out, err = run(capsys, "run", "--detach", "copy.yaml")
    assert (code, out, err) == (0, "copy is RUNNING in the engine; follow it: penstock logs -f copy\n", "")

    code, out, _ = run(capsys, "ps")
    head, line = out.splitlines()
    assert head.split() == list(COLUMNS)
    assert line.split()[:3] == ["copy", "RUNNING", "exactly_once"]
    assert re.search(r"80 ms, \d+ s ago", line)
    [listed] = as_json(capsys, "ps")
    assert (listed["state"], listed["lag"], listed["total"]["dead_letters"]) == ("RUNNING", 7, 2)

    code, out, _ = run(capsys, "status", "copy")
    assert code == 0
    for words in (
        "RUNNING for",
        "1,200 in 3 batches",
        "in-0: 7",
        "checkpoint    /cp",
        str(Path("copy.yaml").resolve()),
    ):
        assert words in out
    assert as_json(capsys, "status", "copy")["checkpoint"] == "/cp"

    assert run(capsys, "stop", "copy") == (0, "copy is STOPPED\n", "")
    assert as_json(capsys, "status", "copy")["target"] == "STOPPED"
    assert as_json(capsys, "restart", "copy")["state"] == "RUNNING"
    assert run(capsys, "stop", "--delete", "copy") == (0, "copy is deleted\n", "")
    assert as_json(capsys, "ps") == []

    code, out, _ = run(capsys, "logs", "copy")
    assert code == 0
    lines = [line.partition("Z ")[2] for line in out.splitlines()]
    assert lines[:3] == ["starting", "running, exactly_once; checkpoint /cp", "batch 2: 400 rows in 80 ms, lag 7"]
    assert lines[-1] == "stopped after 1,200 rows in 3 batches, 2 dead letters"
    code, out, _ = run(capsys, "logs", "-n", "1", "--json", "copy")
    assert json.loads(out)["event"] == "stopped"


@pytest.mark.usefixtures("engine")
def test_a_pipeline_that_fails_says_why_with_the_code_of_its_failure(capsys: Captured) -> None:
    Path("copy.yaml").write_text(COPY.replace("topic: in", "topic: missing"))
    code, out, err = run(capsys, "run", "-d", "copy.yaml")
    assert (code, out) == (ExitCode.NOT_FOUND, "")
    assert err == "penstock: source.topic: topic 'missing' does not exist\n"
    code, out, _ = run(capsys, "status", "copy")
    assert code == ExitCode.NOT_FOUND
    assert "topic 'missing' does not exist" in out
    assert run(capsys, "restart", "copy")[0] == ExitCode.NOT_FOUND


@pytest.mark.usefixtures("engine")
def test_a_run_beside_a_kept_pipeline_names_the_remedy(capsys: Captured) -> None:
    Path("copy.yaml").write_text(COPY)
    assert run(capsys, "run", "--detach", "copy.yaml")[0] == 0
    code, out, err = run(capsys, "run", "copy.yaml")
    assert (code, out) == (ExitCode.FENCED, "")
    assert err == (
        "penstock: copy.yaml: pipeline 'copy' runs already: the engine keeps it running; follow it with `penstock logs"
        " -f copy`, or stop it first with `penstock stop copy`\n"
    )


@pytest.mark.usefixtures("engine")
def test_validate_asks_the_engine(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_spark(*_arguments: object) -> None:
        pytest.fail("it started a Spark of its own")

    monkeypatch.setattr("penstock.pipeline.spark.session.start", no_spark)
    Path("copy.yaml").write_text(COPY)
    code, out, err = run(capsys, "validate", "copy.yaml")
    assert (code, err) == (0, "")
    assert out.startswith("copy.yaml: copy is valid; exactly_once: ")
    Path("copy.yaml").write_text(COPY + "transform: SELECT nme FROM source\n")
    code, out, err = run(capsys, "validate", "copy.yaml")
    assert (code, out) == (ExitCode.INVALID_SQL, "")
    assert err == "copy.yaml:5:19: transform[0].sql: no column is called 'nme'\n"


@pytest.mark.parametrize("words", [["status"], ["stop"], ["restart"], ["logs"]])
def test_a_name_that_nobody_knows(words: list[str], engine: Herder, capsys: Captured) -> None:
    engine.put(DesiredState(name="revenue", spec={"source": {"topic": "in"}}, directory="/"))
    code, out, err = run(capsys, *words, "revenu")
    assert (code, out) == (ExitCode.NOT_FOUND, "")
    assert err == "penstock: no pipeline is called 'revenu'; did you mean 'revenue'?\n"


def test_without_an_engine_what_the_next_one_will_do_is_shown_and_changed(capsys: Captured) -> None:
    states = DesiredStates(desired_states_dir(DATA_DIR))
    for name in ("a", "b"):
        states.put(DesiredState(name=name, spec={}, directory="/", guarantee="at_least_once"))
    assert [each["state"] for each in as_json(capsys, "ps")] == ["UNASSIGNED", "UNASSIGNED"]
    assert run(capsys, "stop", "a") == (0, "a is STOPPED\n", "")
    assert run(capsys, "stop", "--delete", "b")[0] == 0
    assert [(each["name"], each["state"]) for each in as_json(capsys, "ps")] == [("a", "STOPPED")]
    EventLog(log_path(logs_dir(DATA_DIR), "a")).append({"event": "failed", "reason": "no", "problems": ["no", "nor"]})
    assert run(capsys, "logs", "a")[1].endswith("failed: no\n  nor\n")


@pytest.mark.parametrize("words", [["restart", "a"], ["run", "--detach", "copy.yaml"]])
def test_what_needs_an_engine_says_how_to_start_one(words: list[str], capsys: Captured) -> None:
    Path("copy.yaml").write_text(COPY)
    DesiredStates(desired_states_dir(DATA_DIR)).put(DesiredState(name="a", spec={}, directory="/"))
    code, out, err = run(capsys, *words)
    assert (code, out) == (ExitCode.ENGINE_LOST, "")
    assert err == "penstock: no engine runs for .penstock/: start one in this directory with `penstock up`\n"


@pytest.mark.parametrize("words", [["--once"], ["--master", "local"]])
def test_what_cannot_be_detached(words: list[str], capsys: Captured) -> None:
    assert run(capsys, "run", "--detach", *words, "copy.yaml")[0] == ExitCode.USAGE


def test_nothing_to_see(capsys: Captured) -> None:
    assert as_json(capsys, "ps") == []
    assert run(capsys, "ps")[1].startswith("NAME")
    assert not DATA_DIR.exists()
