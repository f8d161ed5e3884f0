"""`penstock.testing.Etcd`: a real etcd that keeps its data over a kill and leaves nothing behind."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.testing.etcd import Etcd, EtcdMissingError
from tests.conftest import optional_part_missing
from tests.unit.testing.test_broker import is_alive


@pytest.fixture
def etcd() -> Iterator[Etcd]:
    try:
        started = Etcd()
    except EtcdMissingError as missing:
        optional_part_missing(str(missing))
    with started:
        yield started


def ask(etcd: Etcd, call: str, **fields: str) -> Any:
    body = json.dumps({name: base64.b64encode(value.encode()).decode() for name, value in fields.items()})
    with urllib.request.urlopen(f"http://127.0.0.1:{etcd.port}/v3/kv/{call}", body.encode(), timeout=30) as answer:
        return json.load(answer)


def test_data_and_port_survive_a_kill(etcd: Etcd) -> None:
    ask(etcd, "put", key="a", value="1")
    pid, port = etcd.pid(), etcd.port
    etcd.kill()
    assert not is_alive(pid)
    etcd.start()
    assert etcd.port == port
    assert etcd.pid() != pid
    (found,) = ask(etcd, "range", key="a")["kvs"]
    assert base64.b64decode(found["value"]) == b"1"


def test_the_context_leaves_no_process() -> None:
    try:
        with Etcd() as etcd:
            pid = etcd.pid()
            assert is_alive(pid)
    except EtcdMissingError as missing:
        optional_part_missing(str(missing))
    assert not is_alive(pid)


def test_it_ends_with_the_process_that_started_it(etcd: Etcd, tmp_path: Path) -> None:
    program = (
        "from penstock.testing.etcd import Etcd; from pathlib import Path; import os, signal, sys\n"
        "etcd = Etcd(Path(sys.argv[1])); etcd.start(); print(etcd.pid(), flush=True); os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, timeout=120)
    pid = int(killed.stdout)
    while is_alive_or_ending(pid):
        time.sleep(0.01)


def is_alive_or_ending(pid: int) -> bool:
    try:
        return is_alive(pid)
    except (FileNotFoundError, ProcessLookupError):
        return False
