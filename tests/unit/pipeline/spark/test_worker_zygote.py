"""A real zygote and real shims, with modules that stand in for Spark's workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.pipeline.spark import worker_shim
from penstock.pipeline.spark.worker_zygote import SOCKET_VARIABLE

# The zygote without its preloading, which takes a second and is tried in tests/pipeline.
ZYGOTE = """
import sys
from penstock.pipeline.spark import worker_zygote
worker_zygote.preload = lambda purposes: None
worker_zygote.main()
"""

Shim = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("z")  # short, for the socket


@pytest.fixture
def zygote(directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", ZYGOTE, str(directory / "s")], stdin=subprocess.PIPE)
    deadline = time.monotonic() + 30
    while not (directory / "s").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    yield process
    assert process.stdin is not None
    process.stdin.close()
    process.wait(30)


@pytest.fixture
def shim(directory: Path) -> Iterator[Shim]:
    """Starts the module `task` with this source as Spark would."""
    started: list[subprocess.Popen[str]] = []

    def start(source: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        module = directory / "task.py"
        if not module.exists():  # a child may be reading it
            module.write_text(source)
        process = subprocess.Popen(
            [sys.executable, "-IS", worker_shim.__file__, "-m", "task", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, SOCKET_VARIABLE: str(directory / "s"), "PYTHONPATH": str(directory), **environment},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


SHOW = """
import json, os, sys
print(json.dumps([sys.argv[1:], os.environ["MINE"], os.getcwd(), sys.stdin.read(), os.getppid(), __name__]))
print("to stderr", file=sys.stderr)
sys.exit(7)
"""


def test_a_child_is_what_the_interpreter_would_have_been(zygote: subprocess.Popen[bytes], shim: Shim) -> None:
    process = shim(SHOW, "a", "b c", MINE="yes")
    out, err = process.communicate("input", timeout=30)
    assert out.strip() == f'[["a", "b c"], "yes", "{os.getcwd()}", "input", {zygote.pid}, "__main__"]'
    assert err == "to stderr\n"
    assert process.returncode == 7


def test_without_a_zygote_it_is_the_interpreter(shim: Shim) -> None:
    process = shim(SHOW, MINE="yes")
    out, _ = process.communicate("", timeout=30)
    assert f"{os.getpid()}, " in out
    assert process.returncode == 7


@pytest.mark.usefixtures("zygote")
@pytest.mark.parametrize(
    ("source", "status", "said"),
    [
        ("raise ValueError('bad')", 1, "ValueError: bad"),
        ("raise SystemExit('words')", 1, "words"),
        ("pass", 0, ""),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, ""),
    ],
)
def test_the_end_of_a_child_is_the_end_of_its_shim(shim: Shim, source: str, status: int, said: str) -> None:
    process = shim(source)
    _, err = process.communicate("", timeout=30)
    assert said in err
    assert process.returncode == status


SLEEP = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"


@pytest.mark.usefixtures("zygote")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_child_ends_with_its_shim(shim: Shim, number: int) -> None:
    process = shim(SLEEP)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    process.send_signal(number)
    await_end(child)


def test_children_end_with_the_zygote(zygote: subprocess.Popen[bytes], shim: Shim) -> None:
    process = shim(SLEEP)
    assert process.stdout is not None
    assert zygote.stdin is not None
    child = int(process.stdout.readline())
    zygote.stdin.close()
    await_end(child)
    assert process.wait(30) != 0


@pytest.mark.usefixtures("zygote")
def test_many_at_once(shim: Shim) -> None:
    processes = [shim("import sys; sys.exit(int(sys.argv[1]))", str(number)) for number in range(12)]
    assert [process.wait(60) for process in processes] == list(range(12))


def await_end(pid: int) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    pytest.fail("the child was still there after 30 s")
