"""Which pipelines execute, for whom, and what is known of them, with a host that only pretends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.engine.desired_state import DesiredState, DesiredStates, InvalidFile
from penstock.pipeline.engine.event_log import LogReader, log_path
from penstock.pipeline.engine.herder import Herder, Refused, UnknownPipeline
from penstock.pipeline.engine.host import Work
from tests.unit.pipeline.engine.pretended_host import PretendedHost

RUNS = {"until_stopped": True}


def desired(name: str, spec: dict[str, Any] | None = None, **others: Any) -> DesiredState:
    return DesiredState(name=name, spec=RUNS if spec is None else spec, directory="/work", **others)


def work(name: str, spec: dict[str, Any] | None = None) -> Work:
    return Work(name, RUNS if spec is None else spec, {}, Path("/work"))


def eventually(happens: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not happens():
        assert time.monotonic() < deadline, "it did not happen within 30 s"
        time.sleep(0.005)


class Engines:
    """Engines of one data directory, one after the other."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.states = DesiredStates(directory / "pipelines")
        self.loaded: dict[str, DesiredState | InvalidFile] = {}
        self.host = PretendedHost()
        self.herder = self.start()

    def start(self) -> Herder:
        self.host = PretendedHost()
        self.herder = Herder(
            self.host, self.states, self.directory / "logs", lambda file, _of: self.loaded[file], first_pause_s=0.01
        )
        return self.herder

    def state(self, name: str) -> str:
        return str(self.herder.status(name)["state"])


@pytest.fixture
def engines(tmp_path: Path) -> Iterator[Engines]:
    engines = Engines(tmp_path)
    yield engines
    assert engines.herder.close(30)
    assert engines.host.overlaps == 0


def test_a_kept_pipeline_runs_and_its_state_is_on_disk_first(engines: Engines) -> None:
    shown = engines.herder.put(desired("p", guarantee="exactly_once"))
    assert (shown["name"], shown["state"], shown["guarantee"]) == ("p", "STARTING", "exactly_once")
    assert engines.states.load()[0][0].name == "p"
    eventually(lambda: engines.state("p") == "RUNNING")
    assert [each["name"] for each in engines.herder.statuses()] == ["p"]


def test_what_should_run_runs_again_with_the_next_engine_and_what_was_stopped_does_not(engines: Engines) -> None:
    for name in ("a", "b"):
        engines.herder.put(desired(name))
    assert engines.herder.stop("b")["state"] == "STOPPED"
    # The first engine is not closed: as after kill -9, nothing of it reaches the disk any more.
    abandoned = engines.herder
    engines.start().start_desired()
    eventually(lambda: engines.state("a") == "RUNNING")
    assert engines.state("b") == "STOPPED"
    assert [each.name for each in engines.host.runs] == ["a"]
    assert abandoned.close(30)


def test_an_engine_that_closes_leaves_what_should_run_as_it_is(engines: Engines) -> None:
    engines.herder.put(desired("p"))
    eventually(lambda: engines.state("p") == "RUNNING")
    assert engines.herder.close(30)
    assert engines.state("p") == "STOPPED"
    assert engines.states.load()[0][0].target == "RUNNING"
    with pytest.raises(Refused, match="the engine is stopping"):
        engines.herder.put(desired("q"))


def test_stop_waits_and_restart_starts_again(engines: Engines) -> None:
    engines.herder.put(desired("p"))
    eventually(lambda: engines.state("p") == "RUNNING")
    assert engines.herder.stop("p")["state"] == "STOPPED"
    assert engines.states.load()[0][0].target == "STOPPED"
    engines.herder.restart("p")
    eventually(lambda: engines.state("p") == "RUNNING")
    assert engines.states.load()[0][0].target == "RUNNING"
    engines.herder.restart("p")
    eventually(lambda: len(engines.host.runs) == 3)
    eventually(lambda: engines.state("p") == "RUNNING")


def test_names_that_nobody_knows(engines: Engines) -> None:
    for ask in (engines.herder.stop, engines.herder.restart, engines.herder.status, engines.herder.delete):
        with pytest.raises(UnknownPipeline):
            ask("p")


def test_delete_forgets(engines: Engines) -> None:
    engines.herder.put(desired("p"))
    assert engines.herder.delete("p")["state"] == "STOPPED"
    assert engines.herder.statuses() == []
    assert engines.states.load() == ([], [])


def test_a_failure_is_a_state_with_its_reason_and_the_others_run(engines: Engines) -> None:
    engines.herder.put(desired("bug", {"failure": "no such table"}))
    problems = ["p.yaml:3: transform: no column", "p.yaml:4: sink: no key"]
    engines.herder.put(desired("wrong", {"exit": 21, "message": problems[0], "problems": problems}))
    engines.herder.put(desired("p"))
    eventually(lambda: engines.state("bug") == engines.state("wrong") == "FAILED")
    eventually(lambda: engines.state("p") == "RUNNING")
    bug, wrong = engines.herder.status("bug"), engines.herder.status("wrong")
    assert (bug["reason"], bug["exit_code"]) == ("no such table", ExitCode.FAILURE)
    assert (wrong["reason"], wrong["exit_code"], wrong["problems"]) == (problems[0], 21, problems)
    logged = LogReader(log_path(engines.directory / "logs", "bug")).history()
    assert [event["event"] for event in logged] == ["starting", "started", "exception", "failed"]
    assert "RuntimeError: no such table" in logged[2]["traceback"]


def test_a_kept_pipeline_waits_for_what_was_away_when_it_started(engines: Engines) -> None:
    engines.herder.put(desired("p", {**RUNS, "away": 3}))
    eventually(lambda: len(engines.host.runs) == 4)
    eventually(lambda: engines.state("p") == "RUNNING")
    assert engines.herder.status("p")["restarts"] == 3


def test_an_attached_run_gets_its_events_and_leaves_nothing_behind(engines: Engines) -> None:
    events: list[Any] = []
    execution = engines.herder.attach(work("p", {"exit": 5, "message": "no"}), events.append, pid=17)
    assert execution.ended.wait(30)
    assert [event["event"] for event in events] == ["starting", "started", "failed"]
    assert (execution.outcome.exit_code, execution.outcome.message) == (5, "no")
    assert engines.herder.statuses() == []
    assert engines.states.load() == ([], [])


def test_a_later_attached_run_takes_over(engines: Engines) -> None:
    first = engines.herder.attach(work("p"), lambda _event: None, pid=17)
    eventually(lambda: engines.state("p") == "RUNNING")
    later = engines.herder.attach(work("p"), lambda _event: None, pid=18)
    assert first.ended.wait(30)
    assert first.outcome.exit_code == ExitCode.FENCED
    assert "taken over" in (first.outcome.message or "")
    eventually(lambda: engines.state("p") == "RUNNING")
    assert engines.herder.status("p")["pid"] == 18
    later.stop.set()
    assert later.ended.wait(30)
    assert later.outcome.exit_code == ExitCode.OK


def test_an_attached_run_does_not_take_over_what_the_engine_keeps_and_is_told_the_remedy(engines: Engines) -> None:
    engines.herder.put(desired("p"))
    with pytest.raises(Refused, match=r"runs already.*penstock logs -f p.*penstock stop p") as refused:
        engines.herder.attach(work("p"), lambda _event: None, pid=17)
    assert refused.value.exit_code == ExitCode.FENCED
    engines.herder.stop("p")
    attached = engines.herder.attach(work("p"), lambda _event: None, pid=17)
    eventually(lambda: engines.state("p") == "RUNNING")
    assert engines.herder.status("p")["attached"]
    attached.stop.set()
    assert attached.ended.wait(30)
    assert engines.state("p") == "STOPPED"


def test_what_the_engine_is_to_keep_takes_over_from_an_attached_run(engines: Engines) -> None:
    attached = engines.herder.attach(work("p"), lambda _event: None, pid=17)
    eventually(lambda: engines.state("p") == "RUNNING")
    engines.herder.put(desired("p"))
    assert attached.ended.wait(30)
    assert attached.outcome.exit_code == ExitCode.FENCED
    eventually(lambda: engines.state("p") == "RUNNING")
    assert not engines.herder.status("p")["attached"]


def test_an_attached_run_is_restarted_where_it_was_started(engines: Engines) -> None:
    engines.herder.attach(work("p"), lambda _event: None, pid=17)
    with pytest.raises(Refused, match="belongs to the command with pid 17"):
        engines.herder.restart("p")


DIRECTORY: Any = {"pipelines_dir": "/pipelines"}


def test_the_files_of_a_directory_run_and_an_invalid_one_has_its_line(engines: Engines) -> None:
    bad = InvalidFile("bad", "/pipelines/bad.yaml", "/pipelines", ("bad.yaml:3: sink.mode: no",))
    engines.herder.adopt_directory("/pipelines", [desired("a", file="/pipelines/a.yaml", **DIRECTORY), bad])
    engines.herder.start_desired()
    eventually(lambda: engines.state("a") == "RUNNING")
    shown = engines.herder.status("bad")
    assert (shown["state"], shown["reason"], shown["exit_code"]) == ("FAILED", "bad.yaml:3: sink.mode: no", 20)
    assert [state.name for state in engines.states.load()[0]] == ["a"]
    # The file is corrected, and read again.
    engines.loaded["/pipelines/bad.yaml"] = desired("bad", file="/pipelines/bad.yaml", **DIRECTORY)
    engines.herder.restart("bad")
    eventually(lambda: engines.state("bad") == "RUNNING")
    # And broken: it does not run on as it was.
    engines.loaded["/pipelines/bad.yaml"] = bad
    assert engines.herder.restart("bad")["state"] == "FAILED"
    eventually(lambda: not engines.herder.status("bad")["stopping"])
    assert engines.state("bad") == "FAILED"


def test_a_pipeline_that_is_put_replaces_an_invalid_file_of_its_name(engines: Engines) -> None:
    engines.herder.adopt_directory("/pipelines", [InvalidFile("p", "/pipelines/p.yaml", "/pipelines", ("no",))])
    engines.herder.put(desired("p"))
    eventually(lambda: engines.state("p") == "RUNNING")


def test_what_was_stopped_stays_so_when_its_directory_is_read_again(engines: Engines) -> None:
    found = [desired(name, file=f"/pipelines/{name}.yaml", **DIRECTORY) for name in ("a", "b")]
    engines.herder.adopt_directory("/pipelines", found)
    engines.herder.start_desired()
    engines.herder.stop("b")
    assert engines.herder.close(30)
    changed = [replace(state, spec={**RUNS, "changed": True}) for state in found]
    engines.start().adopt_directory("/pipelines", changed)
    engines.herder.start_desired()
    eventually(lambda: engines.state("a") == "RUNNING")
    assert engines.state("b") == "STOPPED"
    assert engines.host.runs[0].spec["changed"]


def test_a_file_that_is_gone_is_forgotten_and_detached_pipelines_are_not(engines: Engines) -> None:
    engines.herder.put(desired("detached"))
    engines.herder.adopt_directory("/pipelines", [desired("a", file="/pipelines/a.yaml", **DIRECTORY)])
    engines.herder.adopt_directory("/pipelines", [])
    assert [state.name for state in engines.states.load()[0]] == ["detached"]


def test_a_file_that_became_invalid_keeps_its_pipelines_name_and_does_not_run(engines: Engines) -> None:
    engines.herder.adopt_directory("/pipelines", [desired("revenue", file="/pipelines/r.yaml", **DIRECTORY)])
    bad = InvalidFile("r", "/pipelines/r.yaml", "/pipelines", ("r.yaml:1: no",))
    engines.start().adopt_directory("/pipelines", [bad])
    engines.herder.start_desired()
    assert [(each["name"], each["state"]) for each in engines.herder.statuses()] == [("revenue", "FAILED")]
    assert engines.host.runs == []


def test_a_desired_state_that_cannot_be_read_is_shown(engines: Engines) -> None:
    engines.herder.put(desired("p"))
    (engines.directory / "pipelines" / "odd.json").write_text("{")
    engines.start().start_desired()
    eventually(lambda: engines.state("p") == "RUNNING")
    assert engines.state("odd") == "FAILED"
