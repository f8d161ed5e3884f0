"""The cost of reading one record at a random place, as the log grows.

The minimal client fills the log with batches of 64 KB (large enough to fill 10 GB in reasonable time, small enough
that copying one does not hide the search for it) and reads with single Fetch requests, each of which returns one batch.
A flat curve means that a read of the largest log is about as fast as of the smallest. The same broker process reads
both, from the page cache if memory allows.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.bench.figures import percentile
from penstock.bench.measurement import MeasurementError, Workbench
from penstock.bench.metric import Metric, Readings, Target, Unit
from penstock.bench.peers import Contestant
from penstock.bench.raw_client import RawClient
from penstock.bench.raw_frames import record_batch
from penstock.bench.sizes import GB, Sizes
from penstock.bench.topics import create_topic

_TOPIC = "growing-log"
_RECORDS_PER_BATCH = 64
_RECORD_BYTES = 1_000
_FLAT = Target(value_at_most=1.5)


@dataclass(frozen=True, slots=True)
class LogGrowth:
    sizes: Sizes
    name: str = "growth"
    title: str = "Reading one record as the log grows"

    @property
    def metrics(self) -> Sequence[Metric]:
        smallest, largest = self.sizes.log_bytes[0], self.sizes.log_bytes[-1]
        rows: list[Metric] = []
        for log_bytes in self.sizes.log_bytes:
            rows += [
                Metric(_key(log_bytes, "p50"), f"{log_bytes / GB:g} GB, p50", Unit.MILLISECONDS),
                Metric(_key(log_bytes, "p99"), f"{log_bytes / GB:g} GB, p99", Unit.MILLISECONDS),
            ]
        if largest > smallest:
            title = f"{largest / GB:g} GB against {smallest / GB:g} GB, p50"
            rows.append(Metric("growth.factor", title, Unit.TIMES, _FLAT))
        rows.append(Metric("growth.fill_rate", "filling the log, 64 KB batches", Unit.BYTES_PER_SECOND))
        return rows

    @property
    def disk_bytes(self) -> int:
        return int(self.sizes.log_bytes[-1] * 1.05)

    def run(self, contestant: Contestant, workbench: Workbench) -> Readings:
        sizes = self.sizes
        batch = record_batch(_RECORDS_PER_BATCH, os.urandom(_RECORD_BYTES), int(time.time() * 1000))
        readings: dict[str, float] = {}
        filled_bytes, filling_s = 0, 0.0
        with contestant.fresh(workbench.data_parent) as peer:
            create_topic(peer.bootstrap_servers, _TOPIC, sizes.time_limit_s)
            with RawClient(peer.bootstrap_servers, _TOPIC, sizes.time_limit_s) as client:
                for log_bytes in sizes.log_bytes:
                    workbench.tell(f"filling the log to {log_bytes / GB:g} GB")
                    started_s = time.perf_counter()
                    batch_count = (log_bytes - filled_bytes) // len(batch)
                    end_offset = client.fill(batch, batch_count, sizes.time_limit_s) + _RECORDS_PER_BATCH
                    filling_s += time.perf_counter() - started_s
                    filled_bytes = end_offset // _RECORDS_PER_BATCH * len(batch)
                    workbench.tell(f"reading at random from {log_bytes / GB:g} GB")
                    latencies_ms = self._read_at_random(client, end_offset)
                    readings[_key(log_bytes, "p50")] = percentile(latencies_ms, 0.50)
                    readings[_key(log_bytes, "p99")] = percentile(latencies_ms, 0.99)
        if len(sizes.log_bytes) > 1:
            first, last = sizes.log_bytes[0], sizes.log_bytes[-1]
            readings["growth.factor"] = readings[_key(last, "p50")] / readings[_key(first, "p50")]
        readings["growth.fill_rate"] = filled_bytes / filling_s
        return readings

    def _read_at_random(self, client: RawClient, end_offset: int) -> list[float]:
        # The same seed for both brokers and every round, so that the offsets are the same.
        chance = random.Random(end_offset)  # noqa: S311 - offsets to read, no secrets
        deadline_s = time.monotonic() + self.sizes.time_limit_s
        latencies_ms: list[float] = []
        for _ in range(self.sizes.random_read_warm_up_count + self.sizes.random_read_count):
            latencies_ms.append(client.fetch_one(chance.randrange(end_offset)))
            if time.monotonic() > deadline_s:
                raise MeasurementError(f"only {len(latencies_ms):,} reads after {self.sizes.time_limit_s:g} s")
        return latencies_ms[self.sizes.random_read_warm_up_count :]


def _key(log_bytes: int, what: str) -> str:
    return f"growth.{log_bytes}.{what}"
