"""Records of Connect's topics. The texts were written by a worker of Kafka Connect 4.3.1."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connect.runtime.runner import State
from penstock.connect.storage import config_records, offset_records, status_records
from penstock.connect.storage.config_records import (
    ConfigRecord,
    ConnectorConfig,
    LoggerLevel,
    RestartRequest,
    SessionKey,
    TargetStateChange,
    TaskConfig,
    TaskCount,
    TasksCommit,
)
from penstock.connect.storage.offset_records import OffsetRecord
from penstock.connect.storage.status_records import Status, StatusRecord, TopicUse

SOURCE = {
    "connector.class": "FileStreamSource",
    "file": "/data/in.txt",
    "topic": "lines",
    "tasks.max": "1",
    "name": "src",
}
SOURCE_JSON = (
    b'{"properties":{"connector.class":"FileStreamSource","file":"/data/in.txt","topic":"lines","tasks.max":"1",'
    b'"name":"src"}}'
)
CONFIG_RECORDS: list[tuple[bytes, bytes | None, ConfigRecord]] = [
    (b"connector-src", SOURCE_JSON, ConnectorConfig("src", SOURCE)),
    (b"connector-src", None, ConnectorConfig("src", None)),
    (b"task-src-0", SOURCE_JSON, TaskConfig("src", 0, SOURCE)),
    (b"commit-src", b'{"tasks":1}', TasksCommit("src", 1)),
    (b"target-state-src", b'{"state":"STARTED","state.v2":"STARTED"}', TargetStateChange("src", "STARTED")),
    (b"target-state-src", b'{"state":"PAUSED","state.v2":"PAUSED"}', TargetStateChange("src", "PAUSED")),
    (b"target-state-init", b'{"state":"PAUSED","state.v2":"STOPPED"}', TargetStateChange("init", "STOPPED")),
    (b"target-state-src", None, TargetStateChange("src", None)),
    (b"tasks-fencing-src", b'{"task-count":1}', TaskCount("src", 1)),
    (b"restart-connector-src", b'{"include-tasks":true,"only-failed":false}', RestartRequest("src", True, False)),
    (b"logger-cluster-org.apache.kafka", b'{"level":"INFO"}', LoggerLevel("org.apache.kafka", "INFO")),
    (
        b"session-key",
        b'{"key":"cNxnQA8mgXx6aCHD8CwezMiAvxQSSE6xbaMS8Fxn4Bw=","algorithm":"HmacSHA256",'
        b'"creation-timestamp":1794968600194}',
        SessionKey("cNxnQA8mgXx6aCHD8CwezMiAvxQSSE6xbaMS8Fxn4Bw=", "HmacSHA256", 1794968600194),
    ),
]
STATUS_RECORDS: list[tuple[bytes, bytes | None, StatusRecord]] = [
    (
        b"status-connector-src",
        b'{"state":"RUNNING","trace":null,"worker_id":"127.0.0.1:55083","generation":2,"version":"4.3.1"}',
        Status("src", None, State.RUNNING, "127.0.0.1:55083", 2, None, "4.3.1"),
    ),
    (
        b"status-task-src-0",
        b'{"state":"FAILED","trace":"java.lang.Error: \xc3\xbc\\n\\tat x","worker_id":"127.0.0.1:55083",'
        b'"generation":5,"version":null}',
        Status("src", 0, State.FAILED, "127.0.0.1:55083", 5, "java.lang.Error: ü\n\tat x"),
    ),
    (b"status-task-src-0", None, Status("src", 0, State.DESTROYED)),
    (
        b"status-topic-lines:connector-src",
        b'{"topic":{"name":"lines","connector":"src","task":0,"discoverTimestamp":1794968601807}}',
        TopicUse("src", "lines", 0, 1794968601807),
    ),
    (b"status-topic-lines:connector-src", None, TopicUse("src", "lines")),
]
# With the partition of 25 in which Java's producer puts it.
OFFSET_RECORDS: list[tuple[bytes, bytes | None, OffsetRecord, int]] = [
    (
        b'["src",{"filename":"/data/in.txt"}]',
        b'{"position":6}',
        OffsetRecord("src", {"filename": "/data/in.txt"}, {"position": 6}),
        0,
    ),
    (b'["src",null]', None, OffsetRecord("src", None, None), 19),
]


@pytest.mark.parametrize(("key", "value", "record"), CONFIG_RECORDS)
def test_config_records_are_those_of_kafka_connect(key: bytes, value: bytes | None, record: ConfigRecord) -> None:
    assert config_records.decode(key, value) == record
    assert config_records.encode(record) == (key, value)


@pytest.mark.parametrize(("key", "value", "record"), STATUS_RECORDS)
def test_status_records_are_those_of_kafka_connect(key: bytes, value: bytes | None, record: StatusRecord) -> None:
    assert status_records.decode(key, value) == record
    assert status_records.encode(record) == (key, value)


@pytest.mark.parametrize(("key", "value", "record", "partition"), OFFSET_RECORDS)
def test_offset_records_are_those_of_kafka_connect(
    key: bytes, value: bytes | None, record: OffsetRecord, partition: int
) -> None:
    assert offset_records.decode(key, value) == record
    assert offset_records.encode(record) == (key, value)
    assert offset_records.partition_of_key(key, 25) == partition


def test_a_target_state_of_an_old_worker_has_one_field() -> None:
    assert config_records.decode(b"target-state-a", b'{"state":"PAUSED"}') == TargetStateChange("a", "PAUSED")


def test_names_of_connectors_may_end_like_a_task() -> None:
    assert config_records.decode(*config_records.encode(TaskConfig("a-1", 2, {}))) == TaskConfig("a-1", 2, {})
    status = Status("a-1", 2, State.RUNNING, "w", 1)
    assert status_records.decode(*status_records.encode(status)) == status


def test_details_of_a_status_survive() -> None:
    status = Status("a", None, State.RESTARTING, "w", 1, details={"attempt": 2, "cause": "database away"})
    assert status_records.decode(*status_records.encode(status)) == status


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"connector-a", b"[]"),
        (b"connector-a", b"{}"),
        (b"connector-a", b"not json"),
        (b"task-a", b'{"properties":{}}'),
        (b"task-a-x", b'{"properties":{}}'),
        (b"commit-a", b'{"tasks":"1"}'),
        (b"commit-a", b'{"tasks":-1}'),
        (b"commit-a", None),
        (b"target-state-a", b'{"state":"SLEEPING"}'),
        (b"tasks-fencing-a", b'{"task-count":true}'),
        (b"session-key", b'{"key":1}'),
        (b"from-the-future", b"{}"),
        (b"\xff\xfe", b"{}"),
    ],
)
def test_config_records_that_say_nothing_are_skipped(key: bytes | None, value: bytes | None) -> None:
    assert config_records.decode(key, value) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, None),
        (b"status-connector-a", b'{"state":"DREAMING"}'),
        (b"status-connector-a", b"[]"),
        (b"status-task-a", b'{"state":"RUNNING"}'),
        (b"status-topic-a", b'{"topic":{}}'),
        (b"status-topic-a:connector-b", b'{"topic":1}'),
        (b"something", b"{}"),
    ],
)
def test_status_records_that_say_nothing_are_skipped(key: bytes | None, value: bytes | None) -> None:
    assert status_records.decode(key, value) is None


@pytest.mark.parametrize(("key", "value"), [(None, None), (b"[]", b"{}"), (b'["a",1]', b"{}"), (b'["a",{}]', b"[]")])
def test_offset_records_that_say_nothing_are_skipped(key: bytes | None, value: bytes | None) -> None:
    assert offset_records.decode(key, value) is None


def test_partitions_are_equal_whatever_the_order_of_their_fields() -> None:
    assert offset_records.partition_key({"a": 1, "b": 2}) == offset_records.partition_key({"b": 2, "a": 1})
    assert offset_records.partition_key({"a": 1}) != offset_records.partition_key({"a": "1"})


NAMES = st.text(st.characters(codec="utf-8"), min_size=1)


@given(NAMES, st.dictionaries(NAMES, st.text(st.characters(codec="utf-8"))), st.integers(0, 1000))
def test_any_name_and_any_property_survives(name: str, properties: dict[str, str], task: int) -> None:
    for record in (ConnectorConfig(name, properties), TaskConfig(name, task, properties), TasksCommit(name, task)):
        assert config_records.decode(*config_records.encode(record)) == record
