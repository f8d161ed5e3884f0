"""The data directory, or a part of it, is moved or deleted under a running broker."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.core.exit_codes import ExitCode
from penstock.protocol.error_codes import ErrorCode
from penstock.testing import Broker
from tests.clients.waiting import eventually
from tests.integration.broker.conversation import Topic, batch_of, create_topic, fetch, produce, values_in
from tests.wire_client import ConnectionClosed, WireClient

STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


def append(client: WireClient, topic: Topic, value: bytes) -> int:
    return produce(client, topic, batch_of(value)).error_code


def refused(client: WireClient, topic: Topic, within_s: float = 60) -> bool:
    """Produces until the broker refuses, or is gone."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            if append(client, topic, b"late") == STORAGE_ERROR:
                return True
        except (ConnectionClosed, OSError):
            return True
        time.sleep(0.02)
    return False


def the_end_of(broker: Broker) -> tuple[int | None, str]:
    """Exit code and the last line, once the broker has stopped by itself."""
    process = broker._process
    assert process is not None
    assert eventually(lambda: not process.is_running(), 60), "the broker goes on"
    lines = process.stderr_text().splitlines()
    assert not [line for line in lines if "Traceback" in line], lines
    return process._process.returncode, lines[-1]


@pytest.mark.parametrize(
    ("lose", "said"),
    [
        pytest.param(lambda data: data.rename(data.parent / "moved"), "was moved to", id="moved"),
        pytest.param(shutil.rmtree, "was deleted while the broker was running", id="deleted"),
    ],
)
@pytest.mark.parametrize("stopped_by", ["itself", "SIGTERM"])
def test_a_broker_without_its_data_directory_stops_and_says_so(
    tmp_path: Path, lose: Callable[[Path], object], said: str, stopped_by: str
) -> None:
    data = tmp_path / "data"
    broker = Broker(data_dir=data)
    broker.start()
    try:
        with WireClient(broker.bootstrap_servers) as client:
            topic = create_topic(client, "orders")
            assert append(client, topic, b"early") == ErrorCode.NONE
            lose(data)
            if stopped_by == "SIGTERM":
                os.kill(broker.pid, signal.SIGTERM)
            else:
                assert refused(client, topic), "a broker without a disk acknowledges records"
        code, line = the_end_of(broker)
        assert code == ExitCode.DATA_DIR_UNUSABLE
        assert line.startswith(f"penstock broker: {data}: the data directory {said}")
        assert "lost" not in line or "are lost" in line
    finally:
        broker.kill()
    if (tmp_path / "moved").exists():
        with Broker(data_dir=tmp_path / "moved") as again, WireClient(again.bootstrap_servers) as client:
            assert values_in(fetch(client, topic))[0] == b"early"


def test_another_broker_on_the_same_path_is_left_alone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    first, second = Broker(data_dir=data), Broker(data_dir=data)
    first.start()
    try:
        os.kill(first.pid, signal.SIGSTOP)  # it learns of everything at once, as late as possible
        data.rename(tmp_path / "moved")
        second.start()
        os.kill(first.pid, signal.SIGCONT)
        code, line = the_end_of(first)
        assert code == ExitCode.DATA_DIR_UNUSABLE
        assert str(tmp_path / "moved") in line
        assert (data / "broker.json").exists(), "the second broker can still be found"
        with WireClient(second.bootstrap_servers) as client:
            create_topic(client, "orders")
    finally:
        first.kill()
        second.kill()


def test_a_partition_that_is_gone_is_offline_and_the_others_live_on(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path / "data") as broker, WireClient(broker.bootstrap_servers) as client:
        gone, kept = create_topic(client, "gone"), create_topic(client, "kept")
        synced = create_topic(client, "synced", configs={"flush.messages": "1"})
        for topic in (gone, kept, synced):
            assert append(client, topic, b"early") == ErrorCode.NONE
        shutil.rmtree(broker.data_dir / f"{synced.name}-0")
        assert append(client, synced, b"late") == STORAGE_ERROR, "an fsync looks before it acknowledges"
        shutil.rmtree(broker.data_dir / f"{gone.name}-0")
        assert refused(client, gone)
        assert fetch(client, gone).error_code == STORAGE_ERROR
        assert append(client, kept, b"late") == ErrorCode.NONE
        assert values_in(fetch(client, kept)) == [b"early", b"late"]
        assert f"{gone.name}-0 is offline" in broker.stderr_text()
        broker.stop()
        broker.start()
        assert f"topic '{gone.name}' partition 0: its directory is missing" in broker.stderr_text()
        with WireClient(broker.bootstrap_servers) as again:
            assert values_in(fetch(again, kept)) == [b"early", b"late"]
            assert append(again, gone, b"new") == ErrorCode.NONE
