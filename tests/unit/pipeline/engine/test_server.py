"""The engine with a host that only pretends, over real sockets, with real processes to kill."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.engine.client import (
    EngineLost,
    EngineRefused,
    EngineRun,
    check_pipeline,
    delete_pipeline,
    find_engine,
    list_pipelines,
    pipeline_status,
    put_pipeline,
    restart_pipeline,
    run_in_engine,
    stop_pipeline,
)
from penstock.pipeline.engine.desired_state import DesiredState, DesiredStates
from penstock.pipeline.engine.herder import Herder
from penstock.pipeline.engine.layout import SOCKET_FILE, EngineInUse, EngineLock, desired_states_dir, logs_dir
from penstock.pipeline.engine.protocol import LINE_BYTES_MAX
from penstock.pipeline.engine.server import EngineServer
from tests.unit.pipeline.engine.pretended_host import PretendedHost


class Engine:
    """An engine as `penstock up` composes it, without a broker and without Spark."""

    def __init__(self, data_dir: Path) -> None:
        self.lock = EngineLock(data_dir)
        host = PretendedHost()
        self.herder = Herder(host, DesiredStates(desired_states_dir(data_dir)), logs_dir(data_dir))
        self.herder.start_desired()
        self.server = EngineServer(data_dir, self.herder, host)
        self.serving = threading.Thread(target=self.server.serve)
        self.serving.start()

    def close(self) -> None:
        assert self.herder.close(30)
        self.server.close()
        self.serving.join(30)
        assert not self.serving.is_alive()
        self.lock.release()


@pytest.fixture
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("e")


@pytest.fixture
def engine(data_dir: Path) -> Iterator[Engine]:
    engine = Engine(data_dir)
    yield engine
    engine.close()


def eventually(happens: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not happens():
        assert time.monotonic() < deadline, "it did not happen within 30 s"
        time.sleep(0.01)


@pytest.mark.usefixtures("engine")
def test_a_pipeline_runs_and_reports(data_dir: Path) -> None:
    events: list[Any] = []
    outcome = run_in_engine(data_dir, "p", {"events": 2, "exit": 5}, {"once": True}, events.append)
    assert (outcome.exit_code, outcome.message) == (5, None)
    assert [event["event"] for event in events] == ["starting", "started", "batch", "batch", "failed"]
    given = {"given": {"events": 2, "exit": 5}, "settings": {"once": True}, "directory": os.getcwd()}
    assert given.items() <= events[1].items()
    assert [event["number"] for event in events[2:4]] == [0, 1]


@pytest.mark.usefixtures("engine")
def test_a_failure_is_one_line_and_the_engine_lives(data_dir: Path) -> None:
    outcome = run_in_engine(data_dir, "p", {"failure": "no such table"}, {}, lambda _event: None)
    assert (outcome.exit_code, outcome.message) == (ExitCode.FAILURE, "no such table")
    assert run_in_engine(data_dir, "p", {}, {}, lambda _event: None).exit_code == 0


@pytest.mark.usefixtures("engine")
def test_found_while_it_lives(data_dir: Path) -> None:
    assert find_engine(data_dir) == os.getpid()
    assert stat.S_IMODE((data_dir / SOCKET_FILE).stat().st_mode) == 0o600


def test_not_found_when_there_is_none(data_dir: Path) -> None:
    assert find_engine(data_dir) is None
    Engine(data_dir).close()
    assert find_engine(data_dir) is None
    with pytest.raises(FileNotFoundError):
        EngineRun.submit(data_dir, "p", {}, {})


@pytest.mark.usefixtures("engine")
def test_one_engine_for_a_directory(data_dir: Path) -> None:
    with pytest.raises(EngineInUse, match="another engine"):
        Engine(data_dir)
    assert find_engine(data_dir) is not None


def test_a_path_too_long_for_a_socket(data_dir: Path) -> None:
    deep = data_dir / ("d" * 120)
    engine = Engine(deep)
    assert find_engine(deep) == os.getpid()
    engine.close()
    assert list(deep.iterdir()) == [deep / "engine.lock"]


@pytest.mark.usefixtures("engine")
def test_a_later_run_takes_over_as_outside_of_an_engine(data_dir: Path) -> None:
    first = EngineRun.submit(data_dir, "p", {"until_stopped": True}, {})
    eventually(lambda: [each["state"] for each in list_pipelines(data_dir)] == ["RUNNING"])
    later = EngineRun.submit(data_dir, "p", {"until_stopped": True}, {})
    outcome = first.follow(lambda _event: None)
    assert outcome.exit_code == ExitCode.FENCED
    assert "another run of this pipeline has taken over" in (outcome.message or "")
    later.request_stop()
    assert later.follow(lambda _event: None).exit_code == 0


@pytest.mark.usefixtures("engine")
def test_a_run_beside_what_the_engine_keeps_gets_the_remedy(data_dir: Path) -> None:
    put_pipeline(data_dir, DesiredState(name="p", spec={"until_stopped": True}, directory="/"))
    outcome = run_in_engine(data_dir, "p", {}, {}, lambda _event: None)
    assert outcome.exit_code == ExitCode.FENCED
    assert outcome.message is not None
    assert "`penstock stop p`" in outcome.message
    assert outcome.condition == "PENSTOCK_ALREADY_RUNNING"


@pytest.mark.usefixtures("engine")
def test_stop_ends_that_pipeline_only(data_dir: Path) -> None:
    runs = {name: EngineRun.submit(data_dir, name, {"until_stopped": True}, {}) for name in ("a", "b")}
    eventually(lambda: [each["state"] for each in list_pipelines(data_dir)] == ["RUNNING"] * 2)
    assert stop_pipeline(data_dir, "a")["state"] == "STOPPED"
    events: list[Any] = []
    assert runs["a"].follow(events.append).exit_code == 0
    assert events[-1]["event"] == "stopped"
    (left,) = list_pipelines(data_dir)
    assert (left["name"], left["pid"], left["stopping"]) == ("b", os.getpid(), False)
    with pytest.raises(EngineRefused, match="no pipeline 'a'") as refused:
        stop_pipeline(data_dir, "a")
    assert refused.value.exit_code == ExitCode.NOT_FOUND
    runs["b"].request_stop()
    assert runs["b"].follow(lambda _event: None).exit_code == 0


@pytest.mark.usefixtures("engine")
def test_a_kept_pipeline_is_steered_over_the_socket(data_dir: Path) -> None:
    state = DesiredState(name="p", spec={"until_stopped": True}, directory="/", guarantee="exactly_once")
    assert put_pipeline(data_dir, state)["name"] == "p"
    eventually(lambda: pipeline_status(data_dir, "p")["state"] == "RUNNING")
    assert stop_pipeline(data_dir, "p")["state"] == "STOPPED"
    restart_pipeline(data_dir, "p")
    eventually(lambda: pipeline_status(data_dir, "p")["state"] == "RUNNING")
    delete_pipeline(data_dir, "p")
    assert list_pipelines(data_dir) == []


@pytest.mark.usefixtures("engine")
def test_a_pipeline_is_checked_without_running_it(data_dir: Path) -> None:
    problem = {"path": ["transform"], "message": "no", "line": 1, "position": 0}
    assert check_pipeline(data_dir, "p", {"problems": [problem]}, data_dir)["problems"] == [problem]
    assert list_pipelines(data_dir) == []


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("request_", [{"do": "dance"}, {"do": "put", "desired": {}}, {"do": "check", "work": {}}])
def test_a_request_that_cannot_be_meant_is_refused(data_dir: Path, request_: dict[str, Any]) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.settimeout(30)
        peer.connect(str(data_dir / SOCKET_FILE))
        peer.sendall(json.dumps(request_).encode() + b"\n")
        assert "error" in json.loads(peer.recv(65536))
    assert find_engine(data_dir) is not None


def test_closing_stops_every_pipeline_and_tells(data_dir: Path) -> None:
    engine = Engine(data_dir)
    run = EngineRun.submit(data_dir, "p", {"until_stopped": True}, {})
    eventually(lambda: list_pipelines(data_dir))
    engine.close()
    try:
        assert run.follow(lambda _event: None).exit_code == 0
    except EngineLost:
        pytest.fail("the outcome was not told")


@pytest.mark.usefixtures("engine")
def test_a_client_that_does_not_read_slows_nobody(data_dir: Path) -> None:
    run = EngineRun.submit(data_dir, "p", {"events": 200_000, "exit": 3}, {})
    eventually(lambda: not list_pipelines(data_dir))
    events: list[Any] = []
    assert run.follow(events.append).exit_code == 3
    assert [event["event"] for event in events[-2:]] == ["batch", "failed"]
    assert events[-2]["number"] == 199_999


CLIENT = """
import json, sys
from pathlib import Path
from penstock.pipeline.engine.client import run_in_engine
show = lambda event: print(json.dumps(event), flush=True)
settings = {"once": len(sys.argv) > 3}
outcome = run_in_engine(Path(sys.argv[1]), sys.argv[2], {"until_stopped": True}, settings, show)
print(outcome.message, flush=True)
sys.exit(outcome.exit_code)
"""

ENGINE = """
import sys
from pathlib import Path
from tests.unit.pipeline.engine.test_server import Engine

engine = Engine(Path(sys.argv[1]))
print("ready", flush=True)
engine.serving.join()
"""


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a program and waits for its first line."""
    started: list[subprocess.Popen[str]] = []

    def start(program: str, *arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", program, *map(str, arguments)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline()
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.usefixtures("engine")
def test_a_killed_client_takes_its_pipeline_along(data_dir: Path, start: Callable[..., subprocess.Popen[str]]) -> None:
    client, other = start(CLIENT, data_dir, "a"), start(CLIENT, data_dir, "b")
    assert {pipeline["pid"] for pipeline in list_pipelines(data_dir)} == {client.pid, other.pid}
    client.kill()
    eventually(lambda: [pipeline["name"] for pipeline in list_pipelines(data_dir)] == ["b"])


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_client_stops_its_pipeline(
    data_dir: Path, start: Callable[..., subprocess.Popen[str]], number: int
) -> None:
    client, _other = start(CLIENT, data_dir, "a"), start(CLIENT, data_dir, "b")
    client.send_signal(number)
    out, _ = client.communicate(timeout=30)
    assert json.loads(out.splitlines()[-2])["event"] == "stopped"
    assert client.returncode == 0
    assert [pipeline["name"] for pipeline in list_pipelines(data_dir)] == ["b"]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, ExitCode.TERMINATED)])
def test_a_run_over_available_records_that_a_signal_stops_does_not_look_finished(
    data_dir: Path, start: Callable[..., subprocess.Popen[str]], number: int, code: int
) -> None:
    client = start(CLIENT, data_dir, "a", "once")
    eventually(lambda: list_pipelines(data_dir)[0]["state"] == "RUNNING")
    client.send_signal(number)
    client.communicate(timeout=30)
    assert client.returncode == code


def test_a_killed_engine_is_told_by_its_own_exit_code(
    data_dir: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    engine = start(ENGINE, data_dir)
    client = start(CLIENT, data_dir, "a")
    engine.kill()
    out, _ = client.communicate(timeout=30)
    assert "the engine that ran the pipeline has ended" in out
    assert client.returncode == ExitCode.ENGINE_LOST
    assert find_engine(data_dir) is None
    engine.wait(30)
    start(ENGINE, data_dir)
    assert find_engine(data_dir) is not None


def test_what_should_run_runs_again_after_kill_9(data_dir: Path, start: Callable[..., subprocess.Popen[str]]) -> None:
    engine = start(ENGINE, data_dir)
    for name in ("a", "b"):
        put_pipeline(data_dir, DesiredState(name=name, spec={"until_stopped": True}, directory="/"))
    stop_pipeline(data_dir, "b")
    engine.kill()
    engine.wait(30)
    start(ENGINE, data_dir)
    eventually(lambda: [each["state"] for each in list_pipelines(data_dir)] == ["RUNNING", "STOPPED"])


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("sent", [b"not json\n", b"[1]\n", b"x" * (LINE_BYTES_MAX + 70_000)])
def test_a_peer_that_speaks_otherwise_is_hung_up_on(data_dir: Path, sent: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.settimeout(30)
        peer.connect(str(data_dir / SOCKET_FILE))
        try:
            peer.sendall(sent)
            assert peer.recv(1) == b""
        except (BrokenPipeError, ConnectionResetError):
            pass
    assert find_engine(data_dir) is not None
