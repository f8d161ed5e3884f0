"""The time from the creation of the broker's process to its first acknowledged record, for two clients.

Both brokers start three times. The first start is not timed: it initialises the data directory (Apache Kafka formats
its storage with a separate program, which is not part of a usual start), creates a topic, and fixes the port. The
second is timed with the minimal client, which waits for the broker and writes to a topic that this creates. The third
is timed with librdkafka, started when the broker reports that it is ready, and writing to the topic of the first start,
so that none of librdkafka's own waits is measured.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaError, Message, Producer

from penstock.bench.first_ack import since_process_start, start_to_first_ack
from penstock.bench.measurement import MeasurementError, Workbench
from penstock.bench.metric import Metric, Readings, Target, Unit
from penstock.bench.peers import Contestant, Peer
from penstock.bench.sizes import Sizes
from penstock.bench.topics import create_topic

_EXISTING_TOPIC = "existing"


@dataclass(frozen=True, slots=True)
class FirstRecord:
    sizes: Sizes
    name: str = "start"
    title: str = "Process start to first acked record"

    @property
    def metrics(self) -> Sequence[Metric]:
        target = Target(ratio_at_most=0.2, value_below=0.4)
        return [
            Metric("start.waiting_client", "a client that waits, new topic", Unit.SECONDS, target),
            Metric("start.librdkafka", "librdkafka when ready, existing topic", Unit.SECONDS, target),
        ]

    @property
    def disk_bytes(self) -> int:
        return 100_000_000

    def run(self, contestant: Contestant, workbench: Workbench) -> Readings:
        limit_s = self.sizes.time_limit_s
        with contestant.fresh(workbench.data_parent) as peer:
            create_topic(peer.bootstrap_servers, _EXISTING_TOPIC, limit_s)
            peer.stop()
            workbench.tell("starting while a client waits")
            waiting_client_s = start_to_first_ack(peer, "created-by-its-first-record", time_limit_s=limit_s)
            peer.stop()
            workbench.tell("starting, then a librdkafka client")
            librdkafka_s = _start_then_librdkafka(peer, limit_s)
        return {"start.waiting_client": waiting_client_s, "start.librdkafka": librdkafka_s}


def _start_then_librdkafka(peer: Peer, time_limit_s: float) -> float:
    errors: list[KafkaError | None] = []

    def on_delivery(error: KafkaError | None, _message: Message) -> None:
        errors.append(error)

    peer.start()
    producer = Producer({"bootstrap.servers": peer.bootstrap_servers, "acks": 1, "linger.ms": 0})
    producer.produce(_EXISTING_TOPIC, b"first", on_delivery=on_delivery)
    producer.flush(time_limit_s)
    acknowledged_s = time.perf_counter()
    if errors != [None]:
        raise MeasurementError(f"the first record was not acknowledged: {errors or 'no answer'}")
    return since_process_start(peer.pid, acknowledged_s)
