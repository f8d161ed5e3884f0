"""Three brokers, replication factor 3: throughput, latency at a fixed rate, failures, start and memory.

Both clusters wait for two of three replicas (`min.insync.replicas=2`), with equal session timeouts. A leader that is
killed is not the controller, so that both lose a broker and no election of a controller counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.bench.clusters import BROKERS, BenchCluster, prepared_cluster
from penstock.bench.figures import percentile
from penstock.bench.load import Load, LoadResult
from penstock.bench.measurement import MeasurementError, Workbench
from penstock.bench.metric import AT_MOST_A_FIFTH, AT_MOST_HALF, AT_MOST_LEVEL, Metric, Readings, Target, Unit
from penstock.bench.pauses import longest_pause_s
from penstock.bench.peers import Contestant
from penstock.bench.process_usage import memory
from penstock.bench.sizes import Sizes
from penstock.bench.topics import create_topic
from penstock.core.errors import PenstockError
from penstock.wire.client import ClusterMetadata, WireClient

_FASTER: Final = Target(ratio_at_least=1.2)
_SHORT_PAUSE: Final = Target(ratio_at_most=1.0, value_below=200.0)
_PARTITIONS: Final = 6
_COUNT_SHARE: Final = 0.25  # of the records of the measurement of throughput: each is written three times
_DISK_OVERHEAD: Final = 1.25
_IDEMPOTENT: Final[dict[str, str | int | bool]] = {"acks": "all", "enable.idempotence": True}


@dataclass(frozen=True, slots=True)
class Replication:
    sizes: Sizes
    name: str = "replication"
    title: str = "Three brokers, replication factor 3, acks=all"

    @property
    def metrics(self) -> Sequence[Metric]:
        rate = self.sizes.replication_records_per_second
        timeout_s = self.sizes.replication_session_timeout_ms / 1000
        return [
            *(metric for size in self._record_sizes for metric in _metrics_of_load(size)),
            Metric("replication.paced.p50", f"produce {rate:,} messages/s, p50", Unit.MILLISECONDS),
            Metric("replication.paced.p99", f"produce {rate:,} messages/s, p99", Unit.MILLISECONDS, AT_MOST_LEVEL),
            Metric(
                "replication.killed",
                f"leader killed with -9, session timeout {timeout_s:g} s: pause of a producer",
                Unit.SECONDS,
                AT_MOST_LEVEL,
            ),
            Metric("replication.stopped", "controlled shutdown: pause of a producer", Unit.MILLISECONDS, _SHORT_PAUSE),
            Metric("replication.ready", "three brokers ready, from nothing", Unit.SECONDS, AT_MOST_A_FIFTH),
            Metric("replication.memory", "resident memory of all processes, idle", Unit.BYTES, AT_MOST_A_FIFTH),
        ]

    @property
    def disk_bytes(self) -> int:
        produced = sum(size * self._count(size) for size in self._record_sizes)
        return int(produced * (1 + self.sizes.warm_up_share) * BROKERS * _DISK_OVERHEAD)

    @property
    def _record_sizes(self) -> tuple[int, int]:
        return self.sizes.small_record_bytes, self.sizes.large_record_bytes

    def _count(self, record_bytes: int) -> int:
        return int(self.sizes.record_count(record_bytes) * _COUNT_SHARE)

    def run(self, contestant: Contestant, workbench: Workbench) -> Readings:
        timeout = {"broker.session.timeout.ms": str(self.sizes.replication_session_timeout_ms)}
        with prepared_cluster(contestant, workbench.data_parent, timeout) as cluster:
            workbench.tell("start of three brokers")
            readings = self._start(cluster)
            for record_bytes in self._record_sizes:
                workbench.tell(f"produce {record_bytes} B")
                self._load(cluster, f"warm-up-{record_bytes}", record_bytes, self.sizes.warm_up_share)
                result = self._load(cluster, f"load-{record_bytes}", record_bytes, 1.0)
                readings[f"replication.{record_bytes}.rate"] = result.records_per_second
                readings[f"replication.{record_bytes}.cpu"] = result.broker_cpu_s_per_gb
            workbench.tell(f"{self.sizes.replication_records_per_second:,} messages/s")
            latencies_ms = self._paced(cluster)
            readings["replication.paced.p50"] = percentile(latencies_ms, 0.50)
            readings["replication.paced.p99"] = percentile(latencies_ms, 0.99)
            self._create(cluster, "pauses", _PARTITIONS)
            workbench.tell("controlled shutdown of a leader")
            readings["replication.stopped"] = 1000 * self._pause(cluster, "stop")
            workbench.tell("kill -9 of a leader")
            readings["replication.killed"] = self._pause(cluster, "kill")
        return readings

    def _start(self, cluster: BenchCluster) -> dict[str, float]:
        began_s = time.perf_counter()
        cluster.start()
        _await_metadata(cluster, lambda seen: len(seen.brokers) == BROKERS, self.sizes.time_limit_s)
        ready_s = time.perf_counter() - began_s
        time.sleep(self.sizes.settle_s)
        resident = sum(memory(pid).resident_bytes for pid in cluster.pids)
        return {"replication.ready": ready_s, "replication.memory": resident}

    def _create(self, cluster: BenchCluster, topic: str, partitions: int = 1) -> None:
        create_topic(cluster.bootstrap_servers, topic, self.sizes.time_limit_s, partitions, replication_factor=BROKERS)

    def _load(self, cluster: BenchCluster, topic: str, record_bytes: int, share: float) -> LoadResult:
        self._create(cluster, topic)
        first, *others = cluster.pids
        return Load(
            kind="produce",
            bootstrap_servers=cluster.bootstrap_servers,
            broker_pid=first,
            other_pids=others,
            topic=topic,
            record_bytes=record_bytes,
            record_count=int(self._count(record_bytes) * share),
            time_limit_s=self.sizes.time_limit_s,
            client_config=_IDEMPOTENT,
        ).run()

    def _paced(self, cluster: BenchCluster) -> list[float]:
        self._create(cluster, "paced")
        first, *others = cluster.pids
        return (
            Load(
                kind="paced",
                bootstrap_servers=cluster.bootstrap_servers,
                broker_pid=first,
                other_pids=others,
                topic="paced",
                record_bytes=self.sizes.small_record_bytes,
                record_count=0,
                records_per_second=self.sizes.replication_records_per_second,
                warm_up_s=self.sizes.replication_paced_warm_up_s,
                measured_s=self.sizes.replication_paced_s,
                time_limit_s=self.sizes.time_limit_s,
                client_config={**_IDEMPOTENT, "linger.ms": 1},
            )
            .run()
            .latencies_ms
        )

    def _pause(self, cluster: BenchCluster, what: str) -> float:
        """Of the leader of a partition that is not the controller; afterwards all replicas are in sync again."""
        limit_s = self.sizes.time_limit_s
        controller = cluster.controller()
        partitions = _await_metadata(cluster, _all_in_sync, limit_s).topics["pauses"].partitions
        partition, leader = next(
            (number, each.leader_id) for number, each in sorted(partitions.items()) if each.leader_id != controller
        )
        end = cluster.kill if what == "kill" else cluster.stop
        pause_s = longest_pause_s(cluster.bootstrap_servers, "pauses", partition, lambda: end(leader), limit_s)
        cluster.restart(leader)
        _await_metadata(cluster, _all_in_sync, limit_s)
        return pause_s


def _metrics_of_load(record_bytes: int) -> list[Metric]:
    return [
        Metric(
            f"replication.{record_bytes}.rate",
            f"produce {record_bytes} B, idempotent",
            Unit.MESSAGES_PER_SECOND,
            _FASTER,
        ),
        Metric(f"replication.{record_bytes}.cpu", "· CPU of the cluster", Unit.CPU_SECONDS_PER_GB, AT_MOST_HALF),
    ]


def _all_in_sync(seen: ClusterMetadata) -> bool:
    return "pauses" in seen.topics and all(
        len(each.in_sync_replicas) == BROKERS and each.leader_id >= 0
        for each in seen.topics["pauses"].partitions.values()
    )


def _await_metadata(
    cluster: BenchCluster, condition: Callable[[ClusterMetadata], bool], time_limit_s: float
) -> ClusterMetadata:
    deadline_s = time.monotonic() + time_limit_s
    while time.monotonic() < deadline_s:
        try:
            with WireClient({"bootstrap.servers": cluster.bootstrap_servers}) as client:
                seen = client.metadata(timeout_s=2.0)
        except PenstockError:
            continue
        if condition(seen):
            return seen
        time.sleep(0.01)
    raise MeasurementError(f"the cluster was not ready within {time_limit_s:g} s")
