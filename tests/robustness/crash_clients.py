"""The clients of a crash test: producers that send all along, and a reader that reads all along, over every kill.

Both are librdkafka and live as long as the test: they reconnect to the port on which the broker comes back. Owns their
settings and their threads. Must never know when a kill comes.
"""

from __future__ import annotations

import random
import threading
import time
import zlib
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.robustness.crash_ledger import Ledger, LineKey, Partition

COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")

IDEMPOTENT: Final[Mapping[str, str]] = {"enable.idempotence": "true", "acks": "all"}
REPEATING: Final[Mapping[str, str]] = {"enable.idempotence": "false", "acks": "1"}
FORGETTING: Final[Mapping[str, str]] = {"enable.idempotence": "false", "acks": "0"}

_COMMON: Final[Mapping[str, str]] = {
    # A broker that is back shall be found soon; nothing else differs from librdkafka's defaults.
    "reconnect.backoff.ms": "10",
    "reconnect.backoff.max.ms": "100",
    # Every kill would be reported as a broken connection.
    "log_level": "0",
}
_UNACKED_MAX: Final = 3000
_LARGE_BATCHES: Final = 0.01
_QUIET_S: Final = 0.04
_DELIVERY_TIMEOUT_S: Final = 60.0
_READ_TIMEOUT_S: Final = 60.0


class Load:
    """One producer for each compression, each of them sending to every partition."""

    def __init__(
        self,
        bootstrap_servers: str,
        topics: Sequence[str],
        partitions: int,
        guarantee: Mapping[str, str],
        seed: int,
        records_per_second: int,
    ) -> None:
        self.ledger = Ledger()
        self.fatal_errors: list[str] = []
        self._topics = topics
        self._partitions = partitions
        self._chance = random.Random(seed)
        self._records_per_second = records_per_second
        # Without acks librdkafka makes offsets up, some of which look real.
        self.tells_offsets = guarantee["acks"] != "0"
        self._stopping = threading.Event()
        self._last_report = 0.0
        self._producers = [
            Producer(
                {
                    **_COMMON,
                    **guarantee,
                    "bootstrap.servers": bootstrap_servers,
                    "compression.type": compression,
                    "retry.backoff.ms": "20",
                    "message.timeout.ms": "600000",
                    "error_cb": self._on_error,
                }
            )
            for compression in COMPRESSIONS
        ]
        self._thread = threading.Thread(target=self._run, name="load")
        self._thread.start()

    @property
    def unacked(self) -> int:
        return sum(len(producer) for producer in self._producers)

    def drain_reports(self) -> None:
        """After a kill: lets every report come out that the producers had already been sent."""
        began = time.monotonic()
        while time.monotonic() - max(began, self._last_report) < _QUIET_S:
            time.sleep(_QUIET_S / 4)

    def stop(self) -> None:
        """Sends no more."""
        self._stopping.set()
        self._thread.join()

    def finish(self) -> int:
        """Sends no more and waits for the last delivery reports; how many are still missing."""
        self.stop()
        deadline = time.monotonic() + _DELIVERY_TIMEOUT_S
        return sum(producer.flush(max(0.1, deadline - time.monotonic())) for producer in self._producers)

    def _run(self) -> None:
        began = time.monotonic()
        sent = 0
        while not self._stopping.is_set():
            number = self._chance.randrange(len(self._producers))
            producer = self._producers[number]
            if len(producer) < _UNACKED_MAX and sent <= (time.monotonic() - began) * self._records_per_second:
                sent += self._send_some(number, producer)
            else:
                time.sleep(0.001)
            for each in self._producers:
                if each.poll(0):
                    self._last_report = time.monotonic()

    def _send_some(self, number: int, producer: Producer) -> int:
        """Small batches for several partitions, and now and then a large one: a write that takes its time."""
        large = self._chance.random() < _LARGE_BATCHES
        partition = self._some_partition()
        count = 2000 if large else self._chance.randrange(1, 150)
        for _ in range(count):
            if not large:
                partition = self._some_partition()
            value = self.ledger.next_record(LineKey(number, partition))
            try:
                producer.produce(
                    self._topics[partition.topic], value, partition=partition.number, on_delivery=self._on_delivery
                )
            except KafkaException as refused:  # A producer that met a fatal error takes nothing more.
                self.ledger.failed(value)
                self._on_error(refused.args[0])
        return count

    def _some_partition(self) -> Partition:
        return Partition(self._chance.randrange(len(self._topics)), self._chance.randrange(self._partitions))

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        value = message.value()
        assert value is not None
        if error is None:
            self.ledger.acknowledged(value, message.offset() if self.tells_offsets else None)
        else:
            self.ledger.failed(value)

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal() and str(error) not in self.fatal_errors:
            self.fatal_errors.append(str(error))


class LiveReader:
    """Reads every partition from its beginning while the broker comes and goes, and remembers what it saw."""

    def __init__(self, bootstrap_servers: str, topics: Sequence[str], partitions: int) -> None:
        self.problems: list[str] = []
        self.seen = {Partition(topic, index): array("L") for topic in range(len(topics)) for index in range(partitions)}
        self._numbers = {topic: number for number, topic in enumerate(topics)}
        self._consumer = _reading_all(bootstrap_servers, topics, partitions)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reader")
        self._thread.start()

    @property
    def records_seen(self) -> int:
        return sum(len(checksums) for checksums in self.seen.values())

    def finish(self, end_offsets: Mapping[Partition, int]) -> None:
        """Lets it read up to these offsets."""
        deadline = time.monotonic() + _READ_TIMEOUT_S
        while any(len(self.seen[partition]) < end for partition, end in end_offsets.items()):
            if time.monotonic() > deadline:
                self.problems.append(f"it did not come to the end within {_READ_TIMEOUT_S:.0f} s")
                break
            time.sleep(0.02)
        self.stop()

    def stop(self) -> None:
        if not self._stopping.is_set():
            self._stopping.set()
            self._thread.join()
            self._consumer.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            for message in self._consumer.consume(500, timeout=0.1):
                error = message.error()
                if error is not None:
                    self.problems.append(str(error))
                    continue
                self._see(message)

    def _see(self, message: Message) -> None:
        partition = Partition(self._numbers[str(message.topic())], int(message.partition() or 0))
        checksums = self.seen[partition]
        offset = message.offset()
        if offset != len(checksums):
            self.problems.append(f"{partition}: offset {offset} came where {len(checksums)} was expected")
        checksums.append(zlib.crc32(message.value() or b""))


def read_all(
    bootstrap_servers: str,
    topics: Sequence[str],
    partitions: int,
    visit: Callable[[Partition, int, bytes], None],
) -> tuple[dict[Partition, int], list[str]]:
    """Reads everything that is there once. Returns where each partition ends, and what was wrong with its offsets."""
    numbers = {topic: number for number, topic in enumerate(topics)}
    problems: list[str] = []
    consumer = _reading_all(bootstrap_servers, topics, partitions)
    try:
        ends = {}
        for topic, number in numbers.items():
            for index in range(partitions):
                low, high = consumer.get_watermark_offsets(TopicPartition(topic, index), timeout=_READ_TIMEOUT_S)
                if low != 0:
                    problems.append(f"{topic}-{index} begins at offset {low}")
                ends[Partition(number, index)] = high
        positions = dict.fromkeys(ends, 0)
        deadline = time.monotonic() + _READ_TIMEOUT_S
        while positions != ends and time.monotonic() < deadline and len(problems) < 10:
            for message in consumer.consume(1000, timeout=0.2):
                if (error := message.error()) is not None:
                    raise KafkaException(error)
                partition = Partition(numbers[str(message.topic())], int(message.partition() or 0))
                offset = int(message.offset() or 0)
                if offset != positions[partition]:
                    problems.append(f"{partition}: offset {offset} came where {positions[partition]} was expected")
                positions[partition] = offset + 1
                visit(partition, offset, message.value() or b"")
        if positions != ends:
            problems.append(f"the partitions end at {ends}, reading came to {positions}")
        return ends, problems
    finally:
        consumer.close()


def _reading_all(bootstrap_servers: str, topics: Sequence[str], partitions: int) -> Consumer:
    consumer = Consumer(
        {
            **_COMMON,
            "bootstrap.servers": bootstrap_servers,
            "group.id": "crash",
            "enable.auto.commit": "false",
            "auto.offset.reset": "error",
            "check.crcs": "true",
            "fetch.wait.max.ms": "100",
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for topic in topics for index in range(partitions)])
    return consumer
