"""The restart of a broker with a large log: after kill -9 in the middle of its work, and after a clean stop."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from penstock.bench.first_ack import start_to_first_ack
from penstock.bench.measurement import Workbench
from penstock.bench.metric import AT_MOST_HALF, Metric, Readings, Unit
from penstock.bench.peers import Contestant
from penstock.bench.raw_client import RawClient
from penstock.bench.raw_frames import record_batch
from penstock.bench.sizes import GB, Sizes
from penstock.bench.topics import create_topic

_TOPIC: Final = "large-log"
_RECORDS_PER_BATCH: Final = 64
_RECORD_BYTES: Final = 1_000


@dataclass(frozen=True, slots=True)
class Restart:
    sizes: Sizes
    name: str = "restart"
    title: str = "From the start of the process to the first acknowledged record, with a large log"

    @property
    def metrics(self) -> Sequence[Metric]:
        size = f"{self.sizes.restart_log_bytes / GB:g} GB"
        return [
            Metric("restart.killed", f"{size}, after kill -9", Unit.SECONDS, AT_MOST_HALF),
            Metric("restart.clean", f"{size}, after a clean stop", Unit.SECONDS, AT_MOST_HALF),
        ]

    @property
    def disk_bytes(self) -> int:
        return int(self.sizes.restart_log_bytes * 1.05)

    def run(self, contestant: Contestant, workbench: Workbench) -> Readings:
        limit_s = self.sizes.time_limit_s
        batch = record_batch(_RECORDS_PER_BATCH, os.urandom(_RECORD_BYTES), int(time.time() * 1000))
        with contestant.fresh(workbench.data_parent) as peer:
            create_topic(peer.bootstrap_servers, _TOPIC, limit_s)
            workbench.tell(f"filling a log of {self.sizes.restart_log_bytes / GB:g} GB")
            with RawClient(peer.bootstrap_servers, _TOPIC, limit_s) as client:
                client.fill(batch, self.sizes.restart_log_bytes // len(batch), limit_s)
            peer.kill()
            workbench.tell("restart after kill -9")
            killed_s = start_to_first_ack(peer, _TOPIC, time_limit_s=limit_s)
            peer.stop()
            workbench.tell("restart after a clean stop")
            clean_s = start_to_first_ack(peer, _TOPIC, time_limit_s=limit_s)
        return {"restart.killed": killed_s, "restart.clean": clean_s}
