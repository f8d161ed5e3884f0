"""Retention and compaction in a running broker: what consumers see, what is on disk, and what a restart finds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.records import read_records
from penstock.testing import Broker
from tests.integration.broker.conversation import (
    EARLIEST,
    Topic,
    batches_in,
    create_topic,
    fetch,
    list_offset,
    produce,
    produce_ok,
    set_topic_config,
)
from tests.record_batches import Record, encode_batch
from tests.wire_client import WireClient

SMALL_SEGMENTS = {"internal.segment.bytes": "2000", "file.delete.delay.ms": "0"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    config = {"log.retention.check.interval.ms": "500", "log.cleaner.backoff.ms": "500"}
    with Broker(config=config) as broker:
        yield broker


@pytest.fixture
def client(broker: Broker) -> Iterator[WireClient]:
    with WireClient(broker.bootstrap_servers) as client:
        yield client


def becomes_true(condition: Callable[[], bool], timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)


def now_ms() -> int:
    return int(time.time() * 1000)


def produce_keyed(client: WireClient, topic: Topic, *pairs: tuple[str, str | None]) -> int:
    records = [
        Record(None if value is None else value.encode(), key.encode(), timestamp=now_ms()) for key, value in pairs
    ]
    answer = produce(client, topic, encode_batch(records))
    assert answer.error_code == ErrorCode.NONE, answer.error_message
    return answer.base_offset


def contents(client: WireClient, topic: Topic, offset: int = 0) -> list[tuple[int, str, str | None]]:
    """Everything from `offset` on, as a consumer reads it."""
    found: list[tuple[int, str, str | None]] = []
    while True:
        batches = list(batches_in(fetch(client, topic, offset)))
        if not batches:
            return found
        for header, batch in batches:
            found += [
                (record.offset, (record.key or b"").decode(), None if record.value is None else record.value.decode())
                for record in read_records(batch, header, 1 << 20)
            ]
        offset = batches[-1][0].end_offset


def segments(broker: Broker, topic: Topic) -> list[Path]:
    return sorted((broker.data_dir / f"{topic.name}-0").glob("*.log"))


def test_old_records_go_and_consumers_are_told(broker: Broker, client: WireClient) -> None:
    """A setting that a topic gets later takes effect while the broker runs; the active segment is rolled for it."""
    topic = create_topic(client, "by-time", configs={"retention.ms": "-1", **SMALL_SEGMENTS})
    for number in range(30):
        produce_ok(client, topic, b"x" * 300 + b"%d" % number)  # of the year 2023
    assert len(segments(broker, topic)) > 3
    assert list_offset(client, topic, EARLIEST) == 0
    set_topic_config(client, topic, retention_ms="1000")
    becomes_true(lambda: list_offset(client, topic, EARLIEST) == 30)
    becomes_true(lambda: len(segments(broker, topic)) == 1)
    becomes_true(lambda: not list((broker.data_dir / "by-time-0").glob("*.deleted")))
    assert fetch(client, topic, 3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    answer = produce(client, topic, encode_batch([Record(b"new", timestamp=now_ms() + 60_000)]))
    assert answer.base_offset == 30
    assert [value for _, _, value in contents(client, topic, 30)] == ["new"]


def test_a_partition_stays_below_its_size(broker: Broker, client: WireClient) -> None:
    configs = {"retention.ms": "-1", "retention.bytes": "6000", **SMALL_SEGMENTS}
    topic = create_topic(client, "by-size", configs=configs)
    for number in range(60):
        produce_ok(client, topic, b"x" * 300 + b"%d" % number)
    becomes_true(lambda: sum(path.stat().st_size for path in segments(broker, topic)) < 8000)
    start = list_offset(client, topic, EARLIEST)
    assert 30 < start < 50
    assert [offset for offset, _, _ in contents(client, topic, start)] == list(range(start, 60))


def test_a_compacted_topic_keeps_the_newest_value_of_each_key(broker: Broker, client: WireClient) -> None:
    configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", **SMALL_SEGMENTS}
    topic = create_topic(client, "compacted", configs=configs)
    newest: dict[str, tuple[int, str]] = {}
    for number in range(120):
        key = f"key {number % 7}"
        newest[key] = (produce_keyed(client, topic, (key, "y" * 100 + str(number))), "y" * 100 + str(number))
    reader_at = 60  # in the middle of the log while its segments are replaced
    becomes_true(lambda: len(contents(client, topic)) < 40)
    found = contents(client, topic)
    assert {key: (offset, value) for offset, key, value in found} == newest
    assert [offset for offset, _, _ in found] == sorted({offset for offset, _, _ in found})
    assert contents(client, topic, reader_at) == [each for each in found if each[0] >= reader_at]
    assert list_offset(client, topic, EARLIEST) == 0
    checkpoint = broker.data_dir / "cleaner-offset-checkpoint"
    becomes_true(lambda: checkpoint.exists() and "compacted 0 " in checkpoint.read_text())


def test_a_restart_finds_the_compacted_log() -> None:
    config = {"log.retention.check.interval.ms": "500", "log.cleaner.backoff.ms": "500"}
    configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", **SMALL_SEGMENTS}
    with Broker(config=config) as broker:
        with WireClient(broker.bootstrap_servers) as client:
            topic = create_topic(client, "compacted", configs=configs)
            for number in range(120):
                produce_keyed(client, topic, (f"key {number % 7}", "y" * 100 + str(number)))
            becomes_true(lambda: len(contents(client, topic)) < 40)
        for stop in (broker.kill, broker.stop):
            stop()
            broker.start()
            with WireClient(broker.bootstrap_servers) as client:
                found = contents(client, topic)
                assert {key: value for _, key, value in found} == {
                    f"key {number % 7}": "y" * 100 + str(number) for number in range(113, 120)
                }
                # A topic that is no longer compacted has gaps all the same.
                set_topic_config(client, topic, cleanup_policy="delete", retention_ms="-1")
        with WireClient(broker.bootstrap_servers) as client:
            assert contents(client, topic) == found
        assert "damage" not in broker.stderr_text()
