"""Compaction under kill -9: the log keeps the last value of every key, and a reader in its middle notices nothing.

`make compaction` runs it (`python -m tests.robustness.compaction_soak --kills 50 --seed 1`), and
`test_compaction_soak.py` a slice of it. Two writers live across the kills: an idempotent one with tombstones, and a
transactional one that commits or aborts. Half of the kills wait until the cleaner's files are on disk, so that they hit
a cleaning or its swap. The clients' threads are not under a seed's control: a seed repeats the plan of a run and not
its every byte.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing import Broker

TOPIC: Final = "compacted"
KEYS: Final = 300
TOMBSTONE_SHARE: Final = 0.1
ABORT_SHARE: Final = 0.3
RECORDS_PER_SECOND: Final = 3_000
SETTLE_TIMEOUT_S: Final = 60.0
_MOMENT_TIMEOUT_S: Final = 5.0
_BROKER_CONFIG: Final = {"log.cleaner.backoff.ms": "50"}
_TOPIC_CONFIG: Final = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "60000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "2000",
    "file.delete.delay.ms": "0",
}
_SILENT: Final = {"log_level": 0}


@dataclass(slots=True)
class Report:
    """The figures of one run."""

    seed: int
    kills: int = 0
    kills_in_cleaning: int = 0  # files of a cleaning were on disk
    kills_in_swap: int = 0  # files of a swap were
    written: int = 0
    transactions: int = 0
    aborted: int = 0
    in_doubt: int = 0
    seen_live: int = 0
    records_left: int = 0
    cleaned_offset: int = 0
    end_offset: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not self.problems

    @property
    def shows_something(self) -> bool:
        """Most of the log was compacted away, and kills hit cleanings."""
        return self.kills_in_cleaning + self.kills_in_swap > 0 and self.records_left < self.end_offset / 4

    def lines(self) -> list[str]:
        return [
            f"seed {self.seed}: {self.kills} kills, {self.kills_in_cleaning} in a cleaning and {self.kills_in_swap} "
            f"in a swap, {self.seconds:.0f} s",
            f"  {self.written:,} records and {self.transactions:,} transactions written ({self.aborted:,} aborted, "
            f"{self.in_doubt} in doubt); {self.seen_live:,} records read live",
            f"  of {self.end_offset:,} offsets {self.records_left:,} records are left; "
            f"compacted up to {self.cleaned_offset:,}",
            *(f"  PROBLEM {problem}" for problem in self.problems),
        ]


class PlainWriter(threading.Thread):
    """Writes growing numbers under keys `p-*`, and tombstones. Every record is delivered in the end."""

    def __init__(self, servers: str, chance: random.Random) -> None:
        super().__init__(name="plain-writer", daemon=True)
        config = {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "message.timeout.ms": 120_000,
            "linger.ms": 2,
        }
        self._producer = Producer({**config, **_SILENT})
        self._chance = chance
        self._stopping = threading.Event()
        self.last: dict[str, int | None] = {}
        self.written = 0
        self.problems: list[str] = []

    def run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            for _ in range(RECORDS_PER_SECOND // 100):
                number += 1
                key = f"p-{self._chance.randrange(KEYS)}"
                value = None if self._chance.random() < TOMBSTONE_SHARE else number
                self._send(key, value)
                self.last[key] = value
            self._producer.poll(0.01)
        left = self._producer.flush(SETTLE_TIMEOUT_S)
        if left:
            self.problems.append(f"{left} records were never acknowledged")

    def finish(self) -> None:
        self._stopping.set()
        self.join()

    def _send(self, key: str, value: int | None) -> None:
        while True:
            try:
                self._producer.produce(TOPIC, None if value is None else str(value), key, on_delivery=self._delivered)
                return
            except BufferError:
                self._producer.poll(0.05)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.written += 1
        else:
            self.problems.append(f"a record was not delivered: {error}")


class TransactionalWriter(threading.Thread):
    """Commits or aborts small transactions under keys `t-*`. What a failed commit did is in doubt."""

    def __init__(self, servers: str, chance: random.Random) -> None:
        super().__init__(name="transactional-writer", daemon=True)
        self._servers = servers
        self._chance = chance
        self._stopping = threading.Event()
        self.last: dict[str, int] = {}
        self.in_doubt: set[str] = set()
        self.transactions = self.aborted = 0

    def run(self) -> None:
        number = 0
        producer = self._new_producer()
        while not self._stopping.is_set():
            values: dict[str, int] = {}
            aborts = self._chance.random() < ABORT_SHARE
            try:
                producer.begin_transaction()
                for _ in range(self._chance.randrange(1, 30)):
                    number += 1
                    key = f"t-{self._chance.randrange(KEYS)}"
                    producer.produce(TOPIC, str(number), key)
                    values[key] = number
                if aborts:
                    _insist(producer.abort_transaction)
                    self.aborted += 1
                else:
                    _insist(producer.commit_transaction)
                    self.last |= values
                    self.in_doubt -= values.keys()
                self.transactions += 1
            except KafkaException as failure:
                error: KafkaError = failure.args[0]
                if error.txn_requires_abort() and not error.fatal():
                    with suppress(KafkaException):
                        _insist(producer.abort_transaction)
                        continue
                elif not aborts:
                    self.in_doubt |= values.keys()
                producer = self._new_producer()
            self._stopping.wait(0.01)

    def finish(self) -> None:
        self._stopping.set()
        self.join()

    def _new_producer(self) -> Producer:
        config = {"bootstrap.servers": self._servers, "transactional.id": "soak", "linger.ms": 0, **_SILENT}
        while True:
            producer = Producer({**config, "transaction.timeout.ms": 20_000})
            try:
                producer.init_transactions(30)
                return producer
            except KafkaException:
                if self._stopping.is_set():
                    return producer


def _insist(end: Callable[[float], None]) -> None:
    """As librdkafka asks: an ending whose outcome may be asked for again is asked for again."""
    while True:
        try:
            end(30)
            return
        except KafkaException as failure:
            if not failure.args[0].retriable():
                raise


class Reader(threading.Thread):
    """Reads from the beginning, across the kills: offsets grow, and so do the numbers of each key."""

    def __init__(self, servers: str) -> None:
        super().__init__(name="reader", daemon=True)
        self._consumer = _consumer(servers)
        self._stopping = threading.Event()
        self.seen = 0
        self.problems: list[str] = []

    def run(self) -> None:
        self._consumer.assign([TopicPartition(TOPIC, 0, 0)])
        offset, numbers = -1, dict[bytes, int]()
        while not self._stopping.is_set():
            for message in self._consumer.consume(500, 0.1):
                error = message.error()
                if error is not None:
                    if not error.retriable():
                        self.problems.append(f"the reader was told {error}")
                    continue
                self.seen += 1
                where, key, value = message.offset(), message.key(), message.value()
                assert where is not None
                assert isinstance(key, bytes)
                if where <= offset:
                    self.problems.append(f"offset {where} came behind {offset}")
                offset = where
                if value is not None:
                    number = int(value)
                    if number <= numbers.get(key, 0):
                        self.problems.append(f"{key!r}: {number} came behind {numbers[key]}")
                    numbers[key] = number
        self._consumer.close()

    def finish(self) -> None:
        self._stopping.set()
        self.join()


def _consumer(servers: str) -> Consumer:
    config = {"bootstrap.servers": servers, "group.id": "soak", "enable.auto.commit": False, **_SILENT}
    return Consumer({**config, "isolation.level": "read_committed", "auto.offset.reset": "error"})


def compact_under_kills(*, kills: int, seed: int) -> Report:
    chance = random.Random(seed)
    report = Report(seed)
    begun_s = time.monotonic()
    with Broker(config=_BROKER_CONFIG) as broker:
        servers = broker.bootstrap_servers
        new = NewTopic(TOPIC, 1, 1, config=_TOPIC_CONFIG)
        administrator = AdminClient({"bootstrap.servers": servers, **_SILENT})
        administrator.create_topics([new])[TOPIC].result(30)
        plain, transactional = PlainWriter(servers, random.Random(seed + 1)), TransactionalWriter(servers, chance)
        reader = Reader(servers)
        threads = (plain, transactional, reader)
        for thread in threads:
            thread.start()
        directory = next(broker.data_dir.rglob(f"{TOPIC}-0"))
        for _ in range(kills):
            _await_moment(directory, chance)
            broker.kill()
            report.kills += 1
            files = [file.name for file in directory.iterdir()]
            report.kills_in_swap += any(name.endswith(".swap") for name in files)
            report.kills_in_cleaning += any(name.endswith(".cleaned") for name in files)
            broker.start()
        time.sleep(1.0)
        plain.finish()
        transactional.finish()
        _await_compaction(broker, report)
        reader.finish()
        final, report.records_left = _read_all(servers, report.end_offset)
    report.written, report.seen_live = plain.written, reader.seen
    report.transactions, report.aborted = transactional.transactions, transactional.aborted
    report.in_doubt = len(transactional.in_doubt)
    expected: dict[str, int | None] = {**plain.last, **transactional.last}
    report.problems += [*plain.problems, *reader.problems, *differences(final, expected, transactional.in_doubt)]
    report.seconds = time.monotonic() - begun_s
    return report


def _await_moment(directory: Path, chance: random.Random) -> None:
    """Half the time the next cleaning, or its swap; else any moment."""
    time.sleep(chance.uniform(0.1, 1.2))
    if chance.random() < 0.5:
        return
    suffix = chance.choice((".swap", ".cleaned"))
    deadline_s = time.monotonic() + _MOMENT_TIMEOUT_S
    while time.monotonic() < deadline_s:
        if any(file.name.endswith(suffix) for file in directory.iterdir()):
            return
        time.sleep(0.0005)


def _await_compaction(broker: Broker, report: Report) -> None:
    """Until the cleaner has reached the last segment but the active one."""
    consumer = _consumer(broker.bootstrap_servers)
    _, report.end_offset = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=30)
    consumer.close()
    directory = next(broker.data_dir.rglob(f"{TOPIC}-0"))
    deadline_s = time.monotonic() + SETTLE_TIMEOUT_S
    while time.monotonic() < deadline_s:
        report.cleaned_offset = _cleaned_offset(broker.data_dir)
        active = max(int(file.stem) for file in directory.glob("*.log"))
        if report.cleaned_offset >= active:
            return
        time.sleep(0.1)
    report.problems.append(f"compacted up to {report.cleaned_offset:,} only")


def _cleaned_offset(data_dir: Path) -> int:
    for file in data_dir.rglob("cleaner-offset-checkpoint"):
        for line in file.read_text().splitlines()[2:]:
            topic, _partition, offset = line.split()
            if topic == TOPIC:
                return int(offset)
    return 0


def _read_all(servers: str, end_offset: int) -> tuple[dict[str, int | None], int]:
    consumer = _consumer(servers)
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    final: dict[str, int | None] = {}
    count = 0
    deadline_s = time.monotonic() + SETTLE_TIMEOUT_S
    while time.monotonic() < deadline_s:
        messages = consumer.consume(500, 0.5)
        for message in messages:
            if message.error() is None:
                count += 1
                key, value = message.key(), message.value()
                assert isinstance(key, bytes)
                final[key.decode()] = None if value is None else int(value)
        (position,) = consumer.position([TopicPartition(TOPIC, 0)])
        if not messages and position.offset >= end_offset - 1:
            break
    consumer.close()
    return final, count


def differences(final: Mapping[str, int | None], expected: Mapping[str, int | None], in_doubt: set[str]) -> list[str]:
    """A key that was deleted last may be there with a tombstone, or not at all."""
    return [
        f"{key} is {final.get(key)}, and was last set to {expected.get(key)}"
        for key in sorted(final.keys() | expected.keys())
        if key not in in_doubt and final.get(key) != expected.get(key)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="compaction_soak", description="Compaction under kill -9.")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32, help="default: another one every time")
    options = parser.parse_args(arguments)
    report = compact_under_kills(kills=options.kills, seed=options.seed)
    print("\n".join(report.lines()))
    return 0 if report.holds and report.shows_something else 1


if __name__ == "__main__":
    sys.exit(main())
