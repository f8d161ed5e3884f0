"""A well-behaved client beside the bad ones: produces and consumes all the time through librdkafka.

What it wrote must come back exactly, in order, and it must never have to wait long. Also: how much memory a broker has.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Final, Self
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS: Final = 2
RECORDS_PER_ROUND: Final = 5
ROUND_S: Final = 0.02
PROGRESS_TIMEOUT_S: Final = 20.0
MEGABYTE: Final = 1 << 20


class Neighbour:
    """A context manager; leaving it checks everything that was written."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.topic = f"neighbour-{uuid4().hex}"
        # Silent, because what goes wrong is asserted, and brokers are stopped while clients are still there.
        common: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap_servers, "log_level": 0}
        self._producer = Producer(
            {
                **common,
                "enable.idempotence": True,
                "linger.ms": 0,
                "message.timeout.ms": 60_000,
            }
        )
        self._consumer = Consumer(
            {
                **common,
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 50,
            }
        )
        admin = AdminClient({**common})
        # Settings of its own: what bad clients do to the broker's defaults is not meant to reach it.
        for future in admin.create_topics([NewTopic(self.topic, PARTITIONS, 1)]).values():
            future.result(30)
        self._sent = [0] * PARTITIONS
        self._acked = [0] * PARTITIONS
        self._consumed = [0] * PARTITIONS
        self._problems: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="neighbour", daemon=True)
        self.longest_wait_s = 0.0

    @property
    def records(self) -> int:
        return sum(self._consumed)

    def __enter__(self) -> Self:
        self._consumer.assign([TopicPartition(self.topic, index, 0) for index in range(PARTITIONS)])
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_exception: object) -> None:
        self._stop.set()
        self._thread.join(90)
        self._consumer.close()
        if kind is None:
            self.check()
            assert not self._thread.is_alive(), "the neighbour hangs"
            assert self._acked == self._sent, f"sent {self._sent}, acknowledged {self._acked}"
            assert self._consumed == self._acked, f"acknowledged {self._acked}, consumed {self._consumed}"

    def check(self) -> None:
        assert not self._problems, self._problems

    def await_progress(self) -> None:
        """Returns when records that were written after this call have come back."""
        wanted = [sent + RECORDS_PER_ROUND for sent in self._sent]
        deadline = time.monotonic() + PROGRESS_TIMEOUT_S
        while any(got < want for got, want in zip(self._consumed, wanted, strict=True)):
            self.check()
            assert time.monotonic() < deadline, f"the neighbour is stuck: wanted {wanted}, got {self._consumed}"
            time.sleep(0.005)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._round()
        deadline = time.monotonic() + 60
        while self._consumed != self._sent and time.monotonic() < deadline and not self._problems:
            self._producer.poll(0)
            self._consume(0.05)

    def _round(self) -> None:
        for partition in range(PARTITIONS):
            for _ in range(RECORDS_PER_ROUND):
                self._produce(partition)
        started = time.monotonic()
        self._producer.flush(30)
        self._consume(ROUND_S)
        self.longest_wait_s = max(self.longest_wait_s, time.monotonic() - started)

    def _produce(self, partition: int) -> None:
        number = self._sent[partition]
        self._sent[partition] += 1

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self._problems.append(f"{partition}/{number} was not delivered: {error}")
            elif message.offset() != number:
                self._problems.append(f"{partition}/{number} was given the offset {message.offset()}")
            else:
                self._acked[partition] += 1

        self._producer.produce(self.topic, b"%d/%d" % (partition, number), partition=partition, on_delivery=delivered)

    def _consume(self, timeout_s: float) -> None:
        try:
            messages = self._consumer.consume(1000, timeout_s)
        except KafkaException as error:
            self._problems.append(f"consuming failed: {error}")
            return
        for message in messages:
            if message.error() is not None:
                self._problems.append(f"consuming failed: {message.error()}")
                continue
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            number = self._consumed[partition]
            if offset != number or message.value() != b"%d/%d" % (partition, number):
                self._problems.append(f"at {partition}/{number} came {message.value()!r} of offset {offset}")
            self._consumed[partition] = offset + 1


def resident_bytes(pid: int) -> int:
    """What the process holds in memory."""
    return _memory_status(pid, "VmRSS")


def resident_bytes_peak(pid: int) -> int:
    """The most that the process ever held in memory, or has since `forget_resident_peak`."""
    return _memory_status(pid, "VmHWM")


def forget_resident_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def _memory_status(pid: int, name: str) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        pytest.skip("memory is read from /proc, which this system does not have")
    (line,) = (line for line in status.splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024
