"""A disk that is full, or whose fsync fails: no ack for what was not written, and nothing that was acked is harmed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Timer

import pytest
from confluent_kafka import KafkaError, Message, Producer

from penstock.client.local_broker.process import BrokerProcessError
from penstock.core.exit_codes import ExitCode
from penstock.protocol.definitions.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from penstock.protocol.definitions.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.protocol.definitions.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.definitions.metadata import MetadataRequest
from penstock.protocol.definitions.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.record_batch import LOG_OVERHEAD, parse_header
from penstock.testing import Broker
from tests.conftest import optional_part_missing
from tests.record_batches import Record, encode_batch
from tests.robustness.broker_with_failing_fsync import TRIGGER
from tests.wire_client import WireClient

DISK_BYTES = 8 << 20
FILLER_BYTES = 3 << 20
VALUE_BYTES = 50_000


class SmallDisk:
    """A real file system of a few megabytes, part of it taken by a file that can go away."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data_dir = path / "data"
        self._filler = path / "filler"
        self._filler.write_bytes(bytes(FILLER_BYTES))

    def fill(self) -> None:
        """To the last byte."""
        descriptor = os.open(self.path / "rest", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            for size in (1 << 16, 1 << 12, 1):
                while True:
                    try:
                        os.write(descriptor, bytes(size))
                    except OSError:
                        break
        finally:
            os.close(descriptor)

    def make_room(self) -> None:
        self._filler.unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(place)], capture_output=True, text=True
    )
    if mounted.returncode:
        optional_part_missing(f"a small disk cannot be mounted: {mounted.stderr.strip()}; run as root, with mount(8)")
    try:
        yield SmallDisk(place)
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def create(client: WireClient, name: str, **configs: str) -> int:
    wanted = CreatableTopic(
        name=name,
        num_partitions=1,
        replication_factor=1,
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )
    (created,) = client.ask(CreateTopicsRequest(topics=[wanted]), 7).topics
    return int(created.error_code)


def produce(client: WireClient, topic: str, value: bytes) -> tuple[int, int]:
    """(error code, offset)"""
    data = PartitionProduceData(index=0, records=encode_batch([Record(value)]))
    request = ProduceRequest(acks=-1, topic_data=[TopicProduceData(name=topic, partition_data=[data])])
    (answer,) = client.ask(request, 9).responses[0].partition_responses
    return int(answer.error_code), int(answer.base_offset)


def delete_records(client: WireClient, topic: str, offset: int) -> tuple[int, int]:
    """(error code, new start of the log)"""
    wanted = DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(offset=offset)])
    (answer,) = client.ask(DeleteRecordsRequest(topics=[wanted], timeout_ms=5000), 2).topics[0].partitions
    return int(answer.error_code), int(answer.low_watermark)


def stored_values(client: WireClient, topic: str, offset: int = 0) -> list[bytes]:
    """The values of all batches, each of one record, in order."""
    values: list[bytes] = []
    while True:
        wanted = FetchPartition(fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(topics=[FetchTopic(topic=topic, partitions=[wanted])])
        (answer,) = client.ask(request, 12).responses[0].partitions
        assert answer.error_code == ErrorCode.NONE
        if not len(answer.records):
            assert offset == answer.high_watermark
            return values
        records = memoryview(answer.records)
        while len(records) > LOG_OVERHEAD:
            header = parse_header(records)
            if len(records) < header.size:
                break
            assert header.base_offset == offset
            # The value stands at the end of the record, before a zero for its headers.
            values.append(bytes(records[: header.size]).rstrip(b"\0")[-VALUE_BYTES:])
            offset = header.end_offset
            records = records[header.size :]


def numbered(number: int) -> bytes:
    """A value that has no zero at its end and is told apart from all others."""
    return (f"{number:010d}" * (VALUE_BYTES // 10)).encode()


def fill_with_records(client: WireClient, topic: str) -> list[bytes]:
    """Produces until the disk refuses; what was acknowledged."""
    acked: list[bytes] = []
    for number in range(1000):
        code, offset = produce(client, topic, numbered(number))
        if code != ErrorCode.NONE:
            assert code == ErrorCode.KAFKA_STORAGE_ERROR
            assert offset == -1
            return acked
        assert offset == len(acked)
        acked.append(numbered(number))
    raise AssertionError("the disk never got full")


def assert_no_traceback(broker: Broker) -> None:
    printed = broker.stderr_text()
    assert "Traceback" not in printed, printed


@pytest.mark.parametrize("stop", ["stop", "kill"])
def test_a_full_disk_loses_nothing_and_writes_resume_when_there_is_room(disk: SmallDisk, stop: str) -> None:
    with Broker(data_dir=disk.data_dir) as broker:
        with WireClient(broker.bootstrap_servers) as client:
            assert create(client, "t", segment_bytes="1048576") == ErrorCode.NONE
            acked = fill_with_records(client, "t")
            assert len(acked) > 20
            for _ in range(20):
                assert produce(client, "t", numbered(7)) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
            assert stored_values(client, "t") == acked, "reads go on"
            disk.fill()
            assert produce(client, "t", numbered(7)) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
            assert stored_values(client, "t") == acked
            assert_no_traceback(broker)
            disk.make_room()
            for number in range(1000, 1010):
                assert produce(client, "t", numbered(number)) == (ErrorCode.NONE, len(acked))
                acked.append(numbered(number))
            assert stored_values(client, "t") == acked
        assert_no_traceback(broker)
        getattr(broker, stop)()
        broker.start()
        with WireClient(broker.bootstrap_servers) as client:
            assert stored_values(client, "t") == acked, "nothing is damaged"
            assert produce(client, "t", b"on") == (ErrorCode.NONE, len(acked))
        assert "damage" not in broker.stderr_text()


def test_administration_on_a_full_disk_fails_cleanly_or_works(disk: SmallDisk) -> None:
    with Broker(data_dir=disk.data_dir) as broker, WireClient(broker.bootstrap_servers) as client:
        assert create(client, "t", segment_bytes="1048576") == ErrorCode.NONE
        acked = fill_with_records(client, "t")
        disk.fill()
        codes = {create(client, f"new-{number}") for number in range(20)}
        assert codes <= {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE}
        assert ErrorCode.KAFKA_STORAGE_ERROR in codes
        refused = [f"new-{number}" for number in range(20) if create(client, f"new-{number}") != 36]
        named = [topic.name for topic in client.ask(MetadataRequest(topics=None), 12).topics]
        assert "t" in named
        assert not set(refused) & set(named), "what was refused is not there"
        # No file goes away for this one, so its effect cannot be made to last.
        assert delete_records(client, "t", 1)[0] in (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE)
        # Deleting records is how room is made; it must work without any.
        assert delete_records(client, "t", len(acked) - 1) == (ErrorCode.NONE, len(acked) - 1)
        assert stored_values(client, "t", len(acked) - 1) == acked[-1:]
        assert_no_traceback(broker)
        disk.make_room()
        for name in refused:
            assert create(client, name) == ErrorCode.NONE
            assert produce(client, name, b"x") == (ErrorCode.NONE, 0)


def test_topics_that_were_refused_for_lack_of_room_are_not_there_after_a_restart(disk: SmallDisk) -> None:
    with Broker(data_dir=disk.data_dir) as broker:
        with WireClient(broker.bootstrap_servers) as client:
            assert create(client, "t") == ErrorCode.NONE
            disk.fill()
            codes = {f"new-{number}": create(client, f"new-{number}") for number in range(20)}
            disk.make_room()
        broker.restart()
        with WireClient(broker.bootstrap_servers) as client:
            names = {topic.name for topic in client.ask(MetadataRequest(topics=None), 12).topics}
        assert names == {"t", *(name for name, code in codes.items() if code == ErrorCode.NONE)}


def test_a_stop_on_a_full_disk_is_one_line_and_harms_nothing(disk: SmallDisk) -> None:
    broker = Broker(data_dir=disk.data_dir)
    broker.start()
    try:
        with WireClient(broker.bootstrap_servers) as client:
            assert create(client, "t") == ErrorCode.NONE
            acked = fill_with_records(client, "t")
        disk.fill()
        os.kill(broker.pid, signal.SIGTERM)
        deadline = time.monotonic() + 60
        while broker.is_running() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not broker.is_running()
        (line,) = [line for line in broker.stderr_text().splitlines() if "not closed cleanly" in line]
        assert str(disk.data_dir) in line
        assert_no_traceback(broker)
    finally:
        broker.kill()
    disk.make_room()
    with Broker(data_dir=disk.data_dir) as again, WireClient(again.bootstrap_servers) as client:
        assert stored_values(client, "t") == acked


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGKILL])
def test_a_broker_that_stopped_on_a_full_disk_starts_again_when_there_is_room(
    disk: SmallDisk, signal_number: int
) -> None:
    broker = Broker(data_dir=disk.data_dir)
    broker.start()
    try:
        with WireClient(broker.bootstrap_servers) as client:
            assert create(client, "t", segment_bytes="1048576") == ErrorCode.NONE
            acked = fill_with_records(client, "t")
        disk.fill()
        os.kill(broker.pid, signal_number)
    finally:
        broker.kill()
    for _ in range(3):
        with pytest.raises(BrokerProcessError) as refused:
            Broker(data_dir=disk.data_dir).start()
        assert refused.value.exit_code == ExitCode.DATA_DIR_UNUSABLE
        assert str(disk.data_dir) in refused.value.printed
        assert "\n" not in refused.value.printed
    disk.make_room()
    with Broker(data_dir=disk.data_dir) as again, WireClient(again.bootstrap_servers) as client:
        assert stored_values(client, "t") == acked
        assert produce(client, "t", b"on") == (ErrorCode.NONE, len(acked))


def test_a_start_on_a_full_disk_is_one_line_and_an_exit_code(disk: SmallDisk) -> None:
    disk.fill()
    command = [sys.executable, "-m", "penstock.cli.main", "broker", "--listen", "127.0.0.1:0"]
    started = subprocess.run([*command, "--data-dir", str(disk.data_dir)], capture_output=True, text=True, timeout=30)
    assert started.returncode == ExitCode.DATA_DIR_UNUSABLE
    assert started.stderr.count("\n") == 1
    assert "No space left on device" in started.stderr
    assert started.stdout == ""
    disk.make_room()
    with Broker(data_dir=disk.data_dir) as broker, WireClient(broker.bootstrap_servers) as client:
        assert create(client, "t") == ErrorCode.NONE


def test_an_idempotent_producer_gets_through_a_full_disk_exactly_once(disk: SmallDisk) -> None:
    with Broker(data_dir=disk.data_dir) as broker:
        with WireClient(broker.bootstrap_servers) as client:
            assert create(client, "t") == ErrorCode.NONE
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 0,
                "batch.num.messages": 1,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 50,
            }
        )
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failures.append(error)

        sent = [numbered(number) for number in range(130)]
        for value in sent:
            producer.produce("t", value, partition=0, on_delivery=delivered)
        room = Timer(1.5, disk.make_room)
        room.start()
        assert producer.flush(60) == 0
        room.join()
        assert not failures
        with WireClient(broker.bootstrap_servers) as client:
            assert stored_values(client, "t") == sent
        assert_no_traceback(broker)


def test_an_fsync_that_fails_is_fatal_and_nothing_is_acked_after_it(tmp_path: Path) -> None:
    trigger = tmp_path / "fsync fails"
    data_dir = tmp_path / "data"
    command = [sys.executable, "-m", "tests.robustness.broker_with_failing_fsync", "broker", "--json"]
    broker = subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0", "--data-dir", str(data_dir)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, TRIGGER: str(trigger)},
    )
    try:
        assert broker.stdout is not None
        port = json.loads(broker.stdout.readline())["port"]
        with WireClient(f"127.0.0.1:{port}") as client, WireClient(f"127.0.0.1:{port}") as other:
            assert create(client, "t", flush_messages="1") == ErrorCode.NONE
            assert produce(client, "t", b"safe") == (ErrorCode.NONE, 0)
            trigger.touch()
            code, _ = produce(client, "t", b"lost")
            assert code == ErrorCode.KAFKA_STORAGE_ERROR
            trigger.unlink()
            # A later fsync that succeeds would prove nothing: the broker ends.
            assert broker.wait(20) != 0
            assert other.is_closed_by_peer()
        assert broker.stderr is not None
        lines = [line for line in broker.stderr.read().splitlines() if "listening on" not in line]
        assert len(lines) == 1
        assert str(data_dir) in lines[0]
        assert "Input/output error" in lines[0]
    finally:
        broker.kill()
        broker.communicate()
    with Broker(data_dir=data_dir) as again, WireClient(again.bootstrap_servers) as client:
        assert stored_values(client, "t")[0].endswith(b"safe")
