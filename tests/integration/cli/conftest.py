"""The `penstock` command as a person or a script meets it: a process with stdin, stdout, stderr and an exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol
from uuid import uuid4

import pytest

from penstock import Admin
from tests.conftest import RunningBroker

TIMEOUT_S = 60


class Command(Protocol):
    def __call__(self, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]: ...


def environment() -> dict[str, str]:
    """Ours without anything that speaks to Penstock."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}


def command_line(*words: str) -> list[str]:
    return [sys.executable, "-m", "penstock.cli.main", *words]


@pytest.fixture
def embedded(tmp_path: Path) -> Command:
    """Runs `penstock` in a directory of its own, where the embedded broker is the one to talk to."""

    def run(*words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            command_line(*words),
            input=stdin,
            capture_output=True,
            cwd=tmp_path,
            env=environment(),
            timeout=TIMEOUT_S,
        )

    return run


@pytest.fixture
def penstock(tmp_path: Path, broker_under_test: RunningBroker) -> Command:
    """Runs `penstock` against the broker under test."""
    variables = {**environment(), "PENSTOCK_BOOTSTRAP_SERVER": broker_under_test.bootstrap_servers}

    def run(*words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            command_line(*words), input=stdin, capture_output=True, cwd=tmp_path, env=variables, timeout=TIMEOUT_S
        )

    return run


@pytest.fixture
def new_topic(broker_under_test: RunningBroker) -> Callable[..., str]:
    """Creates a topic with a name of its own, without the command: test_topic.py is about that."""
    admin = Admin({"bootstrap.servers": broker_under_test.bootstrap_servers})

    def create(*, partitions: int = 1) -> str:
        name = f"cli-{uuid4().hex}"
        admin.create_topic(name, partitions=partitions)
        return name

    return create


def only_line(stderr: bytes) -> str:
    """What a failure printed, which must be one line."""
    text = stderr.decode()
    assert text.startswith("penstock: "), text
    assert text.count("\n") == 1, text
    return text.rstrip()
