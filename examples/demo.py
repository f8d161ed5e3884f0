"""A tour in a few seconds: start a broker, create a topic, produce, consume, check every record, stop.

The same client code works against any Kafka broker; only the address is the embedded broker's. The exit code is 0 only
if every record came back once and in order.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from penstock.client.admin import Admin
from penstock.testing import Broker

TOPIC: Final = "demo"
PARTITIONS: Final = 3
VALUE_BYTES: Final = 100
BATCH_RECORDS: Final = 1000
SILENCE_S_MAX: Final = 10.0

Advance = Callable[[int], None]


class Mismatch(Exception):
    """A record was lost, repeated, reordered or changed."""


@dataclass(frozen=True, slots=True)
class Leg:
    """One way through the broker, and how long it took."""

    name: str
    records: int
    seconds: float

    @property
    def records_per_s(self) -> float:
        return self.records / self.seconds

    @property
    def megabytes_per_s(self) -> float:
        return self.records_per_s * VALUE_BYTES / 1e6


def value_of(number: int) -> bytes:
    """Record `number` of the demo, recognisable wherever it turns up."""
    return b"%0*d" % (VALUE_BYTES, number)


def produce(bootstrap_servers: str, count: int, advance: Advance) -> None:
    failures: list[KafkaError] = []
    producer: Any = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "enable.idempotence": True,
            "delivery.report.only.error": True,
            "on_delivery": lambda error, _message: failures.append(error),
        }
    )
    for number in range(count):
        while True:
            try:
                producer.produce(TOPIC, value_of(number), partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
        if (number + 1) % BATCH_RECORDS == 0:
            producer.poll(0)
            advance(BATCH_RECORDS)
    unsent = producer.flush(SILENCE_S_MAX)
    if unsent or failures:
        raise Mismatch(f"{unsent + len(failures)} records were not acknowledged {failures[:1]}")


def consume(bootstrap_servers: str, count: int, advance: Advance) -> None:
    """Reads to the end of every partition; each must bring its own numbers, one after the other."""
    consumer: Any = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "demo",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.queue.backoff.ms": 10,
        }
    )
    expected = list(range(PARTITIONS))
    unfinished = set(range(PARTITIONS))
    heard_at = time.monotonic()
    try:
        consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
        while unfinished:
            messages = consumer.consume(BATCH_RECORDS, timeout=0.1)
            if messages:
                heard_at = time.monotonic()
            elif time.monotonic() - heard_at > SILENCE_S_MAX:
                raise Mismatch(f"nothing came for {SILENCE_S_MAX:g} s; next expected {expected}")
            received = 0
            for message in messages:
                partition = message.partition()
                if message.error() is not None:
                    if message.error().code() != KafkaError._PARTITION_EOF:
                        raise Mismatch(f"partition {partition}: {message.error()}")
                    unfinished.discard(partition)
                    continue
                if message.value() != value_of(expected[partition]):
                    raise Mismatch(
                        f"partition {partition} offset {message.offset()}: "
                        f"expected record {expected[partition]}, got {message.value()!r}"
                    )
                expected[partition] += PARTITIONS
                received += 1
            advance(received)
    finally:
        consumer.close()
    # Partition p holds p, p + 3, p + 6, ...: the next number of each says that none is missing at its end.
    for partition, following in enumerate(expected):
        if following != partition + PARTITIONS * len(range(partition, count, PARTITIONS)):
            raise Mismatch(f"partition {partition} ends before record {following} of {count}")


def run(console: Console, count: int) -> None:
    started = time.perf_counter()
    with Broker() as broker:
        ready_s = time.perf_counter() - started
        console.print(f"broker ready on [bold]{broker.bootstrap_servers}[/] after {ready_s * 1000:.0f} ms")
        Admin({"bootstrap.servers": broker.bootstrap_servers}).create_topic(TOPIC, partitions=PARTITIONS)
        console.print(f"topic [bold]{TOPIC}[/] created with {PARTITIONS} partitions")
        legs = []
        with Progress(
            TextColumn("{task.description:<8}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
        ) as progress:
            for name, leg in (("produce", produce), ("consume", consume)):
                task = progress.add_task(name, total=count)
                begun = time.perf_counter()
                leg(broker.bootstrap_servers, count, functools.partial(progress.advance, task))
                legs.append(Leg(name, count, time.perf_counter() - begun))
                progress.update(task, completed=count)
        stopping = time.perf_counter()
    console.print(f"broker stopped cleanly after {(time.perf_counter() - stopping) * 1000:.0f} ms")
    console.print(_summary(legs))
    console.print(f"[green]all {count:,} records came back once and in order[/]")


def _summary(legs: list[Leg]) -> Table:
    table = Table("", "records", "seconds", "records/s", "MB/s")
    for column in table.columns[1:]:
        column.justify = "right"
    for leg in legs:
        table.add_row(
            leg.name,
            f"{leg.records:,}",
            f"{leg.seconds:.2f}",
            f"{leg.records_per_s:,.0f}",
            f"{leg.megabytes_per_s:,.1f}",
        )
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--records", type=int, default=1_000_000, help="default %(default)s, of 100 bytes")
    options = parser.parse_args()
    if options.records < PARTITIONS:
        parser.error(f"--records must be at least {PARTITIONS}")
    console = Console()
    try:
        run(console, options.records)
    except (Mismatch, RuntimeError) as failure:
        console.print(f"[red]the demo failed:[/] {failure}", highlight=False)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
