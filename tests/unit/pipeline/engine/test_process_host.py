"""A pipeline as a process of its own, with programs in place of `penstock run`."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.engine.host import Outcome, Run, Work
from penstock.pipeline.engine.process_host import HostByKind, ProcessHost, penstock_run
from tests.unit.pipeline.engine.pretended_host import PretendedHost

STARTED = 'print(\'{"at": 1, "event": "started", "pipeline": "p"}\', flush=True)\n'


def outcome_of(program: str, directory: Path, stop_at: str | None = None) -> tuple[Outcome, list[Any]]:
    events: list[Any] = []
    stop = threading.Event()

    def report(event: Any) -> None:
        events.append(event)
        if event["event"] == stop_at:
            stop.set()

    host = ProcessHost(lambda _work: [sys.executable, "-c", program])
    return host.run(Work("p", {}, {}, directory, "p.yaml"), Run(report, stop)), events


def test_events_are_relayed_and_what_functions_print_is_not(tmp_path: Path) -> None:
    program = 'print(\'{"event": "starting"}\')\nprint("hello")\nprint(17)\n' + STARTED
    outcome, events = outcome_of(program, tmp_path)
    assert outcome.exit_code == ExitCode.OK
    assert events == [{"event": "started", "pipeline": "p"}]


def test_a_stop_lets_it_finish(tmp_path: Path) -> None:
    program = (
        "import signal, sys, time\n"
        'def end(*_): print(\'{"event": "stopped", "pipeline": "p"}\', flush=True); sys.exit(0)\n'
        "signal.signal(signal.SIGTERM, end)\n" + STARTED + "while True: time.sleep(0.01)\n"
    )
    outcome, events = outcome_of(program, tmp_path, stop_at="started")
    assert outcome.exit_code == ExitCode.OK
    assert [event["event"] for event in events] == ["started", "stopped"]


@pytest.mark.parametrize(
    ("program", "code", "message"),
    [
        ("import sys; print('penstock: p.yaml: no', file=sys.stderr); sys.exit(25)", 25, "p.yaml: no"),
        ("import sys; print('a:1: x\\nb:2: y', file=sys.stderr); sys.exit(20)", 20, "a:1: x"),
        ("raise ValueError('bug')", 1, "ValueError: bug"),
        ("import sys; sys.exit(30)", 30, "its process ended with exit code 30"),
        ("import os; os.kill(os.getpid(), 9)", 29, "its process was ended by signal 9"),
    ],
)
def test_a_failure_is_its_last_words(program: str, code: int, message: str, tmp_path: Path) -> None:
    outcome, _events = outcome_of(program, tmp_path)
    assert (outcome.exit_code, outcome.message) == (code, message)
    assert not outcome.may_return


def test_a_broker_that_is_away_may_return(tmp_path: Path) -> None:
    assert outcome_of("import sys; sys.exit(3)", tmp_path)[0].may_return


def test_a_child_that_says_much_is_not_held_up(tmp_path: Path) -> None:
    outcome, _events = outcome_of("import sys; sys.stderr.write('x' * 9_000_000); sys.exit(30)", tmp_path)
    assert outcome.exit_code == 30
    assert len(outcome.message or "") <= 64 * 1024


def test_the_command_has_the_settings_of_the_pipeline() -> None:
    settings = {"bootstrap_servers": "h:1", "checkpoint": None, "once": False}
    command = penstock_run(Work("p", {}, settings, Path("/work"), "/pipelines/p.yaml"))
    assert command[-3:] == ["--bootstrap-server", "h:1", "/pipelines/p.yaml"]


def test_the_kind_of_a_pipeline_chooses_its_host(tmp_path: Path) -> None:
    shared, own = PretendedHost(), PretendedHost()
    host = HostByKind(shared, own, lambda work: bool(work.spec.get("python")))
    run = Run(lambda _event: None, threading.Event())
    host.run(Work("sql", {}, {}, tmp_path), run)
    host.run(Work("functions", {"python": True}, {}, tmp_path), run)
    assert [work.name for work in shared.runs] == ["sql"]
    assert [work.name for work in own.runs] == ["functions"]


def test_a_run_ends_with_the_engine_that_started_it(tmp_path: Path) -> None:
    """The engine is killed: its end of the pipe closes."""
    (tmp_path / "p.py").write_text("import time\nprint('here', flush=True)\nwhile True: time.sleep(0.05)\n")
    child = subprocess.Popen(
        [sys.executable, "-m", "penstock.cli.main", "run", "--exit-with-stdin", "p.py"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stdout.readline() == b"here\n"
    child.stdin.close()
    assert child.wait(60) == ExitCode.TERMINATED
    child.stdout.close()
