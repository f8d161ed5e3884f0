"""A broker that cannot start: one clear line on stderr, a documented exit code, no traceback, and nothing damaged.

What a person types wrong on the command line is in tests/integration/cli/test_broker.py; here it is what the machine
and the data directory have in store.
"""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.core.exit_codes import ExitCode
from penstock.testing import Broker
from tests.conftest import optional_part_missing
from tests.robustness.neighbour import Neighbour

RECORDS = [b"%d" % number for number in range(100)]


def start(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    command = [sys.executable, "-m", "penstock.cli.main", "broker", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, env=environment)


def refused(data_dir: Path | str, *words: str, code: ExitCode, named: str | Path, listen: str = "127.0.0.1:0") -> str:
    """Starts a broker that must not start; the one line that it printed, which must name this."""
    done = start("--listen", listen, "--data-dir", str(data_dir), *words)
    assert done.stdout == ""
    assert done.stderr.startswith("penstock: ")
    assert done.stderr.count("\n") == 1, done.stderr
    assert str(named) in done.stderr
    assert done.returncode == code, done.stderr
    return done.stderr


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Of a broker that was used and stopped."""
    directory = tmp_path / "data"
    with Broker(data_dir=directory) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for record in RECORDS:
            producer.produce("t", record, partition=0)
        assert producer.flush(20) == 0
    return directory


def stored_records(data_dir: Path) -> list[bytes]:
    with Broker(data_dir=data_dir) as broker:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "unused"})
        try:
            consumer.assign([TopicPartition("t", 0, 0)])
            messages = consumer.consume(len(RECORDS), 20)
            return [message.value() or b"" for message in messages]
        finally:
            consumer.close()


def contents(directory: Path) -> dict[str, str]:
    """Every file below, by a digest of its content."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def test_a_second_broker_leaves_the_first_one_alone() -> None:
    with Broker() as first:
        with Neighbour(first.bootstrap_servers) as neighbour:
            neighbour.await_progress()
            for _ in range(3):
                refused(first.data_dir, code=ExitCode.DATA_DIR_IN_USE, named=first.data_dir)
                neighbour.await_progress()
        first.restart()
        assert first.stderr_text().count("\n") == 0


def test_the_directory_of_a_killed_broker_is_free_at_once() -> None:
    with Broker() as broker:
        for _ in range(3):
            broker.kill()
            broker.start()


def test_a_port_in_use_touches_no_data(data_dir: Path) -> None:
    before = contents(data_dir)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        refused(data_dir, code=ExitCode.CANNOT_LISTEN, named=address, listen=address)
    assert contents(data_dir) == before


@pytest.mark.parametrize("address", ["192.0.2.1:9092", "no.such.host.invalid:9092"])
def test_an_address_that_is_not_ours(tmp_path: Path, address: str) -> None:
    refused(tmp_path / "data", code=ExitCode.CANNOT_LISTEN, named=address, listen=address)
    assert not (tmp_path / "data").exists()


def test_a_data_directory_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    refused(tmp_path / "file" / "data", code=ExitCode.DATA_DIR_UNUSABLE, named=tmp_path / "file")
    assert (tmp_path / "file").read_text() == "precious"


def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    refused(tmp_path / ("x" * 300), code=ExitCode.DATA_DIR_UNUSABLE, named="File name too long")


@pytest.fixture
def read_only(data_dir: Path) -> Iterator[Path]:
    """The same data directory on a disk that takes no writes: what an unreadable one is to the superuser."""
    place = data_dir.parent / "read-only"
    place.mkdir()
    mounted = subprocess.run(["mount", "--bind", str(data_dir), str(place)], capture_output=True, text=True)
    if mounted.returncode:
        optional_part_missing(
            f"a read-only disk cannot be mounted: {mounted.stderr.strip()}; run as root, with mount(8)"
        )
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(place)], check=True)
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_read_only_data_directory(data_dir: Path, read_only: Path) -> None:
    before = contents(data_dir)
    refused(read_only, code=ExitCode.DATA_DIR_UNUSABLE, named=read_only)
    assert contents(data_dir) == before
    assert stored_records(data_dir) == RECORDS


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _binary(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 4)


def _text(path: Path) -> None:
    path.write_text("this is not what you are looking for\n")


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("spoil", [_empty, _binary, _text, _directory], ids=lambda spoil: spoil.__name__[1:])
def test_garbage_in_meta_properties(data_dir: Path, spoil: Callable[[Path], None]) -> None:
    path = data_dir / "meta.properties"
    good = path.read_bytes()
    spoil(path)
    before = contents(data_dir)
    refused(data_dir, code=ExitCode.DATA_DIR_UNUSABLE, named=path)
    assert contents(data_dir) == before
    if path.is_dir():
        path.rmdir()
    path.write_bytes(good)
    assert stored_records(data_dir) == RECORDS


@pytest.mark.parametrize("spoil", [_empty, _binary, _text, _flip, _directory], ids=lambda spoil: spoil.__name__[1:])
def test_garbage_in_the_metadata_journal(data_dir: Path, spoil: Callable[[Path], None]) -> None:
    path = data_dir / "metadata.journal"
    good = path.read_bytes()
    spoil(path)
    before = contents(data_dir)
    refused(data_dir, code=ExitCode.DATA_DIR_UNUSABLE, named=path)
    assert contents(data_dir) == before
    if path.is_dir():
        path.rmdir()
    path.write_bytes(good)
    assert stored_records(data_dir) == RECORDS


def test_a_metadata_journal_that_is_missing(data_dir: Path) -> None:
    path = data_dir / "metadata.journal"
    good = path.read_bytes()
    path.unlink()
    refused(data_dir, code=ExitCode.DATA_DIR_UNUSABLE, named=path)
    path.write_bytes(good)
    assert stored_records(data_dir) == RECORDS


def test_another_node_s_directory(data_dir: Path) -> None:
    before = contents(data_dir)
    refused(data_dir, "--set", "node.id=7", code=ExitCode.DATA_DIR_UNUSABLE, named="node.id=1")
    assert contents(data_dir) == before


@pytest.mark.parametrize(
    ("assignment", "named"),
    [
        ("num.partitons=3", "num.partitions"),
        ("log.retention.hour=3", "log.retention.hours"),
        ("num.partitions=0", "num.partitions"),
        ("log.flush.interval.messages=-1", "log.flush.interval.messages"),
        ("compression.type=brotli", "gzip"),
        ("listeners=SSL://127.0.0.1:0", "ssl.keystore.location"),
    ],
)
def test_a_setting_that_cannot_be(data_dir: Path, assignment: str, named: str) -> None:
    before = contents(data_dir)
    name, _, _ = assignment.partition("=")
    listen = [] if name == "listeners" else ["--listen", "127.0.0.1:0"]
    done = start(*listen, "--data-dir", str(data_dir), "--set", assignment)
    assert done.returncode == ExitCode.BAD_CONFIGURATION
    assert done.stderr.count("\n") == 1
    assert name in done.stderr
    assert named in done.stderr
    assert contents(data_dir) == before


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (None, "No such file"),
        (b"\xff\xfe\x00binary", "not a text file"),
        (b"num.partitions=1\nnum.partitons=3\n", ":2"),
        (b"num.partitions=\\u12\n", ":1"),
    ],
    ids=["missing", "binary", "unknown name", "bad escape"],
)
def test_a_config_file_that_cannot_be_used(tmp_path: Path, content: bytes | None, named: str) -> None:
    path = tmp_path / "server.properties"
    if content is not None:
        path.write_bytes(content)
    data_dir = tmp_path / "data"
    line = refused(data_dir, "--config", str(path), code=ExitCode.BAD_CONFIGURATION, named=path)
    assert named in line
    assert not data_dir.exists()


def test_a_config_file_that_is_a_directory(tmp_path: Path) -> None:
    refused(tmp_path / "data", "--config", str(tmp_path), code=ExitCode.BAD_CONFIGURATION, named=tmp_path)
