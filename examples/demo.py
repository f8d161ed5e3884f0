"""Aggregates orders into revenue, exactly once: kills the pipeline with -9 in a micro-batch, restarts it, counts rows.

Runs a broker, the pipeline revenue.yaml with its own Spark, and a SQLite table. The exit code is 0 only if the table
and the dead letter topic match the generator's ledger: no order lost, no order counted twice.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from demo_driver import Driver, DriverFailed
from demo_orders import Orders, make_orders
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from penstock import Admin
from penstock.testing import Broker

PIPELINE: Final = Path(__file__).with_name("revenue.yaml")
TOPIC: Final = "orders"
DEAD_LETTERS: Final = "revenue.dlq"
PARTITIONS: Final = 3
FIRST_SHARE: Final = 0.6  # of the records are sent before the pipeline starts, the others while it is down
RECORDS_LEAST: Final = 40_000  # enough for several micro-batches
KILL_AFTER_S: Final = 0.1  # after a micro-batch began; it takes several times as long
SILENCE_S_MAX: Final = 10.0


class Mismatch(Exception):
    """The output differs from the generator's ledger."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The committed state of the database: the rows, and the id of the last micro-batch."""

    batch: int
    rows: dict[str, tuple[int, float]]

    @property
    def orders(self) -> int:
        return sum(orders for orders, _ in self.rows.values())

    @classmethod
    def read(cls, directory: Path) -> Committed | None:
        """None before the first commit."""
        file = directory / "revenue.db"
        if not file.exists():
            return None
        with contextlib.closing(
            sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, isolation_level=None)
        ) as database:
            try:
                database.execute("BEGIN")  # one snapshot for both queries
                [batch] = database.execute("SELECT batch_id FROM penstock_ledger").fetchone() or [None]
                found = database.execute("SELECT customer, orders, revenue FROM revenue").fetchall()
            except sqlite3.OperationalError:  # the tables do not exist yet
                return None
        return None if batch is None else cls(batch, {name: (orders, revenue) for name, orders, revenue in found})


class Demo:
    def __init__(self, console: Console, orders: Orders, directory: Path, bootstrap_servers: str) -> None:
        self._console = console
        self._orders = orders
        self._directory = directory
        self._bootstrap_servers = bootstrap_servers
        self._split = int(len(orders.records) * FIRST_SHARE)

    def run(self) -> None:
        Admin({"bootstrap.servers": self._bootstrap_servers}).create_topic(TOPIC, partitions=PARTITIONS)
        first, rest = self._orders.records[: self._split], self._orders.records[self._split :]
        self._send(first)
        self._say(f"sent {len(first):,} records to topic [bold]{TOPIC}[/]")
        self._run_until_killed(first)
        self._send(rest)
        self._say(f"sent {len(rest):,} more records while the pipeline is down; some repeat earlier orders")
        self._run_to_the_end()

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False)

    def _progress(self) -> Progress:
        return Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
        )

    def _send(self, records: Sequence[bytes]) -> None:
        failures: list[KafkaError] = []
        producer: Any = Producer(
            {
                "bootstrap.servers": self._bootstrap_servers,
                "enable.idempotence": True,
                "delivery.report.only.error": True,
                "on_delivery": lambda error, _message: failures.append(error),
                "log_level": 3,
            }
        )
        for number, record in enumerate(records):
            while True:
                try:
                    producer.produce(TOPIC, record, partition=number % PARTITIONS)
                    break
                except BufferError:
                    producer.poll(0.05)
        unsent = producer.flush(SILENCE_S_MAX)
        if unsent or failures:
            raise Mismatch(f"{unsent + len(failures)} records were not acknowledged {failures[:1]}")

    def _run_until_killed(self, sent: Sequence[bytes]) -> None:
        """Kills the driver inside a micro-batch, once a third of the orders is committed."""
        orders = len(set(sent) - self._orders.broken.keys())
        begun, begun_at = -1, 0.0
        with self._driver() as driver, self._progress() as progress:
            bar = progress.add_task("starting Spark", total=len(sent))
            for event in driver.events():
                if event is not None:
                    if event.get("lag") == 0:
                        raise Mismatch("the pipeline finished before it could be killed; try more --records")
                    progress.update(bar, **_shown(event))
                committed = Committed.read(self._directory)
                last_begun = self._last_begun()
                if committed is None or committed.orders < orders / 3 or last_begun <= committed.batch:
                    continue
                if last_begun != begun:
                    begun, begun_at = last_begun, time.monotonic()
                if time.monotonic() - begun_at >= KILL_AFTER_S:
                    pids = driver.kill()
                    break
            else:
                raise driver.ended()
        self._say(f"[red]kill -9 {' '.join(map(str, pids))}[/] (driver and JVM) during micro-batch {begun}")
        self._show_middle(begun, orders)

    def _show_middle(self, begun: int, orders: int) -> None:
        left = Committed.read(self._directory)
        if left is None or not 0 < left.orders < orders:
            raise Mismatch(
                f"the kill came too early or too late: {left.orders if left else 0} of {orders} orders are committed"
            )
        state = "left no trace" if begun > left.batch else "had just committed"
        self._say(
            f"the table holds {left.orders:,} of {orders:,} orders: micro-batches 0 to {left.batch};"
            f" micro-batch {begun} {state}"
        )

    def _run_to_the_end(self) -> None:
        with self._driver("--once") as driver, self._progress() as progress:
            bar = progress.add_task("restarting from the checkpoint", total=len(self._orders.records))
            told = []
            for event in driver.events():
                if event is not None:
                    told.append(event)
                    progress.update(bar, **_shown(event))
            if not told or told[-1]["event"] != "stopped":
                raise driver.ended()
            driver.wait()
        batches = [event["batch"] for event in told if event["event"] == "progress"]
        if not batches:
            raise Mismatch("the second run processed no micro-batch")
        self._say(f"resumed at micro-batch {batches[0]}, processed all records, exited after micro-batch {batches[-1]}")

    def _driver(self, *options: str) -> Driver:
        self._say(f"[bold]penstock run {' '.join([*options, f'examples/{PIPELINE.name}'])}[/]")
        return Driver(PIPELINE, self._bootstrap_servers, self._directory, *options)

    def _last_begun(self) -> int:
        """Spark writes the offsets of a micro-batch to the checkpoint before it runs it."""
        offsets = self._directory / ".penstock" / "checkpoints" / "revenue" / "offsets"
        return max((int(file.name) for file in offsets.glob("*") if file.name.isdigit()), default=-1)


def _shown(event: dict[str, Any]) -> dict[str, Any]:
    """The state of the progress bar after an event."""
    match event["event"]:
        case "started":
            return {"description": "first micro-batch: Spark compiles the query"}
        case "progress":
            done = sum(sum(partitions.values()) for partitions in event["offsets"].values())
            return {"description": f"micro-batch {event['batch']} took {event['batch_ms']} ms", "completed": done}
        case "restarting":
            return {"description": f"retrying: {event['reason']}"}
        case _:
            return {}


def read_dead_letters(bootstrap_servers: str) -> tuple[Counter[bytes], Counter[str]]:
    """Reads the committed dead letters: their values, and the stage and reason from their headers."""
    consumer: Any = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "demo",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "log_level": 3,
        }
    )
    values: Counter[bytes] = Counter()
    reasons: Counter[str] = Counter()
    try:
        unfinished = set(consumer.list_topics(DEAD_LETTERS, timeout=SILENCE_S_MAX).topics[DEAD_LETTERS].partitions)
        consumer.assign([TopicPartition(DEAD_LETTERS, partition, 0) for partition in unfinished])
        while unfinished:
            messages = consumer.consume(1000, timeout=SILENCE_S_MAX)
            if not messages:
                raise Mismatch(f"topic {DEAD_LETTERS}: no record for {SILENCE_S_MAX:g} s")
            for message in messages:
                if message.error() is None:
                    headers = {name: (value or b"").decode() for name, value in message.headers() or []}
                    values[message.value()] += 1
                    reasons[f"{headers['penstock.stage']}: {headers['penstock.reason']}"] += 1
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    unfinished.discard(message.partition())
                else:
                    raise Mismatch(f"topic {DEAD_LETTERS}: {message.error()}")
    finally:
        consumer.close()
    return values, reasons


def compare(console: Console, orders: Orders, directory: Path, bootstrap_servers: str) -> None:
    """Prints the expected and the actual result; raises Mismatch if they differ."""
    committed = Committed.read(directory)
    found = committed.rows if committed is not None else {}
    table = Table("customer", "orders sent", "in the table", "revenue sent", "in the table", "", title="table revenue")
    lost = duplicated = wrong = 0
    for name in sorted(orders.accounts.keys() | found.keys()):
        account = orders.accounts.get(name)
        expected = (account.orders, account.revenue) if account is not None else (0, 0.0)
        counted, revenue = found.get(name, (0, 0.0))
        lost += max(0, expected[0] - counted)
        duplicated += max(0, counted - expected[0])
        same = (counted, revenue) == expected
        wrong += not same
        figures = f"{expected[0]:,}", f"{counted:,}", f"{expected[1]:,.2f}", f"{revenue:,.2f}"
        table.add_row(name, *figures, "[green]same[/]" if same else "[red]different[/]")
    _show(console, table)

    letters, reasons = read_dead_letters(bootstrap_servers)
    table = Table("reason", "records", title=f"topic {DEAD_LETTERS}")
    for reason, count in reasons.most_common():
        table.add_row(reason, f"{count:,}")
    _show(console, table)
    lost_letters = (orders.broken - letters).total()
    duplicated_letters = (letters - orders.broken).total()

    table = Table("", "sent", "delivered", "lost", "duplicated", title="result")
    table.add_row("orders", f"{orders.count:,}", f"{sum(n for n, _ in found.values()):,}", str(lost), str(duplicated))
    table.add_row("repeated orders", f"{orders.repeats:,}", "deduplicated", "", "")
    rejected = orders.broken.total()
    letters_row = f"{rejected:,}", f"{letters.total():,}", str(lost_letters), str(duplicated_letters)
    table.add_row("broken records", *letters_row)
    _show(console, table)
    if lost or duplicated or lost_letters or duplicated_letters:
        raise Mismatch(f"lost {lost + lost_letters}, duplicated {duplicated + duplicated_letters}")
    if wrong:
        raise Mismatch(f"the revenue of {wrong} customers differs from the sum of their orders")


def _show(console: Console, table: Table) -> None:
    table.title_justify = "left"
    for column in table.columns[1:]:
        column.justify = "right"
    console.print(table, highlight=False)


def run(console: Console, count: int, seed: int) -> None:
    begun = time.perf_counter()
    orders = make_orders(count, seed)
    with (
        tempfile.TemporaryDirectory(prefix="penstock-demo-") as temporary,
        Broker(data_dir=Path(temporary) / "broker") as broker,
    ):
        directory = Path(temporary)
        console.print(f"broker on [bold]{broker.bootstrap_servers}[/], files in {directory}", highlight=False)
        console.print(
            f"workload: {orders.count:,} orders, {orders.repeats:,} repeats to deduplicate by id,"
            f" {orders.broken.total():,} broken records for the dead letter topic",
            highlight=False,
        )
        Demo(console, orders, directory, broker.bootstrap_servers).run()
        compare(console, orders, directory, broker.bootstrap_servers)
    seconds = time.perf_counter() - begun
    console.print(f"[green]lost 0, duplicated 0[/], across a kill -9, in {seconds:.0f} s", highlight=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--records", type=int, default=80_000, help="default %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="default %(default)s; decides which orders are generated")
    options = parser.parse_args()
    if options.records < RECORDS_LEAST:
        parser.error(f"--records must be at least {RECORDS_LEAST}")
    console = Console()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # cleans up as after ctrl-C
    try:
        run(console, options.records, options.seed)
    except (Mismatch, DriverFailed, RuntimeError) as failure:
        console.print(f"[red]the demo failed:[/] {failure}", highlight=False)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
