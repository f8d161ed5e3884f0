"""`penstock.testing.Broker` and the pytest plugin: a real broker that leaves nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penstock.client.admin import Admin
from penstock.testing import Broker
from penstock.testing.pytest_plugin import BrokerFactory

TIMEOUT_S = 30.0


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # One that has ended and waits for its parent to notice has ended all the same.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def accepts_connections(broker: Broker) -> bool:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=TIMEOUT_S).close()
    except ConnectionRefusedError:
        return False
    return True


def topics_of(broker: Broker) -> list[str]:
    return Admin({"bootstrap.servers": broker.bootstrap_servers}).list_topics()


def test_a_context_leaves_no_process_and_no_directory() -> None:
    with Broker() as broker:
        pid, data_dir = broker.pid, broker.data_dir
        assert accepts_connections(broker)
        assert data_dir.is_dir()
        assert is_alive(pid)
    assert not is_alive(pid)
    assert not data_dir.exists()
    assert not accepts_connections(broker)


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_port_and_topics_survive(how: str) -> None:
    with Broker() as broker:
        Admin({"bootstrap.servers": broker.bootstrap_servers}).create_topic("kept")
        address, data_dir, pid = broker.bootstrap_servers, broker.data_dir, broker.pid
        getattr(broker, how)()
        assert not broker.is_running()
        assert not is_alive(pid)
        with pytest.raises(RuntimeError, match="not running"):
            _ = broker.pid
        broker.start()
        assert (broker.bootstrap_servers, broker.data_dir) == (address, data_dir)
        assert broker.pid != pid
        assert topics_of(broker) == ["kept"]


def test_restart() -> None:
    with Broker() as broker:
        pid, address = broker.pid, broker.bootstrap_servers
        broker.restart()
        assert broker.pid != pid
        assert broker.bootstrap_servers == address


def test_settings_reach_the_broker() -> None:
    with Broker(config={"num.partitions": "3"}) as broker:
        admin = Admin({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topic("t")
        assert len(admin.describe_topic("t").partitions) == 3


def test_a_directory_that_was_given_is_kept(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path / "data") as broker:
        Admin({"bootstrap.servers": broker.bootstrap_servers}).create_topic("kept")
    with Broker(data_dir=tmp_path / "data") as broker:
        assert topics_of(broker) == ["kept"]


def test_a_broker_that_does_not_start_says_why() -> None:
    broker = Broker(config={"num.partitons": "3"})
    with pytest.raises(RuntimeError, match=r"(?s)exit code 10.*num\.partitions"), broker:
        pytest.fail("it started")
    assert not broker.is_running()


def test_stopping_and_killing_twice_is_harmless_and_starting_twice_is_not() -> None:
    with Broker() as broker:
        with pytest.raises(RuntimeError, match="already running"):
            broker.start()
        broker.stop()
        broker.stop()
        broker.kill()


def test_a_broker_that_died_by_itself_is_not_passed_over(tmp_path: Path) -> None:
    broker = Broker(data_dir=tmp_path)
    broker.start()
    os.kill(broker.pid, signal.SIGKILL)
    deadline = time.monotonic() + TIMEOUT_S
    while broker.is_running():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with pytest.raises(RuntimeError, match="had exited before it was stopped"):
        broker.stop()


ORPHAN = """
import os, sys
from penstock.testing import Broker
broker = Broker(data_dir=sys.argv[1])
broker.start()
print(broker.pid, flush=True)
sys.stdin.read()
"""


def test_a_broker_ends_when_the_process_that_started_it_is_killed(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", ORPHAN, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    with parent.stdin, parent.stdout:
        pid = int(parent.stdout.readline())
        assert is_alive(pid)
        parent.kill()
        parent.wait()
    deadline = time.monotonic() + TIMEOUT_S
    while is_alive(pid):
        assert time.monotonic() < deadline, "the broker outlived its parent"
        time.sleep(0.05)


def test_a_temporary_directory_goes_with_its_broker() -> None:
    broker = Broker()
    broker.start()
    data_dir = broker.data_dir
    broker.stop()
    assert data_dir.is_dir()
    del broker
    assert not data_dir.exists()


def test_settings_of_the_environment_do_not_reach_a_test(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PENSTOCK_LOG_DIRS", str(tmp_path / "production"))
    with Broker() as broker:
        assert topics_of(broker) == []
    assert not (tmp_path / "production").exists()


def test_the_fixture_is_a_running_broker(penstock_broker: Broker) -> None:
    assert accepts_connections(penstock_broker)


def test_the_factory_starts_brokers_with_settings(penstock_broker_factory: BrokerFactory) -> None:
    one = penstock_broker_factory()
    three = penstock_broker_factory(config={"num.partitions": "3"})
    assert one.bootstrap_servers != three.bootstrap_servers
    admin = Admin({"bootstrap.servers": three.bootstrap_servers})
    admin.create_topic("t")
    assert len(admin.describe_topic("t").partitions) == 3


def test_the_plugin_costs_nothing_when_it_is_not_used() -> None:
    program = "import sys, penstock.testing.pytest_plugin; print(*sys.modules)"
    imported = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "penstock.testing.pytest_plugin" in imported
    assert not {"confluent_kafka", "rich", "typer", "uvloop", "asyncio"} & set(imported)
