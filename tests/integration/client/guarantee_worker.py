"""A process that consumes under a guarantee and blocks at a chosen point, where the test kills it.

It blocks in what a user can pass in: the handler, the store, the producer. The code under test does not know these
points. The argument is one JSON object; see `Orders`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from sqlite3 import Connection
from typing import Any

from penstock import Consumer, Deduplicated, KafkaTransaction, Producer, Record, SQLiteStore

BATCH_RECORDS = 5
IDLE_S = 4.0


@dataclass(frozen=True, slots=True)
class Orders:
    bootstrap_servers: str
    topic: str
    group: str
    style: str
    """at_most_once, at_least_once, sqlite, deduplicated or kafka."""
    effects: str
    """A file for lines, a database, or a topic."""
    point: str
    """before_effect, after_effect, before_commit, after_commit; empty: run to the end."""
    at: int
    """The how manyeth arrival at that point is the one."""


class StandStill:
    """Says that it is there and goes no further. What it says names the record whose fate is open."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._arrivals = 0
        self.value = ""

    def reach(self, point: str) -> None:
        if point != self._orders.point:
            return
        self._arrivals += 1
        if self._arrivals == self._orders.at:
            print(f"AT {point} {self.value}", flush=True)
            while True:
                time.sleep(60)


class PausingStore(SQLiteStore):
    def __init__(self, database: str, still: StandStill) -> None:
        super().__init__(database)
        self._still = still

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        self._still.value = ""
        with super().transaction() as connection:
            yield connection
            if self._still.value:
                self._still.reach("before_commit")
        if self._still.value:
            self._still.reach("after_commit")


class PausingProducer(Producer):
    def __init__(self, config: dict[str, Any], still: StandStill) -> None:
        super().__init__(config)
        self._still = still

    def commit_transaction(self, timeout_s: float | None = None) -> None:
        self._still.reach("before_commit")
        super().commit_transaction(timeout_s)
        self._still.reach("after_commit")


def main(orders: Orders) -> None:
    still = StandStill(orders)
    config = {
        "bootstrap.servers": orders.bootstrap_servers,
        "group.id": orders.group,
        # The next life takes the place of this one, without waiting for its session to time out.
        "group.instance.id": f"{orders.group}-0",
        "auto.offset.reset": "earliest",
        "max.poll.records": BATCH_RECORDS,
        "fetch.max.wait.ms": 20,
    }

    def around(effect: Callable[..., None]) -> Callable[..., None]:
        def handler(record: Record, *transaction: Any) -> None:
            still.value = record.value.decode()
            still.reach("before_effect")
            effect(record, *transaction)
            still.reach("after_effect")

        return handler

    with Consumer(config) as consumer:
        consumer.subscribe(orders.topic)
        if orders.style in ("at_most_once", "at_least_once"):
            file = os.open(orders.effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

            def write(record: Record) -> None:
                os.write(file, record.value + b"\n")

            guarantee: Any = orders.style
            handled = consumer.run(around(write), guarantee=guarantee, stop_when_idle_s=IDLE_S)
        elif orders.style == "kafka":
            producer_config = {"bootstrap.servers": orders.bootstrap_servers, "transactional.id": orders.group}
            with PausingProducer(producer_config, still) as producer:

                def copy(record: Record, transaction: Producer) -> None:
                    # Delivered, so that a kill from here on leaves something that must not be seen.
                    transaction.send(orders.effects, record.value).result(30)

                handled = consumer.run(
                    around(copy), guarantee="exactly_once", store=KafkaTransaction(producer), stop_when_idle_s=IDLE_S
                )
        else:
            database = PausingStore(orders.effects, still)

            def insert(record: Record, transaction: Connection) -> None:
                transaction.execute("INSERT INTO effects VALUES (?)", (record.value.decode(),))

            store = Deduplicated(database) if orders.style == "deduplicated" else database
            handled = consumer.run(around(insert), guarantee="exactly_once", store=store, stop_when_idle_s=IDLE_S)
    print(f"DONE {handled}", flush=True)


if __name__ == "__main__":
    main(Orders(**json.loads(sys.argv[1])))
