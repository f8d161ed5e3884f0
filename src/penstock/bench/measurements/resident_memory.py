"""Memory of a broker after its start, and after gigabytes in and out.

The target applies to resident memory, which `ps` shows and container limits count. It includes mapped file pages, which
the system can reclaim at any time; unique and proportional memory are therefore reported too.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.bench.load import Kind, Load
from penstock.bench.measurement import Workbench
from penstock.bench.metric import AT_MOST_A_FIFTH, Metric, Readings, Unit
from penstock.bench.peers import Contestant, Peer
from penstock.bench.process_usage import memory
from penstock.bench.sizes import GB, Sizes
from penstock.bench.topics import create_topic

_TOPIC = "memory"


@dataclass(frozen=True, slots=True)
class ResidentMemory:
    sizes: Sizes
    name: str = "memory"
    title: str = "Memory"

    @property
    def metrics(self) -> Sequence[Metric]:
        loaded = f"after {self.sizes.memory_bytes / GB:g} GB in and out"
        return [*_metrics("idle", "idle"), *_metrics("loaded", loaded)]

    @property
    def disk_bytes(self) -> int:
        return int(self.sizes.memory_bytes * 1.1)

    def run(self, contestant: Contestant, workbench: Workbench) -> Readings:
        with contestant.fresh(workbench.data_parent) as peer:
            workbench.tell("idle")
            time.sleep(self.sizes.settle_s)
            readings = _readings("idle", peer)
            create_topic(peer.bootstrap_servers, _TOPIC, self.sizes.time_limit_s)
            for kind in ("produce", "consume"):
                workbench.tell(f"{kind} {self.sizes.memory_bytes / GB:g} GB")
                self._load(kind, peer).run()
            time.sleep(self.sizes.settle_s)
            readings |= _readings("loaded", peer)
        return readings

    def _load(self, kind: Kind, peer: Peer) -> Load:
        return Load(
            kind=kind,
            bootstrap_servers=peer.bootstrap_servers,
            broker_pid=peer.pid,
            topic=_TOPIC,
            record_bytes=self.sizes.large_record_bytes,
            record_count=self.sizes.memory_bytes // self.sizes.large_record_bytes,
            time_limit_s=self.sizes.time_limit_s,
        )


def _metrics(state: str, title: str) -> list[Metric]:
    return [
        Metric(f"memory.{state}.resident", f"resident memory, {title}", Unit.BYTES, AT_MOST_A_FIFTH),
        Metric(f"memory.{state}.unique", "· unique to it", Unit.BYTES),
        Metric(f"memory.{state}.proportional", "· proportional share", Unit.BYTES),
    ]


def _readings(state: str, peer: Peer) -> dict[str, float]:
    now = memory(peer.pid)
    return {
        f"memory.{state}.resident": now.resident_bytes,
        f"memory.{state}.unique": now.unique_bytes,
        f"memory.{state}.proportional": now.proportional_bytes,
    }
