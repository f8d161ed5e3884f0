"""Messages per second into and out of one partition, and the broker's CPU time.

The client needs at least as much CPU as the broker and shares the machine's cores with it. Messages per second are
therefore what a user of this machine gets; CPU seconds per GB are the cost of the broker, independent of the
bottleneck. The number of busy cores of each side is reported too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.bench.load import Kind, Load, LoadResult
from penstock.bench.measurement import Workbench
from penstock.bench.metric import AT_LEAST_LEVEL, AT_MOST_HALF, Metric, Readings, Unit
from penstock.bench.peers import Contestant, Peer
from penstock.bench.sizes import Sizes
from penstock.bench.topics import create_topic

_LEADER_ACKS: dict[str, str | int | bool] = {"acks": "1"}
_IDEMPOTENT: dict[str, str | int | bool] = {"acks": "all", "enable.idempotence": True}
# By default librdkafka waits a second before it fetches again when its queue is full, and the figure would be that
# wait.
_QUICK_READER: dict[str, str | int | bool] = {"fetch.queue.backoff.ms": 10}
# Records have an overhead of a few bytes, and logs have indexes.
_DISK_OVERHEAD = 1.25


@dataclass(frozen=True, slots=True)
class _Case:
    """One load and its four rows. A consume case reads the topic that a produce case has filled."""

    key: str
    title: str
    kind: Kind
    topic: str
    record_bytes: int
    client_config: dict[str, str | int | bool]

    @property
    def metrics(self) -> list[Metric]:
        return [
            Metric(f"{self.key}.rate", self.title, Unit.MESSAGES_PER_SECOND, AT_LEAST_LEVEL),
            Metric(f"{self.key}.broker_cpu", "· broker CPU", Unit.CPU_SECONDS_PER_GB, AT_MOST_HALF),
            Metric(f"{self.key}.broker_cores", "· cores busy in the broker", Unit.CORES),
            Metric(f"{self.key}.client_cores", "· cores busy in the client", Unit.CORES),
        ]

    def readings(self, result: LoadResult) -> dict[str, float]:
        return {
            f"{self.key}.rate": result.records_per_second,
            f"{self.key}.broker_cpu": result.broker_cpu_s_per_gb,
            f"{self.key}.broker_cores": result.broker_cpu_s / result.seconds,
            f"{self.key}.client_cores": result.client_cpu_s / result.seconds,
        }


@dataclass(frozen=True, slots=True)
class Throughput:
    sizes: Sizes
    name: str = "throughput"
    title: str = "Throughput, one partition, one client"

    @property
    def metrics(self) -> Sequence[Metric]:
        return [metric for case in self._cases for metric in case.metrics]

    @property
    def disk_bytes(self) -> int:
        produced = sum(
            case.record_bytes * self.sizes.record_count(case.record_bytes)
            for case in self._cases
            if case.kind == "produce"
        )
        return int(produced * (1 + self.sizes.warm_up_share) * _DISK_OVERHEAD)

    def run(self, contestant: Contestant, workbench: Workbench) -> Readings:
        readings: dict[str, float] = {}
        with contestant.fresh(workbench.data_parent) as peer:
            for share, prefix in ((self.sizes.warm_up_share, "warm-up-"), (1.0, "")):
                for case in self._cases:
                    workbench.tell(f"{prefix}{case.title}")
                    topic = f"{prefix}{case.topic}"
                    if case.kind == "produce":
                        create_topic(peer.bootstrap_servers, topic, self.sizes.time_limit_s)
                    result = self._load(case, peer, topic, share).run()
                    if not prefix:
                        readings |= case.readings(result)
        return readings

    def _load(self, case: _Case, peer: Peer, topic: str, share: float) -> Load:
        return Load(
            kind=case.kind,
            bootstrap_servers=peer.bootstrap_servers,
            broker_pid=peer.pid,
            topic=topic,
            record_bytes=case.record_bytes,
            record_count=int(self.sizes.record_count(case.record_bytes) * share),
            time_limit_s=self.sizes.time_limit_s,
            client_config=case.client_config,
        )

    @property
    def _cases(self) -> list[_Case]:
        cases: list[_Case] = []
        for record_bytes in (self.sizes.small_record_bytes, self.sizes.large_record_bytes):
            label = f"{record_bytes} B" if record_bytes < 1000 else f"{record_bytes // 1000} KB"
            leader, idempotent = f"acks1-{record_bytes}", f"idempotent-{record_bytes}"
            cases += [
                _Case(
                    f"produce.{record_bytes}.acks1",
                    f"produce {label}, acks=1",
                    "produce",
                    leader,
                    record_bytes,
                    _LEADER_ACKS,
                ),
                _Case(
                    f"produce.{record_bytes}.idempotent",
                    f"produce {label}, acks=all, idempotent",
                    "produce",
                    idempotent,
                    record_bytes,
                    _IDEMPOTENT,
                ),
                _Case(f"consume.{record_bytes}", f"consume {label}", "consume", leader, record_bytes, _QUICK_READER),
            ]
        return cases
