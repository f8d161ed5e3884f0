"""Measures the latency of a copying query: a producer before it and a consumer after it.

Owns the rows: each carries its send time. It must not know which query it measures.
"""

from __future__ import annotations

import random
import struct
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from confluent_kafka import KafkaError, Producer

from penstock.bench.measurement import MeasurementError
from penstock.bench.spark.process import SparkProcess
from penstock.bench.spark.topics import reader

_SENT_NS: Final = struct.Struct(">q")
_SLICE_S: Final = 0.01
# The average pause between a row's arrival and the next row, after which the query is idle again.
_PAUSE_S: Final = 0.2


class Probe:
    """A context manager with the producer and the consumer of a query that runs in `spark`."""

    def __init__(
        self,
        spark: SparkProcess,
        bootstrap_servers: str,
        source_topic: str,
        sink_topic: str,
        *,
        partitions: int,
        row_bytes: int,
        time_limit_s: float,
    ) -> None:
        self._spark = spark
        self._source_topic = source_topic
        self._partitions = partitions
        self._padding = bytes(row_bytes - _SENT_NS.size)
        self._time_limit_s = time_limit_s
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 0})
        self._reader = reader(bootstrap_servers, sink_topic, partitions)
        # The same pauses for both engines and in every round.
        self._chance = random.Random(partitions)  # noqa: S311 - pauses, no secrets

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._producer.purge()
        self._producer.flush()
        self._reader.close()
        # librdkafka would log on stderr that the broker stopped first.
        del self._producer

    def one_row(self) -> float:
        """Sends one row to an idle query; returns the milliseconds until the consumer has it."""
        time.sleep(self._chance.uniform(0.5, 1.5) * _PAUSE_S)
        self._send(1)
        self._producer.flush()
        (latency_ms,) = self._receive(1)
        return latency_ms

    def steady(self, rows_per_second: int, duration_s: float) -> list[float]:
        """Sends at this rate for this long; returns the milliseconds of every row, in the order of arrival."""
        sender = _Sender(self._send, round(rows_per_second * _SLICE_S), duration_s)
        sender.start()
        try:
            latencies_ms = self._receive(sender.row_count)
        finally:
            sender.stop()
        return latencies_ms

    def _send(self, rows: int) -> None:
        for number in range(rows):
            value = _SENT_NS.pack(time.time_ns()) + self._padding
            self._producer.produce(self._source_topic, value, partition=number % self._partitions)
        self._producer.poll(0)

    def _receive(self, rows: int) -> list[float]:
        deadline_s = time.monotonic() + self._time_limit_s
        latencies_ms: list[float] = []
        while len(latencies_ms) < rows:
            messages = self._reader.consume(1 if rows == 1 else 1000, timeout=_SLICE_S)
            now_ns = time.time_ns()
            for message in messages:
                error = message.error()
                if error is None:
                    sent_ns = _SENT_NS.unpack_from(message.value() or b"")[0]
                    latencies_ms.append((now_ns - sent_ns) / 1e6)
                elif error.code() != KafkaError._PARTITION_EOF:
                    raise MeasurementError(f"the copied rows could not be read: {error}")
            if time.monotonic() > deadline_s:
                raise MeasurementError(f"{len(latencies_ms)} of {rows} rows came in {self._time_limit_s:g} s")
            if not messages:
                self._spark.check_alive()
        return latencies_ms


class _Sender(threading.Thread):
    """The same number of rows in every time slice; a missed slice is sent later."""

    def __init__(self, send: Callable[[int], None], rows_per_slice: int, duration_s: float) -> None:
        super().__init__(name="bench-sender", daemon=True)
        self._send = send
        self._rows_per_slice = rows_per_slice
        self._slices = round(duration_s / _SLICE_S)
        self._stopped = threading.Event()

    @property
    def row_count(self) -> int:
        return self._slices * self._rows_per_slice

    def run(self) -> None:
        started_s = time.monotonic()
        for number in range(self._slices):
            self._stopped.wait(max(0.0, started_s + number * _SLICE_S - time.monotonic()))
            if self._stopped.is_set():
                return
            self._send(self._rows_per_slice)

    def stop(self) -> None:
        self._stopped.set()
        self.join()
