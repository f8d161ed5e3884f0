"""Messages per second into and out of one partition, and the broker's CPU time; without and with TLS.

The client needs at least as much CPU as the broker and shares the machine's cores with it. Messages per second are
therefore what a user of this machine gets; CPU seconds per GB are the cost of the broker, independent of the
bottleneck. The number of busy cores of each side is reported too, and the client's CPU time per message: where the
client limits the rate, it says why two rates are equal, or differ.

The logs that are consumed hold batches of the same sizes on both brokers, whatever batches a producer happened to make.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.bench.certificates import Certificates
from penstock.bench.load import Kind, Load, LoadResult
from penstock.bench.measurement import Workbench
from penstock.bench.metric import AT_LEAST_LEVEL, AT_MOST_HALF, Metric, Readings, Target, Unit
from penstock.bench.peers import Contestant, Peer
from penstock.bench.raw_client import RawClient
from penstock.bench.raw_frames import record_batch
from penstock.bench.sizes import Sizes
from penstock.bench.topics import create_topic
from penstock.testing.apache_kafka import free_ports

_LEADER_ACKS: dict[str, str | int | bool] = {"acks": "1"}
_IDEMPOTENT: dict[str, str | int | bool] = {"acks": "all", "enable.idempotence": True}
# By default librdkafka waits a second before it fetches again when its queue is full, and the figure would be that
# wait.
_QUICK_READER: dict[str, str | int | bool] = {"fetch.queue.backoff.ms": 10}
# Encryption costs both brokers the same.
_TLS_CPU = Target(ratio_at_most=0.6)
# Records have an overhead of a few bytes, and logs have indexes.
_DISK_OVERHEAD = 1.25
# About as large as librdkafka's largest batches.
_EQUAL_BATCH_BYTES: Final = 900_000


@dataclass(frozen=True, slots=True)
class _Case:
    """One load and its five rows. A consume case reads a topic of its own, which is filled before."""

    key: str
    title: str
    kind: Kind
    topic: str
    record_bytes: int
    client_config: dict[str, str | int | bool]
    cpu_target: Target

    @property
    def metrics(self) -> list[Metric]:
        return [
            Metric(f"{self.key}.rate", self.title, Unit.MESSAGES_PER_SECOND, AT_LEAST_LEVEL),
            Metric(f"{self.key}.broker_cpu", "· broker CPU", Unit.CPU_SECONDS_PER_GB, self.cpu_target),
            Metric(f"{self.key}.broker_cores", "· cores busy in the broker", Unit.CORES),
            Metric(f"{self.key}.client_cores", "· cores busy in the client", Unit.CORES),
            Metric(f"{self.key}.client_cpu", "· client CPU per message", Unit.MICROSECONDS),
        ]

    def readings(self, result: LoadResult) -> dict[str, float]:
        return {
            f"{self.key}.rate": result.records_per_second,
            f"{self.key}.broker_cpu": result.broker_cpu_s_per_gb,
            f"{self.key}.broker_cores": result.broker_cpu_s / result.seconds,
            f"{self.key}.client_cores": result.client_cpu_s / result.seconds,
            f"{self.key}.client_cpu": result.client_cpu_s / result.record_count * 1e6,
        }


@dataclass(frozen=True, slots=True)
class _Listener:
    """Where the load connects, and with which settings."""

    address: str
    client_config: dict[str, str | int | bool]


@dataclass(frozen=True, slots=True)
class Throughput:
    sizes: Sizes
    name: str = "throughput"
    title: str = "Throughput, one partition, one client"
    with_tls: bool = False

    @property
    def metrics(self) -> Sequence[Metric]:
        return [metric for case in self._cases for metric in case.metrics]

    @property
    def disk_bytes(self) -> int:
        produced = sum(case.record_bytes * self._record_count(case, 1.0) for case in self._cases)
        return int(produced * (1 + self.sizes.warm_up_share) * _DISK_OVERHEAD)

    def run(self, contestant: Contestant, workbench: Workbench) -> Readings:
        readings: dict[str, float] = {}
        with self._broker(contestant, workbench) as (peer, listener):
            for share, prefix in ((self.sizes.warm_up_share, "warm-up-"), (1.0, "")):
                for case in self._cases:
                    workbench.tell(f"{prefix}{case.title}")
                    topic = f"{prefix}{case.topic}"
                    create_topic(peer.bootstrap_servers, topic, self.sizes.time_limit_s)
                    if case.kind == "consume":
                        self._fill(peer, topic, case.record_bytes, self._record_count(case, share))
                    result = self._load(case, peer, listener, topic, share).run()
                    if not prefix:
                        readings |= case.readings(result)
        return readings

    @contextmanager
    def _broker(self, contestant: Contestant, workbench: Workbench) -> Iterator[tuple[Peer, _Listener]]:
        if not self.with_tls:
            with contestant.fresh(workbench.data_parent) as peer:
                yield peer, _Listener(peer.bootstrap_servers, {})
            return
        plaintext_port, tls_port = free_ports(2)
        listeners = f"PLAINTEXT://127.0.0.1:{plaintext_port},SSL://127.0.0.1:{tls_port}"
        with tempfile.TemporaryDirectory(dir=workbench.data_parent) as directory:
            certificates = Certificates.make(Path(directory))
            config = {"listeners": listeners, **certificates.broker_config}
            with contestant.fresh(workbench.data_parent, config) as peer:
                yield peer, _Listener(f"127.0.0.1:{tls_port}", certificates.client_config)

    def _load(self, case: _Case, peer: Peer, listener: _Listener, topic: str, share: float) -> Load:
        return Load(
            kind=case.kind,
            bootstrap_servers=listener.address,
            broker_pid=peer.pid,
            topic=topic,
            record_bytes=case.record_bytes,
            record_count=self._record_count(case, share),
            time_limit_s=self.sizes.time_limit_s,
            client_config=case.client_config | listener.client_config,
        )

    def _record_count(self, case: _Case, share: float) -> int:
        return int(self.sizes.record_count(case.record_bytes) * self.sizes.short_turn_share * share)

    def _fill(self, peer: Peer, topic: str, record_bytes: int, record_count: int) -> None:
        """Batches of one size, at least as many as will be read."""
        per_batch = min(record_count, _EQUAL_BATCH_BYTES // record_bytes)
        batch = record_batch(per_batch, os.urandom(record_bytes), int(time.time() * 1000))
        with RawClient(peer.bootstrap_servers, topic, self.sizes.time_limit_s) as client:
            client.fill(batch, -(-record_count // per_batch), self.sizes.time_limit_s)

    @property
    def _cases(self) -> list[_Case]:
        cases: list[_Case] = []
        prefix, cpu_target = ("tls.", _TLS_CPU) if self.with_tls else ("", AT_MOST_HALF)
        for size in (self.sizes.small_record_bytes, self.sizes.large_record_bytes):
            label = f"{size} B" if size < 1000 else f"{size // 1000} KB"
            leader, idempotent = f"acks1-{size}", f"idempotent-{size}"
            rows: list[tuple[str, str, Kind, str, dict[str, str | int | bool]]] = [
                (f"produce.{size}.acks1", f"produce {label}, acks=1", "produce", leader, _LEADER_ACKS),
                (
                    f"produce.{size}.idempotent",
                    f"produce {label}, acks=all, idempotent",
                    "produce",
                    idempotent,
                    _IDEMPOTENT,
                ),
                (f"consume.{size}", f"consume {label}", "consume", f"equal-{size}", _QUICK_READER),
            ]
            cases += [
                _Case(prefix + key, title, kind, topic, size, client_config, cpu_target)
                for key, title, kind, topic, client_config in rows
                if not (self.with_tls and topic == idempotent)  # what is encrypted is the same
            ]
        return cases


def tls_throughput(sizes: Sizes) -> Throughput:
    return Throughput(sizes, "tls", "Throughput over TLS, one partition, one client", with_tls=True)
