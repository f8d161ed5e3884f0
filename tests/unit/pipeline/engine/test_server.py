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
    EngineRun,
    find_engine,
    list_pipelines,
    run_in_engine,
    stop_pipeline,
)
from penstock.pipeline.engine.protocol import LINE_BYTES_MAX, SOCKET_FILE
from penstock.pipeline.engine.server import Engine, EngineInUse, Run


def pretend(spec: dict[str, Any], options: dict[str, Any], run: Run) -> int:
    """Reports what it was given, then does as the pipeline says."""
    run.report({"given": spec, "options": options, "directory": str(run.directory)})
    for number in range(spec.get("events", 0)):
        run.report({"number": number})
    if "failure" in spec:
        raise RuntimeError(spec["failure"])
    if spec.get("until_stopped"):
        run.stop.wait()
        run.report({"stopped": True})
    return int(spec.get("exit", 0))


@pytest.fixture
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("e")


@pytest.fixture
def engine(data_dir: Path) -> Iterator[Engine]:
    engine = Engine(data_dir, pretend)
    serving = threading.Thread(target=engine.serve)
    serving.start()
    yield engine
    assert engine.close(30)
    serving.join(30)
    assert not serving.is_alive()


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
    given = {"given": {"events": 2, "exit": 5}, "options": {"once": True}, "directory": os.getcwd()}
    assert events == [given, {"number": 0}, {"number": 1}]


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
    engine = Engine(data_dir, pretend)
    engine.close()
    assert find_engine(data_dir) is None
    with pytest.raises(FileNotFoundError):
        EngineRun.submit(data_dir, "p", {}, {})


@pytest.mark.usefixtures("engine")
def test_one_engine_for_a_directory(data_dir: Path) -> None:
    with pytest.raises(EngineInUse, match="another engine"):
        Engine(data_dir, pretend)
    assert find_engine(data_dir) is not None


def test_a_path_too_long_for_a_socket(data_dir: Path) -> None:
    deep = data_dir / ("d" * 120)
    engine = Engine(deep, pretend)
    serving = threading.Thread(target=engine.serve)
    serving.start()
    assert find_engine(deep) == os.getpid()
    engine.close()
    serving.join(30)
    assert list(deep.iterdir()) == [deep / "engine.lock"]


@pytest.mark.usefixtures("engine")
def test_a_name_runs_once(data_dir: Path) -> None:
    first = EngineRun.submit(data_dir, "p", {"until_stopped": True}, {})
    eventually(lambda: list_pipelines(data_dir))
    outcome = run_in_engine(data_dir, "p", {}, {}, lambda _event: None)
    assert (outcome.exit_code, outcome.message) == (ExitCode.FAILURE, "pipeline 'p' runs already")
    first.request_stop()
    assert first.follow(lambda _event: None).exit_code == 0


@pytest.mark.usefixtures("engine")
def test_stop_ends_that_pipeline_only(data_dir: Path) -> None:
    runs = {name: EngineRun.submit(data_dir, name, {"until_stopped": True}, {}) for name in ("a", "b")}
    eventually(lambda: len(list_pipelines(data_dir)) == 2)
    assert stop_pipeline(data_dir, "a")
    events: list[Any] = []
    assert runs["a"].follow(events.append).exit_code == 0
    assert events[-1] == {"stopped": True}
    (left,) = list_pipelines(data_dir)
    assert (left["name"], left["pid"], left["stopping"]) == ("b", os.getpid(), False)
    assert not stop_pipeline(data_dir, "a")
    runs["b"].request_stop()
    assert runs["b"].follow(lambda _event: None).exit_code == 0


def test_closing_stops_every_pipeline_and_tells(data_dir: Path) -> None:
    engine = Engine(data_dir, pretend)
    serving = threading.Thread(target=engine.serve)
    serving.start()
    run = EngineRun.submit(data_dir, "p", {"until_stopped": True}, {})
    eventually(lambda: list_pipelines(data_dir))
    assert engine.close(30)
    serving.join(30)
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
    assert events[-1] == {"number": 199_999}


CLIENT = """
import json, sys
from pathlib import Path
from penstock.pipeline.engine.client import run_in_engine
show = lambda event: print(json.dumps(event), flush=True)
outcome = run_in_engine(Path(sys.argv[1]), sys.argv[2], {"until_stopped": True}, {}, show)
print(outcome.message, flush=True)
sys.exit(outcome.exit_code)
"""

ENGINE = """
import sys
from pathlib import Path
from penstock.pipeline.engine.server import Engine

def host(spec, options, run):
    run.report({"running": run.name})
    run.stop.wait()
    return 0

engine = Engine(Path(sys.argv[1]), host)
print("ready", flush=True)
engine.serve()
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
    assert json.loads(out.splitlines()[0]) == {"stopped": True}
    assert client.returncode == 0
    assert [pipeline["name"] for pipeline in list_pipelines(data_dir)] == ["b"]


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
