"""`penstock broker`: its ready line, its end, and every way in which it does not start."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.cli.conftest import TIMEOUT_S, Command, command_line, environment, only_line


@contextmanager
def running(*words: str, cwd: Path, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    broker = subprocess.Popen(
        command_line("broker", *words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env={**environment(), **variables},
    )
    assert broker.stdout is not None
    assert broker.stderr is not None
    try:
        with broker.stdout, broker.stderr:
            yield broker
    finally:
        broker.kill()
        broker.wait()


def first_line(broker: subprocess.Popen[bytes]) -> str:
    assert broker.stdout is not None
    return broker.stdout.readline().decode()


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_the_ready_line_and_a_clean_end(tmp_path: Path, stop: signal.Signals) -> None:
    with running("--listen", "127.0.0.1:0", cwd=tmp_path) as broker:
        line = first_line(broker)
        assert line.startswith("penstock broker: listening on 127.0.0.1:")
        port = int(line.rpartition(":")[2])
        socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S).close()
        broker.send_signal(stop)
        assert broker.wait(TIMEOUT_S) == 0
        assert broker.stdout is not None
        assert broker.stderr is not None
        assert (broker.stdout.read(), broker.stderr.read()) == (b"", b"")
    assert (tmp_path / ".penstock").is_dir()


def test_the_ready_line_as_json(tmp_path: Path) -> None:
    with running("--listen", "127.0.0.1:0", "--data-dir", "data", "--json", cwd=tmp_path) as broker:
        ready = json.loads(first_line(broker))
        assert ready == {"event": "ready", "host": "127.0.0.1", "port": ready["port"], "pid": broker.pid}
        assert ready["port"] > 0
    assert (tmp_path / "data").is_dir()


def test_settings_from_the_file_the_options_and_the_environment(embedded: Command, tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text(
        "listeners=PLAINTEXT://127.0.0.1:0\nlog.dirs=from-file\nnum.partitions=2\nlog.retention.hours=5\n"
    )
    words = ("--config", "server.properties", "--set", "log.retention.hours=7", "--json")
    with running(*words, cwd=tmp_path, PENSTOCK_NUM_PARTITIONS="4") as broker:
        address = f"127.0.0.1:{json.loads(first_line(broker))['port']}"
        assert embedded("topic", "create", "t", "-b", address).returncode == 0
        (described,) = json.loads(embedded("topic", "describe", "t", "--json", "-b", address).stdout)
        assert len(described["partitions"]) == 4
    assert (tmp_path / "from-file").is_dir()
    assert not (tmp_path / ".penstock").exists()


def test_what_is_typed_overrides_the_environment(tmp_path: Path) -> None:
    variables = {"PENSTOCK_LOG_DIRS": "elsewhere", "PENSTOCK_LISTENERS": "PLAINTEXT://127.0.0.1:1"}
    with running("--listen", "127.0.0.1:0", "--data-dir", "data", cwd=tmp_path, **variables) as broker:
        assert "listening on" in first_line(broker)
    assert (tmp_path / "data").is_dir()
    assert not (tmp_path / "elsewhere").exists()


def test_a_port_in_use(embedded: Command, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        finished = embedded("broker", "--listen", address)
    assert finished.returncode == 11
    assert address in only_line(finished.stderr)
    assert not (tmp_path / ".penstock").exists()


def test_a_data_directory_that_another_broker_has(embedded: Command, tmp_path: Path) -> None:
    with running("--listen", "127.0.0.1:0", cwd=tmp_path) as broker:
        address = first_line(broker).rpartition(" ")[2].strip()
        second = embedded("broker", "--listen", "127.0.0.1:0")
        assert second.returncode == 12
        assert ".penstock" in only_line(second.stderr)
        # The first one is none the worse for it.
        assert embedded("topic", "create", "t").returncode == 0
        assert embedded("topic", "list", "-b", address).stdout == b"t\n"


def test_a_data_directory_that_is_a_file(embedded: Command, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("precious")
    finished = embedded("broker", "--listen", "127.0.0.1:0", "--data-dir", "data")
    assert finished.returncode == 13
    assert "data" in only_line(finished.stderr)
    assert (tmp_path / "data").read_text() == "precious"


def test_a_data_directory_that_may_not_be_written(embedded: Command, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        # Nothing is forbidden to the superuser, except where the kernel itself has no directories to make.
        unusable = Path("/proc/penstock-data")
    else:
        (tmp_path / "parent").mkdir(mode=0o500)
        unusable = tmp_path / "parent" / "data"
    finished = embedded("broker", "--listen", "127.0.0.1:0", "--data-dir", str(unusable))
    assert finished.returncode == 13
    assert str(unusable) in only_line(finished.stderr)


@pytest.mark.parametrize(
    ("words", "reasons"),
    [
        (("--set", "num.partitons=3"), ("num.partitons", "num.partitions")),
        (("--set", "num.partitions=many"), ("num.partitions", "many")),
        (("--config", "missing.properties"), ("missing.properties",)),
        (("--set", "num.partitions"), ("num.partitions",)),
    ],
)
def test_a_bad_setting_is_named_with_its_place(
    embedded: Command, tmp_path: Path, words: tuple[str, ...], reasons: tuple[str, ...]
) -> None:
    finished = embedded("broker", "--listen", "127.0.0.1:0", *words)
    assert finished.returncode == 10
    line = only_line(finished.stderr)
    assert all(reason in line for reason in reasons), line
    assert not (tmp_path / ".penstock").exists()


def test_a_bad_line_of_the_file_is_named_with_its_number(embedded: Command, tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text("# a comment\nnum.partitions=3\nlog.retention.hours=soon\n")
    finished = embedded("broker", "--config", "server.properties")
    assert finished.returncode == 10
    assert "server.properties:3" in only_line(finished.stderr)
