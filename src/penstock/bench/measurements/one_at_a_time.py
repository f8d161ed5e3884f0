"""Latency of one record at a time: send, wait for the acknowledgement, send the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.bench.figures import percentile
from penstock.bench.load import Load
from penstock.bench.measurement import Workbench
from penstock.bench.metric import AT_MOST_LEVEL, Metric, Readings, Unit
from penstock.bench.peers import Contestant, Peer
from penstock.bench.sizes import Sizes
from penstock.bench.topics import create_topic

_TOPIC = "one-at-a-time"


@dataclass(frozen=True, slots=True)
class OneAtATime:
    sizes: Sizes
    name: str = "latency"
    title: str = "One-at-a-time produce, acks=1, linger.ms=0"

    @property
    def metrics(self) -> Sequence[Metric]:
        record = f"{self.sizes.small_record_bytes} B"
        return [
            Metric("latency.p50", f"produce {record}, p50", Unit.MILLISECONDS, AT_MOST_LEVEL),
            Metric("latency.p99", f"produce {record}, p99", Unit.MILLISECONDS, AT_MOST_LEVEL),
        ]

    @property
    def disk_bytes(self) -> int:
        batch_overhead = 100
        records = self.sizes.one_at_a_time_count + self.sizes.one_at_a_time_warm_up_count
        return records * (self.sizes.small_record_bytes + batch_overhead)

    def run(self, contestant: Contestant, workbench: Workbench) -> Readings:
        with contestant.fresh(workbench.data_parent) as peer:
            workbench.tell(f"{self.sizes.one_at_a_time_count:,} records, one at a time")
            create_topic(peer.bootstrap_servers, _TOPIC, self.sizes.time_limit_s)
            latencies_ms = produce_one_at_a_time(
                peer, _TOPIC, self.sizes, warm_up_count=self.sizes.one_at_a_time_warm_up_count
            )
        return {
            "latency.p50": percentile(latencies_ms, 0.50),
            "latency.p99": percentile(latencies_ms, 0.99),
        }


def produce_one_at_a_time(
    peer: Peer, topic: str, sizes: Sizes, *, warm_up_count: int = 0, client_id: str = "rdkafka"
) -> list[float]:
    """The milliseconds that each small record took to be acknowledged. `rdkafka` is librdkafka's default client id."""
    load = Load(
        kind="one_at_a_time",
        bootstrap_servers=peer.bootstrap_servers,
        broker_pid=peer.pid,
        topic=topic,
        record_bytes=sizes.small_record_bytes,
        record_count=sizes.one_at_a_time_count,
        warm_up_count=warm_up_count,
        time_limit_s=sizes.time_limit_s,
        client_config={"acks": "1", "linger.ms": 0, "client.id": client_id},
    )
    return load.run().latencies_ms
