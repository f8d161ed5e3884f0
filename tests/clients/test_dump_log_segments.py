"""Apache Kafka's own dump tool reads what the broker under test wrote: logs with their indexes and producer snapshots,
transactions with their markers, and the topics of the two coordinators.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from penstock.log.filesystem import RealFileSystem
from penstock.protocol.compression import Compression
from penstock.testing.apache_kafka import dump_log_segments, run_kafka_tool
from penstock.testing.java import JavaMissingError
from tests.clients.confluent_kafka_client import ConfluentKafkaClient
from tests.clients.group_interface import Membership
from tests.clients.records import BASE_TIMESTAMP_MS, COMPRESSIONS, Record, numbered
from tests.clients.waiting import eventually
from tests.conftest import BrokerStarter, optional_part_missing
from tests.unit.log.cleaning.compacted_logs import compact, compacting, put, records_of
from tests.unit.log.stored_batches import append, make_marker, open_log

pytestmark = pytest.mark.clients

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


def _dump(*files: Path, decoder: str | None = None) -> str:
    try:
        if decoder is None:
            printed = dump_log_segments(*files)
        else:
            arguments = [decoder, "--files", ",".join(map(str, files))]
            printed = run_kafka_tool("org.apache.kafka.tools.DumpLogSegments", arguments)
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


FIRST_LOG = "00000000000000000000.log"
COORDINATORS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = range(6)


@pytest.fixture(scope="module")
def transactional_dir(start_broker: BrokerStarter, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The logs of a broker after three aborted records, two committed with a group's offset, and five idempotent."""
    copy = tmp_path_factory.mktemp("transactional")
    with start_broker(COORDINATORS) as broker:
        client = ConfluentKafkaClient(broker.bootstrap_servers)
        for topic in ("source", "dumped"):
            client.create_topic(topic, 1, {})
        assert eventually(lambda: {"source", "dumped"} <= client.list_topics())
        client.produce("source", 0, numbered(4))
        member = client.join(Membership("group", "source"))
        assert eventually(lambda: len(member.state().received) == 4)
        producer = client.transactional_producer("transactional id")
        producer.begin()
        producer.send("dumped", 0, numbered(3))
        producer.abort()
        producer.begin()
        producer.send("dumped", 0, numbered(2))
        producer.send_offsets(member)
        producer.commit()
        client.produce("dumped", 0, numbered(5), idempotent=True)
        member.close()
        producer.close()
        client.close()
        broker.stop()
        for name in ("dumped-0", "__transaction_state-0", "__consumer_offsets-0"):
            shutil.copytree(broker.data_dir / name, copy / name)
    return copy


def _decoded(printed: str) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """The records that a decoder made of a coordinator's topic: type, key and value."""
    records = re.findall(r"^\| offset: .* key: (\{.*\}) payload: (\{.*\})$", printed, re.MULTILINE)
    keys_and_values = [(json.loads(key), json.loads(value)) for key, value in records]
    return [(key["type"], key["data"], value["data"]) for key, value in keys_and_values]


def test_transaction_markers_and_sequences(transactional_dir: Path) -> None:
    printed = _dump(transactional_dir / "dumped-0" / FIRST_LOG)
    batches = re.findall(
        r"baseOffset: (\d+) lastOffset: (\d+) .* baseSequence: (-?\d+) lastSequence: (-?\d+) producerId: (\d+) "
        r"producerEpoch: \d+ .* isTransactional: (\w+) isControl: (\w+)",
        printed,
    )
    transactional, idempotent = batches[0][4], batches[-1][4]
    assert transactional != idempotent
    assert batches == [
        ("0", "2", "0", "2", transactional, "true", "false"),
        ("3", "3", "-1", "-1", transactional, "true", "true"),
        ("4", "5", "3", "4", transactional, "true", "false"),
        ("6", "6", "-1", "-1", transactional, "true", "true"),
        ("7", "11", "0", "4", idempotent, "false", "false"),
    ]
    markers = re.findall(r"^\| offset: (\d+) .* endTxnMarker: (\w+) coordinatorEpoch: 0$", printed, re.MULTILINE)
    assert markers == [("3", "ABORT"), ("6", "COMMIT")]
    sequences = [int(each) for each in re.findall(r"^\| offset: .* sequence: (\d+)", printed, re.MULTILINE)]
    assert sequences == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]


def test_transaction_index_names_what_was_aborted(transactional_dir: Path) -> None:
    printed = _dump((transactional_dir / "dumped-0" / FIRST_LOG).with_suffix(".txnindex"))
    (aborted,) = re.findall(r"version: 0 .* firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)", printed)
    assert aborted == ("0", "3", "4")


def test_snapshot_holds_the_producers(transactional_dir: Path) -> None:
    (snapshot,) = (transactional_dir / "dumped-0").glob("*.snapshot")
    assert int(snapshot.stem) == 12
    # Kafka writes a producer's last batch only, and reads the last entry where there are several.
    last_entries = {
        producer: rest
        for producer, *rest in re.findall(
            r"producerId: (\d+) .* coordinatorEpoch: (-?\d+) currentTxnFirstOffset: (\S+) .* "
            r"lastSequence: (\d+) lastOffset: (\d+)",
            _dump(snapshot),
        )
    }
    assert sorted(last_entries.values()) == [
        ["-1", "OptionalLong.empty", "4", "11"],
        ["0", "OptionalLong.empty", "4", "5"],
    ]


def test_transaction_log_is_decoded(transactional_dir: Path) -> None:
    printed = _dump(transactional_dir / "__transaction_state-0" / FIRST_LOG, decoder="--transaction-log-decoder")
    records = _decoded(printed)
    assert {(kind, key["transactionalId"]) for kind, key, _ in records} == {("0", "transactional id")}
    states = [value["transactionStatus"] for _, _, value in records]
    first, second = [ONGOING, PREPARE_ABORT, COMPLETE_ABORT], [ONGOING, ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT]
    assert states == [EMPTY, *first, *second]
    partitions = {each["topic"]: each["partitionIds"] for each in records[-2][2]["transactionPartitions"]}
    assert partitions == {"dumped": [0], "__consumer_offsets": [0]}


def test_offsets_of_a_transaction_are_decoded(transactional_dir: Path) -> None:
    printed = _dump(transactional_dir / "__consumer_offsets-0" / FIRST_LOG, decoder="--offsets-decoder")
    ((key, value),) = [(key, value) for kind, key, value in _decoded(printed) if kind == "1"]
    assert key == {"group": "group", "topic": "source", "partition": 0}
    assert value["offset"] == 4
    written_in_a_transaction = re.findall(r"isTransactional: true isControl: (\w+)", printed)
    assert written_in_a_transaction == ["false", "true"]
    assert re.findall(r"endTxnMarker: (\w+)", printed) == ["COMMIT"]


def test_a_compacted_log(tmp_path: Path) -> None:
    """With gaps, emptied batches and delete horizons (KIP-534); its new indexes fit."""
    fs = RealFileSystem()
    log = open_log(fs, str(tmp_path), compacting(segment_bytes=100_000))
    for number in range(300):
        pairs = [(f"key {number % 40} {each}", "v" * 50) for each in range(4)]
        put(
            log,
            *pairs,
            ("deleted", None),
            compression=Compression(number % 5),
            producer=(number % 3, 0, 5 * (number // 3)),
        )
    put(log, ("aborted", "x"), producer=(9, 0, 0), transactional=True)
    append(log, make_marker(9, 0, committed=False))
    log._appender.roll()
    log.flush()
    for _ in range(2):
        assert compact(log, fs)
        log.lifecycle.cleaned_offset = 0
    expected = records_of(log)
    log.close()
    files = sorted(tmp_path.glob("*.log")) + sorted(tmp_path.glob("*.index")) + sorted(tmp_path.glob("*.timeindex"))
    printed = dump_log_segments(*files, *sorted(tmp_path.glob("*.txnindex")))
    for complaint in COMPLAINTS:
        if complaint != "Non-consecutive":
            assert complaint.lower() not in printed.lower(), printed[-3000:]
    offsets = [int(offset) for offset in re.findall(r"^\| offset: (\d+)", printed, re.MULTILINE)]
    data = [offset for offset in offsets if offset != 1501]
    assert data == [record.offset for record in expected]
    timestamps = [int(time) for time in re.findall(r"^\| offset: .* CreateTime: (\d+)", printed, re.MULTILINE)]
    assert [time for offset, time in zip(offsets, timestamps, strict=True) if offset != 1501] == [
        record.timestamp for record in expected
    ]
    assert re.search(r"deleteHorizonMs: OptionalLong\[\d+\]", printed)
