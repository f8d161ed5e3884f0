"""The longest pause of a producer while something happens to the leader of its partition.

The producer is librdkafka with `acks=all` and idempotence; it sends a record every few milliseconds and notes when
acknowledgements arrive. It must not know what happens.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Final

from confluent_kafka import KafkaError, Message, Producer

from penstock.bench.measurement import MeasurementError

_INTERVAL_S: Final = 0.005
_BEFORE_S: Final = 2.0
_AFTER_S: Final = 2.0
_SETTINGS: Final[dict[str, str | int | bool]] = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 0,
    "log_level": 0,
    # Pauses of the client itself would hide those of the cluster.
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 50,
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 50,
    "topic.metadata.refresh.fast.interval.ms": 50,
}


def longest_pause_s(
    bootstrap_servers: str, topic: str, partition: int, happening: Callable[[], None], time_limit_s: float
) -> float:
    """The longest time between two acknowledgements from the beginning of `happening` on. The producer goes on until it
    has been acknowledged for a while after its end."""
    acknowledged_s: list[float] = []
    errors: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            errors.append(error)
        acknowledged_s.append(time.perf_counter())

    producer = Producer({**_SETTINGS, "bootstrap.servers": bootstrap_servers})
    began_s = time.perf_counter()
    started_s = 0.0
    thread = threading.Thread(target=happening, name="happening")
    ended_s: float | None = None
    while True:
        now_s = time.perf_counter()
        if not started_s and now_s - began_s > _BEFORE_S and acknowledged_s:
            started_s = now_s
            thread.start()
        if started_s and ended_s is None and not thread.is_alive():
            ended_s = now_s
        if ended_s is not None and acknowledged_s[-1] > ended_s + _AFTER_S:
            break
        if now_s - began_s > time_limit_s:
            raise MeasurementError(f"the producer was not acknowledged within {time_limit_s:g} s")
        producer.produce(topic, b"value", partition=partition, on_delivery=on_delivery)
        producer.poll(_INTERVAL_S)
    thread.join()
    if producer.flush(time_limit_s) or errors:
        raise MeasurementError(f"records were not delivered: {errors[0].str() if errors else 'no acknowledgement'}")
    moments = [started_s, *(each for each in acknowledged_s if each > started_s)]
    return max(after - before for before, after in pairwise(moments))
