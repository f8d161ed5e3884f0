"""Finding the broker of a data directory."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.client.local_broker.bootstrap import DISCOVERY_FILE, find_running_broker, require_listener
from penstock.core.errors import BrokerUnreachable


@pytest.fixture
def listening_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def closed_port() -> Iterator[int]:
    """Bound, so that it stays free, and not listening."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def leave(data_dir: Path, **fields: object) -> None:
    (data_dir / DISCOVERY_FILE).write_text(json.dumps(fields))


def test_a_live_broker_is_found(tmp_path: Path, listening_port: int) -> None:
    leave(tmp_path, host="127.0.0.1", port=listening_port, pid=os.getpid())
    assert find_running_broker(tmp_path) == f"127.0.0.1:{listening_port}"


def test_a_file_whose_process_has_died_counts_as_absent(tmp_path: Path, listening_port: int) -> None:
    finished = subprocess.Popen([sys.executable, "-c", ""])
    finished.wait()
    leave(tmp_path, host="127.0.0.1", port=listening_port, pid=finished.pid)
    assert find_running_broker(tmp_path) is None


def test_a_file_whose_port_does_not_answer_counts_as_absent(tmp_path: Path, closed_port: int) -> None:
    leave(tmp_path, host="127.0.0.1", port=closed_port, pid=os.getpid())
    assert find_running_broker(tmp_path) is None


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"host": "h", "port": "x", "pid": 1}', "null"])
def test_a_damaged_file_counts_as_absent(tmp_path: Path, content: str) -> None:
    (tmp_path / DISCOVERY_FILE).write_text(content)
    assert find_running_broker(tmp_path) is None


def test_no_file_is_absent(tmp_path: Path) -> None:
    assert find_running_broker(tmp_path / "nowhere") is None


def test_one_listener_of_several_is_enough(listening_port: int, closed_port: int) -> None:
    require_listener([("127.0.0.1", closed_port), ("127.0.0.1", listening_port)])


def test_no_listener_at_all_is_an_error_that_names_them(closed_port: int) -> None:
    with pytest.raises(BrokerUnreachable, match=rf"127\.0\.0\.1:{closed_port} \(connection refused\)"):
        require_listener([("127.0.0.1", closed_port)])
