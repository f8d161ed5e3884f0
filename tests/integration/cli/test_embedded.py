"""Commands without --bootstrap-server: the embedded broker of ./.penstock/, started on demand and shared."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from penstock.client.local_broker.bootstrap import DISCOVERY_FILE, embedded_broker, find_running_broker
from penstock.core.exit_codes import ExitCode
from tests.integration.cli.conftest import TIMEOUT_S, Command, command_line, environment, only_line


def assert_stopped(data_dir: Path) -> None:
    """Nobody has the directory, which a broker that runs or is about to stop would."""
    deadline = time.monotonic() + TIMEOUT_S
    while (data_dir / DISCOVERY_FILE).exists():
        assert time.monotonic() < deadline, "the embedded broker goes on though nobody uses it"
        time.sleep(0.05)
    assert find_running_broker(data_dir) is None


def test_records_stay_from_one_command_to_the_next(embedded: Command, tmp_path: Path) -> None:
    assert embedded("topic", "list").stdout == b""
    sent = embedded("produce", "greetings", stdin=b"hello\nworld\n")
    assert (sent.returncode, sent.stdout, sent.stderr) == (0, b"", b"")
    assert not (tmp_path / ".penstock" / DISCOVERY_FILE).exists()
    assert embedded("consume", "greetings", "--from-beginning", "-e").stdout == b"hello\nworld\n"
    assert embedded("topic", "list").stdout == b"greetings\n"
    assert_stopped(tmp_path / ".penstock")


def test_a_pipeline_of_commands_shares_one_broker(embedded: Command, tmp_path: Path) -> None:
    numbers = b"".join(b"%d\n" % number for number in range(5000))
    assert embedded("produce", "a", stdin=numbers).returncode == 0
    reader = subprocess.Popen(
        command_line("consume", "a", "--from-beginning", "-e"), stdout=subprocess.PIPE, cwd=tmp_path, env=environment()
    )
    writer = subprocess.Popen(command_line("produce", "b"), stdin=reader.stdout, cwd=tmp_path, env=environment())
    assert reader.stdout is not None
    reader.stdout.close()
    assert reader.wait(TIMEOUT_S) == 0
    assert writer.wait(TIMEOUT_S) == 0
    assert embedded("consume", "b", "--from-beginning", "-e").stdout == numbers
    assert_stopped(tmp_path / ".penstock")


def test_a_broker_that_runs_already_is_used_and_left_alone(embedded: Command, tmp_path: Path) -> None:
    broker = subprocess.Popen(
        command_line("broker", "--listen", "127.0.0.1:0", "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=tmp_path,
        env=environment(),
    )
    assert broker.stdout is not None
    with broker.stdout:
        ready = json.loads(broker.stdout.readline())
        assert json.loads((tmp_path / ".penstock" / DISCOVERY_FILE).read_text())["port"] == ready["port"]
        assert embedded("produce", "t", stdin=b"x\n").returncode == 0
        assert broker.poll() is None
        broker.send_signal(signal.SIGINT)
        assert broker.wait(TIMEOUT_S) == 0
    assert not (tmp_path / ".penstock" / DISCOVERY_FILE).exists()
    assert embedded("consume", "t", "--from-beginning", "-e").stdout == b"x\n"


def test_a_broker_of_which_only_the_file_is_left_is_replaced(embedded: Command, tmp_path: Path) -> None:
    (tmp_path / ".penstock").mkdir()
    (tmp_path / ".penstock" / DISCOVERY_FILE).write_text(json.dumps({"host": "127.0.0.1", "port": 1, "pid": 1}))
    assert embedded("topic", "create", "t").returncode == 0
    assert embedded("topic", "list").stdout == b"t\n"


def test_the_broker_stops_when_its_only_user_is_killed(tmp_path: Path) -> None:
    consumer = subprocess.Popen(
        command_line("produce", "t"), stdin=subprocess.PIPE, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE
    )
    assert consumer.stdin is not None
    assert consumer.stderr is not None
    with consumer.stdin, consumer.stderr:
        deadline = time.monotonic() + TIMEOUT_S
        while find_running_broker(tmp_path / ".penstock") is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        consumer.kill()
        consumer.wait()
    assert_stopped(tmp_path / ".penstock")


def test_many_commands_at_once_agree_on_one_broker(embedded: Command, tmp_path: Path) -> None:
    commands = [
        subprocess.Popen(
            command_line("topic", "create", f"t{number}"),
            cwd=tmp_path,
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for number in range(6)
    ]
    for command in commands:
        _, errors = command.communicate(timeout=TIMEOUT_S)
        assert (command.returncode, errors) == (0, b"")
    assert embedded("topic", "list").stdout.split() == [b"t0", b"t1", b"t2", b"t3", b"t4", b"t5"]
    assert_stopped(tmp_path / ".penstock")


def test_the_address_is_told_to_whoever_had_it_started(tmp_path: Path) -> None:
    told: list[str] = []
    with embedded_broker(tmp_path / "data", on_start=told.append) as address:
        assert told == [address]
        with embedded_broker(tmp_path / "data", on_start=told.append) as same:
            assert same == address
        assert find_running_broker(tmp_path / "data") == address
    assert told == [address]
    assert find_running_broker(tmp_path / "data") is None


def test_a_directory_that_cannot_be_used_is_one_line(embedded: Command, tmp_path: Path) -> None:
    (tmp_path / ".penstock").write_text("a file where the directory should be")
    finished = embedded("topic", "list")
    assert finished.returncode != 0
    assert ".penstock" in only_line(finished.stderr)
    assert os.path.isfile(tmp_path / ".penstock")


def test_a_directory_that_is_deleted_under_its_broker_is_said(embedded: Command, tmp_path: Path) -> None:
    assert embedded("produce", "greetings", stdin=b"hello\n").returncode == 0
    reader = subprocess.Popen(
        command_line("consume", "greetings", "--from-beginning"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=environment(),
    )
    assert reader.stdout is not None
    assert reader.stdout.readline() == b"hello\n"
    shutil.rmtree(tmp_path / ".penstock")
    _output, errors = reader.communicate(timeout=TIMEOUT_S)
    assert reader.returncode == ExitCode.DATA_DIR_UNUSABLE
    assert only_line(errors).startswith(
        "penstock: the embedded broker: .penstock: the data directory was deleted while the broker was running"
    )
