"""The readers of a copy in transactions: one that reads all along, and those that read everything afterwards.

All are librdkafka. Owns their settings, and what they saw in the order in which they saw it; judges nothing but that
offsets go up. Must never know when a fault comes.
"""

from __future__ import annotations

import threading
import time
from typing import Final, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tests.robustness.transaction_copier import CLIENT_SETTINGS, GROUP, INPUT, OUTPUT
from tests.robustness.transaction_ledger import INPUT_PARTITIONS, OUTPUT_PARTITIONS

READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"
_TIMEOUT_S: Final = 60.0

Seen = dict[int, list[tuple[int, bytes]]]


class LiveReader:
    """Reads the output from its beginning, with `read_committed`, and is never told to begin anew."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.seen: Seen = {partition: [] for partition in range(OUTPUT_PARTITIONS)}
        self.first_seen_ns: dict[str, int] = {}  # by transaction
        self.problems: list[str] = []
        self._consumer = _reading_from_begin(bootstrap_servers, READ_COMMITTED)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reader along")

    @property
    def count(self) -> int:
        return sum(len(records) for records in self.seen.values())

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._consumer.close()

    def await_count(self, count: int) -> None:
        deadline = time.monotonic() + _TIMEOUT_S
        while self.count < count and time.monotonic() < deadline:
            time.sleep(0.02)
        if self.count < count:
            self.problems.append(f"the reader along is stuck: it saw {self.count} records of {count}")

    def _run(self) -> None:
        while not self._stopping.is_set():
            for message in self._consumer.consume(500, timeout=0.1):
                now_ns = time.monotonic_ns()
                if (error := message.error()) is not None:
                    if error.code() != KafkaError._PARTITION_EOF:
                        self.problems.append(f"the reader along was told: {error}")
                    continue
                if not _see(self.seen, message):
                    self.problems.append(f"the reader along saw offset {message.offset()} after a later one")
                transaction = (message.value() or b"").partition(b" ")[0].decode(errors="replace")
                self.first_seen_ns.setdefault(transaction, now_ns)


def read_everything(bootstrap_servers: str, isolation_level: str) -> Seen:
    """What is there now, from the beginning to the end of every partition."""
    seen: Seen = {partition: [] for partition in range(OUTPUT_PARTITIONS)}
    consumer = _reading_from_begin(bootstrap_servers, isolation_level)
    try:
        ended: set[int] = set()
        deadline = time.monotonic() + _TIMEOUT_S
        while len(ended) < OUTPUT_PARTITIONS:
            if time.monotonic() > deadline:
                raise TimeoutError(f"a {isolation_level} reader is stuck; it came to the end of {ended}")
            for message in consumer.consume(1000, timeout=0.2):
                error = message.error()
                if error is None:
                    _see(seen, message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(int(message.partition() or 0))
                else:
                    raise KafkaException(error)
    finally:
        consumer.close()
    return seen


def committed_offsets(bootstrap_servers: str) -> list[int]:
    """Of the copiers' group: where each input partition is to be read on; negative where nothing was committed."""
    consumer = Consumer({**CLIENT_SETTINGS, "bootstrap.servers": bootstrap_servers, "group.id": GROUP})
    try:
        wanted = [TopicPartition(INPUT, partition) for partition in range(INPUT_PARTITIONS)]
        return [partition.offset for partition in consumer.committed(wanted, timeout=_TIMEOUT_S)]
    finally:
        consumer.close()


def _see(seen: Seen, message: Message) -> bool:
    """False when an earlier record, or the same one, comes after it."""
    records = seen[int(message.partition() or 0)]
    offset = int(message.offset() or 0)
    in_order = not records or records[-1][0] < offset
    records.append((offset, message.value() or b""))
    return in_order


def _reading_from_begin(bootstrap_servers: str, isolation_level: str) -> Consumer:
    consumer = Consumer(
        {
            **CLIENT_SETTINGS,
            "bootstrap.servers": bootstrap_servers,
            "group.id": "readers",
            "isolation.level": isolation_level,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "fetch.wait.max.ms": 50,
        }
    )
    consumer.assign([TopicPartition(OUTPUT, partition, 0) for partition in range(OUTPUT_PARTITIONS)])
    return consumer
