"""The table of measurements, and the choice of those that fit on this machine's disk."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from penstock.bench.measurement import Measurement
from penstock.bench.measurements.compaction import Compaction
from penstock.bench.measurements.connect_rows import ConnectRows, ConnectTable
from penstock.bench.measurements.connect_start import ConnectStart
from penstock.bench.measurements.first_record import FirstRecord
from penstock.bench.measurements.floods import Floods
from penstock.bench.measurements.group_settling import GroupSettling
from penstock.bench.measurements.log_growth import LogGrowth
from penstock.bench.measurements.many_partitions import ManyPartitions
from penstock.bench.measurements.metrics_cost import MetricsCost
from penstock.bench.measurements.offset_commits import OffsetCommits
from penstock.bench.measurements.one_at_a_time import OneAtATime
from penstock.bench.measurements.quota import Quota
from penstock.bench.measurements.replication import Replication
from penstock.bench.measurements.resident_memory import ResidentMemory
from penstock.bench.measurements.restart import Restart
from penstock.bench.measurements.spark_growth import SparkGrowth
from penstock.bench.measurements.spark_latency import SparkLatency
from penstock.bench.measurements.spark_rows import spark_copy, spark_read, spark_table
from penstock.bench.measurements.spark_start import SparkStart
from penstock.bench.measurements.throughput import Throughput, tls_throughput
from penstock.bench.measurements.transactional_produce import TransactionalProduce
from penstock.bench.sizes import GB, Sizes

CATALOGUE: Final[dict[str, Callable[[Sizes], Measurement]]] = {
    "throughput": Throughput,
    "latency": OneAtATime,
    "start": FirstRecord,
    "memory": ResidentMemory,
    "partitions": ManyPartitions,
    "growth": LogGrowth,
    "transactions": TransactionalProduce,
    "groups": GroupSettling,
    "tls": tls_throughput,
    "compaction": Compaction,
    "restart": Restart,
    "offsets": OffsetCommits,
    "quota": Quota,
    "metrics": MetricsCost,
    "floods": Floods,
    "replication": Replication,
    "connect-rows": ConnectRows,
    "connect-table": ConnectTable,
    "connect-start": ConnectStart,
    "spark-read": spark_read,
    "spark-copy": spark_copy,
    "spark-table": spark_table,
    "spark-latency": SparkLatency,
    "spark-start": SparkStart,
    "spark-growth": SparkGrowth,
}
# These compare two engines on the same broker, not two brokers.
OF_ENGINES: Final = frozenset(name for name in CATALOGUE if name.startswith("spark-"))
# These compare two Connect workers on the same broker.
OF_WORKERS: Final = frozenset(name for name in CATALOGUE if name.startswith("connect-"))

# The client limits these on a machine with few cores, and other load moves them most: short rounds, three for one.
SHORT_ROUNDS: Final = {"throughput": 3, "tls": 3}

# Stays free beside the data of a measurement: a full disk is worse than a missing row.
_RESERVE_BYTES: Final = 2 * GB


@dataclass(frozen=True, slots=True)
class Plan:
    sizes: Sizes
    measurements: tuple[Measurement, ...]
    notes: tuple[str, ...]
    """Which measurements and logs were skipped, and why."""


def plan(names: Collection[str], sizes: Sizes, free_bytes: int) -> Plan:
    """The named measurements that fit into `free_bytes`. Of the growth measurement, single log sizes may be skipped."""
    room = free_bytes - _RESERVE_BYTES
    notes: list[str] = []
    if "growth" in names:
        sizes, dropped = _fitting_logs(sizes, room)
        notes += [f"growth: no room on the disk for a log of {log_bytes / GB:g} GB" for log_bytes in dropped]
    measurements: list[Measurement] = []
    for name, build in CATALOGUE.items():
        if name not in names:
            continue
        if not sizes.log_bytes and build is LogGrowth:
            continue
        measurement = build(sizes)
        if measurement.disk_bytes > room:
            needed = measurement.disk_bytes + _RESERVE_BYTES
            notes.append(f"{name}: needs {needed / GB:.1f} GB of free disk, {free_bytes / GB:.1f} GB are free")
        else:
            measurements.append(measurement)
    return Plan(sizes, tuple(measurements), tuple(notes))


def _fitting_logs(sizes: Sizes, room: int) -> tuple[Sizes, list[int]]:
    def fits(log_bytes: int) -> bool:
        return LogGrowth(dataclasses.replace(sizes, log_bytes=(log_bytes,))).disk_bytes <= room

    kept = tuple(log_bytes for log_bytes in sizes.log_bytes if fits(log_bytes))
    dropped = [log_bytes for log_bytes in sizes.log_bytes if log_bytes not in kept]
    return dataclasses.replace(sizes, log_bytes=kept), dropped
