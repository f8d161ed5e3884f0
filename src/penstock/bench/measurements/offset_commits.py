"""The restart of a broker behind many offset commits: until a group's offsets are known, and until others are served.

One group commits the offsets of a thousand partitions again and again. After the last commit the broker is given time
to compact its offsets topic, as it would have had if the commits had come over days instead of a minute.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from penstock.bench.first_ack import Starter, since_process_start, start_to_first_ack, starting
from penstock.bench.measurement import MeasurementError, Workbench
from penstock.bench.metric import AT_MOST_LEVEL, Metric, Readings, Target, Unit
from penstock.bench.peers import Contestant, Peer
from penstock.bench.sizes import Sizes
from penstock.bench.topics import create_topic
from penstock.core.errors import ClientError
from penstock.core.ids import OffsetAndMetadata, TopicPartition
from penstock.protocol.error_codes import BrokerError
from penstock.wire.client import WireClient

_TOPIC: Final = "committed"
_GROUP: Final = "committers"
_PARTITIONS: Final = 1_000
_UNDER_TWO_SECONDS: Final = Target(value_below=2.0)
_BROKER_CONFIG: Final = {"log.cleaner.backoff.ms": "500"}
_CLIENT: Final = {"reconnect.backoff.ms": "2", "reconnect.backoff.max.ms": "2", "retry.backoff.ms": "2"}


@dataclass(frozen=True, slots=True)
class OffsetCommits:
    sizes: Sizes
    name: str = "offsets"
    title: str = "Restart after kill -9, behind many offset commits"

    @property
    def metrics(self) -> Sequence[Metric]:
        count = f"{self.sizes.offset_commit_count:,} commits"
        return [
            Metric("offsets.known", f"{count}, offsets are known", Unit.SECONDS, _UNDER_TWO_SECONDS),
            Metric("offsets.others", "· a record of another client is acknowledged", Unit.SECONDS, AT_MOST_LEVEL),
            Metric("offsets.rate", "· commits of 1,000 partitions", Unit.TRANSACTIONS_PER_SECOND),
        ]

    @property
    def disk_bytes(self) -> int:
        return self.sizes.offset_commit_count * 300

    def run(self, contestant: Contestant, workbench: Workbench) -> Readings:
        limit_s = self.sizes.time_limit_s
        with contestant.fresh(workbench.data_parent, _BROKER_CONFIG) as peer:
            create_topic(peer.bootstrap_servers, _TOPIC, limit_s, partition_count=_PARTITIONS)
            create_topic(peer.bootstrap_servers, "others", limit_s)
            workbench.tell(f"{self.sizes.offset_commit_count:,} offset commits")
            rounds = max(1, self.sizes.offset_commit_count // _PARTITIONS)
            begun_s = time.perf_counter()
            with WireClient({"bootstrap.servers": peer.bootstrap_servers}) as client:
                for offset in range(1, rounds + 1):
                    commit = OffsetAndMetadata(offset)
                    client.offset_commit(
                        _GROUP, {TopicPartition(_TOPIC, index): commit for index in range(_PARTITIONS)}
                    )
            commits_s = time.perf_counter() - begun_s
            time.sleep(self.sizes.settle_s * 5)
            peer.kill()
            workbench.tell("restart, until offsets are known")
            known_s = self._until_known(peer, rounds)
            peer.kill()
            workbench.tell("restart, until others are served")
            others_s = start_to_first_ack(peer, "others", time_limit_s=limit_s)
        return {"offsets.known": known_s, "offsets.others": others_s, "offsets.rate": rounds / commits_s}

    def _until_known(self, peer: Peer, offset: int) -> float:
        settings = {"bootstrap.servers": peer.bootstrap_servers, **_CLIENT}
        with starting(peer) as starter:
            known_s = self._await_offsets(settings, offset, starter)
        return since_process_start(peer.pid, known_s)

    def _await_offsets(self, settings: dict[str, str], offset: int, starter: Starter) -> float:
        deadline_s = time.perf_counter() + self.sizes.time_limit_s
        obstacle = "no connection"
        while time.perf_counter() < deadline_s and starter.failure is None:
            try:
                with WireClient(settings) as client:
                    committed = client.offset_fetch(_GROUP, timeout_s=self.sizes.time_limit_s)
            except (ClientError, BrokerError, OSError) as error:
                obstacle = str(error)
                continue
            known_s = time.perf_counter()
            if {each.offset for each in committed.values()} != {offset} or len(committed) != _PARTITIONS:
                raise MeasurementError(f"{len(committed):,} offsets after the restart, and not all are {offset:,}")
            return known_s
        raise MeasurementError(f"the offsets were not known within {self.sizes.time_limit_s:g} s: {obstacle}")
