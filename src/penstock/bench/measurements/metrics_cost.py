"""What serving metrics costs a broker that answers as many requests as it can.

Two brokers of ours run side by side, one of them with `--metrics` and scraped every second. A minimal client sends
pipelined produce requests of one small record, the worst case for a cost that arises with each request, to one and to
the other in short turns: what disturbs the machine for longer than a turn disturbs both. Apache Kafka has no
counterpart, because it always keeps its metrics.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from penstock.bench.measurement import MeasurementError, Workbench
from penstock.bench.metric import Metric, Readings, Target, Unit
from penstock.bench.peers import PENSTOCK, Contestant
from penstock.bench.process_usage import cpu_seconds
from penstock.bench.raw_client import RawClient
from penstock.bench.raw_frames import record_batch
from penstock.bench.sizes import Sizes
from penstock.bench.topics import create_topic
from penstock.client.local_broker.process import BrokerProcess, WithParent
from penstock.monitoring.http_client import fetch

_TOPIC: Final = "metered"
_SCRAPE_INTERVAL_S: Final = 1.0
_BYTES_PER_REQUEST: Final = 250  # on disk, with the batch's header
_AT_MOST_2_PERCENT: Final = Target(value_at_most=1.02)


class _Turn(NamedTuple):
    requests_per_second: float
    cpu_s: float


@dataclass(frozen=True, slots=True)
class MetricsCost:
    sizes: Sizes
    name: str = "metrics"
    title: str = "Serving metrics"

    @property
    def metrics(self) -> Sequence[Metric]:
        return [
            Metric("metrics.off", "produce requests of 100 B, without", Unit.MESSAGES_PER_SECOND, ours_alone=True),
            Metric("metrics.on", "· with --metrics, scraped", Unit.MESSAGES_PER_SECOND, ours_alone=True),
            Metric("metrics.slowdown", "· without against with", Unit.TIMES, _AT_MOST_2_PERCENT, ours_alone=True),
            Metric("metrics.cpu", "· broker CPU with against without", Unit.TIMES, ours_alone=True),
        ]

    @property
    def disk_bytes(self) -> int:
        return 2 * self.sizes.metrics_turns * self.sizes.metrics_turn_requests * _BYTES_PER_REQUEST

    def run(self, contestant: Contestant, workbench: Workbench) -> Readings:
        if contestant.name != PENSTOCK:
            return {}
        workbench.tell("producing in turns with and without metrics")
        batch = record_batch(1, bytes(self.sizes.small_record_bytes), int(time.time() * 1000))
        with _broker(workbench, None) as plain, _broker(workbench, "127.0.0.1:0") as metered, _scraped(metered):
            turns: dict[int, list[_Turn]] = {plain.pid: [], metered.pid: []}
            for each in (plain, metered):
                create_topic(each.bootstrap_servers, _TOPIC, self.sizes.time_limit_s)
            for number in range(-2, self.sizes.metrics_turns):
                # Who comes first changes from turn to turn.
                for each in (plain, metered) if number % 2 else (metered, plain):
                    turn = self._produce(each, batch)
                    if number >= 0:  # the others warm up
                        turns[each.pid].append(turn)
        pairs = list(zip(turns[plain.pid], turns[metered.pid], strict=True))
        return {
            "metrics.off": statistics.median(off.requests_per_second for off, _ in pairs),
            "metrics.on": statistics.median(on.requests_per_second for _, on in pairs),
            "metrics.slowdown": statistics.median(
                off.requests_per_second / on.requests_per_second for off, on in pairs
            ),
            "metrics.cpu": sum(on.cpu_s for _, on in pairs) / max(0.01, sum(off.cpu_s for off, _ in pairs)),
        }

    def _produce(self, broker: BrokerProcess, batch: bytes) -> _Turn:
        count = self.sizes.metrics_turn_requests
        with RawClient(broker.bootstrap_servers, _TOPIC, self.sizes.time_limit_s) as client:
            cpu_s, begun_s = cpu_seconds(broker.pid), time.perf_counter()
            client.fill(batch, count, self.sizes.time_limit_s)
            return _Turn(count / (time.perf_counter() - begun_s), cpu_seconds(broker.pid) - cpu_s)


@contextlib.contextmanager
def _broker(workbench: Workbench, metrics: str | None) -> Iterator[BrokerProcess]:
    with tempfile.TemporaryDirectory(prefix="metrics-", dir=workbench.data_parent) as data_dir:
        broker = BrokerProcess.start(Path(data_dir), lifetime=WithParent(), metrics=metrics)
        try:
            yield broker
        finally:
            broker.kill()


@contextlib.contextmanager
def _scraped(broker: BrokerProcess) -> Iterator[None]:
    """Raises if the broker did not serve its metrics."""
    assert broker.metrics is not None
    address = broker.metrics
    ended = threading.Event()
    sizes: list[int] = []

    def scrape() -> None:
        while True:
            sizes.append(len(asyncio.run(fetch(address))))
            if ended.wait(_SCRAPE_INTERVAL_S):
                return

    thread = threading.Thread(target=scrape, name="bench-scraper", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    if not sizes or not all(sizes):
        raise MeasurementError("the broker did not serve its metrics")
