"""Apache Kafka's own dump tool reads what the broker under test wrote: logs, offset indexes and time indexes."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from penstock.testing.apache_kafka import dump_log_segments
from penstock.testing.java import JavaMissingError
from tests.clients.confluent_kafka_client import ConfluentKafkaClient
from tests.clients.records import BASE_TIMESTAMP_MS, COMPRESSIONS, Record
from tests.conftest import BrokerStarter, optional_part_missing

RECORDS_PER_COMPRESSION = 300
# What the tool prints, and exits with 0 all the same, where an index does not fit its log.
COMPLAINTS = ("mismatch", "out of order", "Non-consecutive", "Invalid", "isvalid: false", "Exception", "sanity check")
# The tool expects offset 0 first in every file, and so remarks on the first offset of every segment but the first.
START_OF_A_SEGMENT = re.compile(r"Non-consecutive offsets in \S*?/0*(\d+)\.log\n\s+-1 is followed by \1\n")


@pytest.fixture(scope="module")
def partition_dir(start_broker: BrokerStarter, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partition of several segments, with batches of every codec, after the broker has ended."""
    copy = tmp_path_factory.mktemp("dumped")
    with start_broker({}) as broker:
        client = ConfluentKafkaClient(broker.bootstrap_servers)
        client.create_topic("dumped", 1, {"segment.bytes": "1048576"})
        for round_number, compression in enumerate(COMPRESSIONS):
            first_ms = BASE_TIMESTAMP_MS + round_number * RECORDS_PER_COMPRESSION
            for start in range(0, RECORDS_PER_COMPRESSION, 30):
                records = [_record(first_ms + number) for number in range(start, start + 30)]
                client.produce("dumped", 0, records, compression=compression)
        client.close()
        broker.stop()
        for file in (broker.data_dir / "dumped-0").iterdir():
            (copy / file.name).write_bytes(file.read_bytes())
    return copy


def _record(timestamp_ms: int) -> Record:
    # Twice the same noise: every codec halves it and none does better, so that the records fill several segments.
    value = random.Random(timestamp_ms).randbytes(1500) * 2
    return Record(b"key", value, headers=(("header", b"value"),), timestamp_ms=timestamp_ms)


def _dump(*files: Path) -> str:
    try:
        printed = dump_log_segments(*files)
    except JavaMissingError as missing:
        optional_part_missing(str(missing))
    printed = START_OF_A_SEGMENT.sub("", printed)
    for complaint in COMPLAINTS:
        assert complaint.lower() not in printed.lower(), printed[-3000:]
    return printed


def test_logs_hold_every_record(partition_dir: Path) -> None:
    printed = _dump(*sorted(partition_dir.glob("*.log")))
    offsets = [int(offset) for offset in re.findall(r"^\| offset: (\d+)", printed, re.MULTILINE)]
    assert offsets == list(range(RECORDS_PER_COMPRESSION * len(COMPRESSIONS)))
    timestamps = [int(time) for time in re.findall(r"^\| offset: .* CreateTime: (\d+)", printed, re.MULTILINE)]
    assert timestamps == [BASE_TIMESTAMP_MS + number for number in range(len(offsets))]
    assert set(re.findall(r"compresscodec: (\w+)", printed)) == set(COMPRESSIONS)
    assert set(re.findall(r"headerKeys: (\S+)", printed)) == {"[header]"}


def test_indexes_point_at_batches(partition_dir: Path) -> None:
    logs = sorted(partition_dir.glob("*.log"))
    assert len(logs) > 1, "the partition should have rolled"
    log_dump = _dump(*logs)
    last_offsets = {int(offset) for offset in re.findall(r"lastOffset: (\d+)", log_dump)}
    index_dump = _dump(*sorted(partition_dir.glob("*.index")))
    entries = re.findall(r"^offset: (\d+) position: (\d+)", index_dump, re.MULTILINE)
    assert len(entries) > 20
    assert {int(offset) for offset, _ in entries} <= last_offsets


def test_time_indexes_agree_with_the_log(partition_dir: Path) -> None:
    time_index_dump = _dump(*sorted(partition_dir.glob("*.timeindex")))
    entries = re.findall(r"^timestamp: (\d+) offset: (\d+)", time_index_dump, re.MULTILINE)
    assert len(entries) > 20
    assert {int(timestamp) - int(offset) for timestamp, offset in entries} == {BASE_TIMESTAMP_MS}
