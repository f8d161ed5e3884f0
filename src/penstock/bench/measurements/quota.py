"""A producer that could send ten times its quota: what it gets, and what its neighbour notices."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from penstock.bench.figures import percentile
from penstock.bench.load import Load, LoadResult
from penstock.bench.measurement import MeasurementError, Workbench
from penstock.bench.measurements.one_at_a_time import produce_one_at_a_time
from penstock.bench.metric import Metric, Readings, Target, Unit
from penstock.bench.peers import Contestant, Peer
from penstock.bench.sizes import Sizes
from penstock.bench.topics import create_topic
from penstock.core.quotas import QuotaEntity
from penstock.wire.client import WireClient

_GREEDY: Final = "greedy"
_NEIGHBOUR: Final = "neighbour"
# Bytes of a record beside its value: its header in the batch, and its share of batch and request.
_RECORD_OVERHEAD_BYTES: Final = 9
_WITHIN_5_PERCENT: Final = Target(value_at_most=0.05)
_UNMOVED: Final = Target(value_at_most=1.2)


@dataclass(frozen=True, slots=True)
class Quota:
    sizes: Sizes
    name: str = "quota"
    title: str = "A producer over its quota"

    @property
    def metrics(self) -> Sequence[Metric]:
        quota = f"{self.sizes.quota_bytes_per_second / 1e6:g} MB/s"
        return [
            Metric("quota.rate", f"a producer with a quota of {quota}", Unit.BYTES_PER_SECOND),
            Metric("quota.deviation", "· share by which it misses the quota", Unit.TIMES, _WITHIN_5_PERCENT),
            Metric("quota.idle_p99", "produce one at a time, p99, alone", Unit.MILLISECONDS),
            Metric("quota.busy_p99", "· beside that producer", Unit.MILLISECONDS),
            Metric("quota.slowdown", "· beside it against alone", Unit.TIMES, _UNMOVED),
        ]

    @property
    def disk_bytes(self) -> int:
        return int(self.sizes.quota_bytes_per_second * self.sizes.quota_s * 3) + 20_000_000

    def run(self, contestant: Contestant, workbench: Workbench) -> Readings:
        with contestant.fresh(workbench.data_parent) as peer:
            for topic in (_GREEDY, _NEIGHBOUR):
                create_topic(peer.bootstrap_servers, topic, self.sizes.time_limit_s)
            with WireClient({"bootstrap.servers": peer.bootstrap_servers}) as client:
                limit = {"producer_byte_rate": float(self.sizes.quota_bytes_per_second)}
                client.alter_client_quotas(QuotaEntity(client_id=_GREEDY), limit)
            workbench.tell("producing one at a time, alone")
            idle_ms = self._neighbour(peer, warm_up_count=self.sizes.one_at_a_time_warm_up_count)
            workbench.tell("producing one at a time, beside a producer over its quota")
            greedy = _Greedy(self._greedy_load(peer))
            greedy.start()
            busy_ms: list[float] = []
            while greedy.is_alive():
                busy_ms += self._neighbour(peer)
            result = greedy.result()
        sent_bytes = result.record_count * (result.record_bytes + _RECORD_OVERHEAD_BYTES)
        rate = sent_bytes / result.seconds
        idle_p99, busy_p99 = percentile(idle_ms, 0.99), percentile(busy_ms, 0.99)
        return {
            "quota.rate": rate,
            "quota.deviation": abs(rate / self.sizes.quota_bytes_per_second - 1),
            "quota.idle_p99": idle_p99,
            "quota.busy_p99": busy_p99,
            "quota.slowdown": busy_p99 / idle_p99,
        }

    def _greedy_load(self, peer: Peer) -> Load:
        sizes = self.sizes
        return Load(
            kind="sustained",
            bootstrap_servers=peer.bootstrap_servers,
            broker_pid=peer.pid,
            topic=_GREEDY,
            record_bytes=sizes.large_record_bytes,
            record_count=0,
            # Both brokers take the rate over the last ten seconds: a new client may send ten seconds' worth at once.
            warm_up_s=sizes.quota_warm_up_s,
            measured_s=sizes.quota_s,
            time_limit_s=sizes.time_limit_s,
            # In small batches: of those of a megabyte, one more or less would be a twentieth of the quota.
            client_config={"acks": "1", "client.id": _GREEDY, "batch.size": 32_768},
        )

    def _neighbour(self, peer: Peer, warm_up_count: int = 0) -> list[float]:
        return produce_one_at_a_time(peer, _NEIGHBOUR, self.sizes, warm_up_count=warm_up_count, client_id=_NEIGHBOUR)


class _Greedy(threading.Thread):
    """Runs a load in its own process until its records are acknowledged."""

    def __init__(self, load: Load) -> None:
        super().__init__(name="bench-greedy")
        self._load = load
        self._result: LoadResult | None = None
        self._failure: MeasurementError | None = None

    def run(self) -> None:
        try:
            self._result = self._load.run()
        except MeasurementError as failure:
            self._failure = failure

    def result(self) -> LoadResult:
        self.join()
        if self._result is None:
            raise self._failure or MeasurementError("the producer over its quota ended without a result")
        return self._result
