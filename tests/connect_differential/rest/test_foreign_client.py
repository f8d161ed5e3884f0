"""A REST client from PyPI, kafka-connect-py, manages connectors of our worker with its own commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import pytest

from tests.connect_differential.rest.our_worker import our_worker, real_herder

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

REQUIREMENT: Final = "kafka-connect-py==1.0.0"
WAIT_S: Final = 30
SOURCE: Final = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": "test.txt", "topic": "connect-test"}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client's program, in an environment of its own."""
    directory = tmp_path_factory.mktemp("kafka-connect-py")
    subprocess.run([sys.executable, "-m", "venv", directory], check=True)
    install = [str(directory / "bin/pip"), "install", "--quiet", "--disable-pip-version-check", REQUIREMENT]
    subprocess.run(install, check=True, env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"})
    return directory / "bin/kc"


def test_a_foreign_client_manages_connectors(client: Path) -> None:
    with our_worker(real_herder) as url:

        def run(*words: str) -> Any:
            done = subprocess.run(
                [client, "--url", url, "--log-level", "CRITICAL", *words],
                capture_output=True,
                text=True,
                timeout=WAIT_S,
            )
            assert done.returncode == 0, (words, done.stdout, done.stderr)
            lines = [line for line in done.stdout.splitlines() if line.startswith(("{", "["))]
            return json.loads(lines[-1]) if lines else None

        def await_state(state: str) -> None:
            deadline = time.monotonic() + WAIT_S
            while (found := run("status", "reader"))["connector"]["state"] != state:
                assert time.monotonic() < deadline, found

        assert run("info")["version"]
        assert run("list") == []
        created = run("create", "--config-data", json.dumps({"name": "reader", "config": SOURCE}))
        assert (created["name"], created["type"]) == ("reader", "source")
        assert run("list") == ["reader"]
        await_state("RUNNING")
        assert run("list", "--state", "RUNNING") == ["reader"]
        assert run("list", "--expand", "status")["reader"]["status"]["tasks"][0]["state"] == "RUNNING"
        assert run("get", "reader")["tasks"] == [{"connector": "reader", "task": 0}]
        assert run("config", "reader") == {**SOURCE, "name": "reader"}
        updated = run("update", "reader", "--config-data", json.dumps({**SOURCE, "topic": "other"}))
        assert updated["config"]["topic"] == "other"
        run("pause", "reader")
        await_state("PAUSED")
        assert run("list", "--state", "RUNNING") == []
        run("resume", "reader")
        await_state("RUNNING")
        run("restart", "reader")
        run("restart", "reader", "--include-tasks")
        await_state("RUNNING")
        run("delete", "reader")
        assert run("list") == []


def test_the_client_understands_refusals(client: Path) -> None:
    with our_worker(real_herder) as url:
        words = ["create", "--config-data", json.dumps({"name": "reader", "config": {"connector.class": "Missing"}})]
        done = subprocess.run([client, "--url", url, *words], capture_output=True, text=True, timeout=WAIT_S)
        assert "500 Server Error" in done.stderr + done.stdout or "400 Client Error" in done.stderr + done.stdout
        missing = subprocess.run([client, "--url", url, "get", "none"], capture_output=True, text=True, timeout=WAIT_S)
        assert "404 Client Error" in missing.stderr + missing.stdout
