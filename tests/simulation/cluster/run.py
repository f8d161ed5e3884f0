"""One seed: a cluster, its clients, faults, and what must be true during the run and at its end.

    run_seed(seed)

raises SimulationFault with the seed, or returns what happened in numbers. The same seed gives the same run.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from penstock.log.partition_log import PartitionLog
from tests.simulation.cluster.administrator import Administrator
from tests.simulation.cluster.client import Client, Place
from tests.simulation.cluster.cluster import Cluster
from tests.simulation.cluster.consumers import Committer, Consumer
from tests.simulation.cluster.history import History
from tests.simulation.cluster.invariants import values_of
from tests.simulation.cluster.nemesis import Nemesis
from tests.simulation.cluster.producers import IdempotentProducer, Producer, TransactionalProducer
from tests.simulation.cluster.world import SimulationFault

TOPIC: Final = "topic"
START_S: Final = 30.0
FAULTS_S: Final = 12.0
MOVES_S: Final = 7.0
PAUSE_S: Final = 1.0
"""Between two batches or transactions, on average: clients are at work for as long as the faults last."""
FINISH_S: Final = 60.0
RECORDS: Final = 14
TRANSACTIONAL_RECORDS: Final = 14
MOVES_EVERY: Final = 4
"""Of so many seeds one is about late messages while leaders and coordinators move; all others have every fault
but those that `nemesis.py` leaves out."""


@dataclass(frozen=True, slots=True)
class Result:
    seed: int
    digest: int
    events: int
    virtual_s: float
    acknowledged: int


class Run:
    def __init__(self, seed: int, *, keeps_trace: bool = False) -> None:
        self.seed = seed
        self.cluster = Cluster(seed, keeps_trace=keeps_trace)
        self.world = self.cluster.world
        self.history = History()
        self.moves = seed % MOVES_EVERY == MOVES_EVERY - 1
        self.takes_away = seed % MOVES_EVERY == 1
        self.administrator = Administrator(
            self._client("admin"),
            TOPIC,
            changes=25 if self.moves else 4,
            moves_only=self.moves,
            takes_away=self.takes_away,
        )
        self.producers: list[Producer] = [
            IdempotentProducer(self._client(f"producer{number}"), self.history, TOPIC, RECORDS, PAUSE_S)
            for number in (1, 2)
        ]
        self.producers += [
            TransactionalProducer(
                self._client(f"writer{number}"),
                self.history,
                TOPIC,
                TRANSACTIONAL_RECORDS * (3 if self.moves else 1),
                f"group-of-writer{number}",
                new_protocol=number == 2,
                pause_s=0.0 if self.moves else PAUSE_S,
            )
            for number in (1, 2)
        ]
        self.consumers = [
            Consumer(self._client("reader"), self.history, TOPIC, read_committed=False),
            Consumer(self._client("rack-reader"), self.history, TOPIC, read_committed=False, rack="rack2"),
            Consumer(self._client("committed-reader"), self.history, TOPIC, read_committed=True),
        ]
        self.committer = Committer(self._client("committer"), self.history, TOPIC, "group", commits=8)
        self.nemesis: Nemesis | None = None

    def run(self) -> Result:
        try:
            self._start()
            self.nemesis = Nemesis(
                self.cluster,
                MOVES_S if self.moves else FAULTS_S,
                only_late=self.moves,
                loses=not self.takes_away,
            )
            self.nemesis.start()
            for producer in self.producers:
                self._begin(producer.client, producer.run())
            self._begin(self.committer.client, self.committer.run())
            self._begin(self.administrator.client, self.administrator.run())
            for consumer in self.consumers:
                self._begin(consumer.client, consumer.run())
            nemesis = self.nemesis
            self._run_until("the faults end", lambda: nemesis.is_done, FAULTS_S + 30)
            workers: list[Any] = [*self.producers, self.committer, self.administrator]
            self._run_until(
                "all clients have finished",
                lambda: all(worker.is_done for worker in workers),
                FINISH_S,
                lambda: [worker.client.name for worker in workers if not worker.is_done],
            )
            self._settle()
            self._check_end()
        except BaseException as error:
            text = f"seed {self.seed}: {error}"
            self.world.note(text)
            if isinstance(error, SimulationFault | Exception):
                raise SimulationFault(text) from error
            raise
        acknowledged = sum(len(offsets) for offsets in self.history.acknowledged.values())
        return Result(self.seed, self.world.digest, self.world.events, self.world.now_s, acknowledged)

    def _client(self, name: str) -> Client:
        return self.cluster.client(name)

    def _begin(self, client: Client, work: Coroutine[Any, Any, None]) -> None:
        task = client.loop.create_task(work)

        def ended(done: Any) -> None:
            if done.exception() is not None:
                raise done.exception()

        task.add_done_callback(ended)

    def _start(self) -> None:
        for broker in self.cluster.brokers:
            broker.start()
        self._run_until("the brokers serve", lambda: all(each.is_serving for each in self.cluster.brokers), START_S)
        created = self.administrator.client.loop.create_task(self.administrator.create_topic())
        self._run_until("the topic is there", created.done, START_S)

    def _settle(self) -> None:
        """All replicas come into sync, and readers to the end."""
        for consumer in self.consumers:
            consumer.ends.clear()
        self._run_until(
            "all replicas are in sync and equal",
            lambda: self.cluster.invariants.is_settled(self.cluster.brokers),
            FINISH_S,
            lambda: [
                (
                    name,
                    image,
                    [
                        (each, each.high_watermark, each.log.log_end_offset)
                        for broker in self.cluster.brokers
                        for each in broker.replicas()
                        if (each.topic_id, each.index) == (topic_id, image.index)
                    ],
                )
                for name, topic_id, image in self.cluster.truth.partitions()
            ],
        )
        places = {place: log.log_end_offset for place, log in self._logs().items()}
        self._run_until(
            "readers have reached the end",
            lambda: all(
                consumer.positions.get(place, -1) >= end for consumer in self.consumers for place, end in places.items()
            ),
            FINISH_S,
            lambda: [(consumer.client.name, consumer.positions, places) for consumer in self.consumers],
        )

    def _logs(self) -> dict[Place, PartitionLog]:
        """The log of every partition of the topic, on an in-sync replica."""
        in_sync: dict[Place, int] = {
            (name, image.index): image.isr[0] for name, _, image in self.cluster.truth.partitions() if name == TOPIC
        }
        found = {
            (partition.topic_name, partition.index): partition.log
            for broker in self.cluster.brokers
            for partition in broker.replicas()
            if in_sync.get((partition.topic_name, partition.index)) == broker.broker_id
        }
        assert found.keys() == in_sync.keys()
        return found

    def _check_end(self) -> None:
        self.cluster.invariants.check_equal(self.cluster.brokers)
        logs = {place: dict(values_of(log)) for place, log in self._logs().items()}
        self.history.check_logs(logs)
        for consumer in self.consumers:
            if consumer.read_committed:
                self.history.check_committed(consumer.found)
            elif any(consumer.found.get(place, {}) != records for place, records in logs.items()):
                raise SimulationFault(f"{consumer.client.name} has not read what the logs hold")
        asked = self.committer.client.loop.create_task(self._look_up_offsets())
        self._run_until("offsets are looked up", asked.done, FINISH_S)
        asked.result()

    async def _look_up_offsets(self) -> None:
        groups = ["group", *(each.group for each in self.producers if isinstance(each, TransactionalProducer))]
        for group in groups:
            await Committer(self.committer.client, self.history, TOPIC, group, 0).look_up()

    def _run_until(self, what: str, is_over: Any, within_s: float, why: Any = lambda: "") -> None:
        if not self.world.run_until(is_over, self.world.now_s + within_s, self.cluster.check):
            raise SimulationFault(f"after {within_s:g} s without an end: {what} {why()}")


def run_seed(seed: int) -> Result:
    run = Run(seed)
    try:
        return run.run()
    finally:
        run.cluster.close()


def silence() -> None:
    """Brokers log what they meet, which is what a simulation is full of. PENSTOCK_LOG=1 shows it."""
    logging.getLogger("penstock").setLevel(logging.INFO if "PENSTOCK_LOG" in os.environ else logging.CRITICAL)


@contextmanager
def quiet() -> Iterator[None]:
    """Silent for a while."""
    logger = logging.getLogger("penstock")
    before = logger.level
    silence()
    try:
        yield
    finally:
        logger.setLevel(before)
