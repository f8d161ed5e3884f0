"""A broker with thousands of partitions: its start, its memory, and its CPU time while it is idle.

A first start creates the topic. The timed start ends when a record to the topic's last partition is acknowledged and
the metadata names a leader for every partition.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.bench.first_ack import start_to_first_ack
from penstock.bench.measurement import Workbench
from penstock.bench.metric import Metric, Readings, Target, Unit
from penstock.bench.peers import Contestant
from penstock.bench.process_usage import idle_cpu_seconds, memory
from penstock.bench.sizes import Sizes
from penstock.bench.topics import create_topic

_TOPIC = "many-partitions"
# Apache Kafka preallocates two index files of 10 MB per partition. They are sparse, but not on every file system.
_DISK_BYTES_PER_PARTITION = 100_000


@dataclass(frozen=True, slots=True)
class ManyPartitions:
    sizes: Sizes
    name: str = "partitions"

    @property
    def title(self) -> str:
        return f"{self.sizes.partition_count:,} partitions on one broker"

    @property
    def metrics(self) -> Sequence[Metric]:
        idle = f"idle CPU in {self.sizes.idle_s:g} s"
        return [
            Metric("partitions.start", "process start to ready", Unit.SECONDS, Target(value_below=2.0)),
            Metric("partitions.resident", "resident memory", Unit.BYTES),
            Metric("partitions.unique", "· unique to it", Unit.BYTES),
            Metric("partitions.idle_cpu", idle, Unit.CPU_SECONDS),
        ]

    @property
    def disk_bytes(self) -> int:
        return self.sizes.partition_count * _DISK_BYTES_PER_PARTITION

    def run(self, contestant: Contestant, workbench: Workbench) -> Readings:
        count = self.sizes.partition_count
        with contestant.fresh(workbench.data_parent) as peer:
            workbench.tell(f"creating {count:,} partitions")
            create_topic(peer.bootstrap_servers, _TOPIC, self.sizes.time_limit_s, partition_count=count)
            peer.stop()
            workbench.tell(f"starting with {count:,} partitions")
            ready_s = start_to_first_ack(
                peer, _TOPIC, partition=count - 1, partition_count=count, time_limit_s=self.sizes.time_limit_s
            )
            workbench.tell(f"idling for {self.sizes.idle_s:g} s")
            time.sleep(self.sizes.settle_s)
            now = memory(peer.pid)
            idle_cpu_s = idle_cpu_seconds(peer.pid, self.sizes.idle_s)
        return {
            "partitions.start": ready_s,
            "partitions.resident": now.resident_bytes,
            "partitions.unique": now.unique_bytes,
            "partitions.idle_cpu": idle_cpu_s,
        }
