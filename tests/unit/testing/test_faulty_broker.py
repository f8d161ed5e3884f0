"""Faults of one broker process: a wrong wall clock, and a disk that loses what was not synced."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.client.admin import Admin
from penstock.testing import Broker
from penstock.testing.faulty_broker import Faults

TIMEOUT_S = 30.0
HOUR_MS = 3_600_000


class FaultyBroker(Broker):
    def __init__(self, directory: Path) -> None:
        super().__init__(data_dir=directory / "data")
        self.faults = Faults(directory / "faults")
        self._program = self.faults.program


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[FaultyBroker]:
    with FaultyBroker(tmp_path) as running:
        yield running


def produce(broker: Broker, topic: str) -> Any:
    """The delivered message."""
    delivered: list[Any] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "acks": "all"})
    producer.produce(topic, b"value", on_delivery=lambda error, message: delivered.append((error, message)))
    assert producer.flush(TIMEOUT_S) == 0
    ((error, message),) = delivered
    assert error is None
    return message


def end_offset(broker: Broker, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "none"})
    try:
        _low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=TIMEOUT_S)
    finally:
        consumer.close()
    return int(high)


def await_state(pid: int, state: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != state:
        assert time.monotonic() < deadline, f"process {pid} is not in the state {state}"
        time.sleep(0.01)


def test_a_skewed_clock_is_an_hour_ahead_at_once_and_after_a_restart(broker: FaultyBroker) -> None:
    Admin({"bootstrap.servers": broker.bootstrap_servers}).create_topic(
        "stamped", config={"message.timestamp.type": "LogAppendTime"}
    )
    _, right = produce(broker, "stamped").timestamp()
    broker.faults.skew_clock(HOUR_MS)
    _, ahead = produce(broker, "stamped").timestamp()
    broker.restart()
    _, later = produce(broker, "stamped").timestamp()
    assert right + HOUR_MS <= ahead <= later < right + 2 * HOUR_MS


def test_what_was_not_synced_is_lost_and_what_was_is_not(broker: FaultyBroker) -> None:
    admin = Admin({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topic("cached")
    admin.create_topic("synced", config={"flush.messages": "1"})
    for topic in ("cached", "synced"):
        produce(broker, topic)
    broker.kill()
    assert broker.faults.lose_unsynced(broker.data_dir) > 0
    broker.start()
    assert admin.list_topics() == ["cached", "synced"]
    assert (end_offset(broker, "cached"), end_offset(broker, "synced")) == (0, 1)


def test_a_kill_alone_loses_nothing(broker: FaultyBroker) -> None:
    Admin({"bootstrap.servers": broker.bootstrap_servers}).create_topic("cached")
    produce(broker, "cached")
    broker.kill()
    broker.start()
    assert end_offset(broker, "cached") == 1


def test_a_paused_broker_answers_after_it_is_resumed(broker: FaultyBroker) -> None:
    Admin({"bootstrap.servers": broker.bootstrap_servers}).create_topic("paused")
    broker.pause()
    await_state(broker.pid, "T")
    broker.resume()
    assert produce(broker, "paused").offset() == 0


def test_a_paused_broker_can_be_killed(tmp_path: Path) -> None:
    broker = FaultyBroker(tmp_path)
    broker.start()
    broker.pause()
    broker.kill()
    assert not broker.is_running()
