"""How long a group takes to settle after a member joined, and after a member died.

The clients' waits are the same for both brokers: every member heartbeats at the same short interval, and the broker's
delay before a group's first rebalance is off. After a death the clock starts when the dead member's session ends,
because every broker must wait until then.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, get_args

from penstock.bench.group_load import GroupLoad, GroupProtocol
from penstock.bench.measurement import Workbench
from penstock.bench.metric import AT_MOST_LEVEL, Metric, Readings, Unit
from penstock.bench.peers import Contestant, Peer
from penstock.bench.sizes import Sizes
from penstock.bench.topics import create_topic

_TOPIC: Final = "group"
_PROTOCOLS: Final[tuple[GroupProtocol, ...]] = get_args(GroupProtocol)
_TITLES: Final = {"classic": "classic protocol", "consumer": "KIP-848"}
# Apache Kafka preallocates two index files of 10 MB per partition. They are sparse, but not on every file system.
_DISK_BYTES_PER_PARTITION: Final = 100_000


@dataclass(frozen=True, slots=True)
class GroupSettling:
    sizes: Sizes
    name: str = "groups"

    @property
    def title(self) -> str:
        return (
            f"A group of {self.sizes.group_member_count} members over {self.sizes.group_partition_count} partitions, "
            f"heartbeats every {self.sizes.group_heartbeat_interval_ms} ms: time to settle"
        )

    @property
    def metrics(self) -> Sequence[Metric]:
        metrics: list[Metric] = []
        for protocol in _PROTOCOLS:
            title = _TITLES[protocol]
            metrics += [
                Metric(f"groups.{protocol}.join", f"{title}, after a join", Unit.MILLISECONDS, AT_MOST_LEVEL),
                Metric(f"groups.{protocol}.death", f"{title}, after a death", Unit.MILLISECONDS, AT_MOST_LEVEL),
            ]
        return metrics

    @property
    def disk_bytes(self) -> int:
        offsets_topic_partitions = 50
        return (self.sizes.group_partition_count + offsets_topic_partitions) * _DISK_BYTES_PER_PARTITION

    def run(self, contestant: Contestant, workbench: Workbench) -> Readings:
        readings: dict[str, float] = {}
        with contestant.fresh(workbench.data_parent, self._broker_config) as peer:
            create_topic(peer.bootstrap_servers, _TOPIC, self.sizes.time_limit_s, self.sizes.group_partition_count)
            for protocol in _PROTOCOLS:
                workbench.tell(f"{_TITLES[protocol]}: {self.sizes.group_repeat_count} joins and deaths")
                result = self._load(peer, protocol).run()
                readings[f"groups.{protocol}.join"] = statistics.median(result.after_join_ms)
                readings[f"groups.{protocol}.death"] = statistics.median(result.after_death_ms)
        return readings

    @property
    def _broker_config(self) -> dict[str, str]:
        session_timeout_ms = str(self.sizes.group_session_timeout_ms)
        heartbeat_interval_ms = str(self.sizes.group_heartbeat_interval_ms)
        return {
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": session_timeout_ms,
            "group.consumer.min.session.timeout.ms": session_timeout_ms,
            "group.consumer.session.timeout.ms": session_timeout_ms,
            "group.consumer.min.heartbeat.interval.ms": heartbeat_interval_ms,
            "group.consumer.heartbeat.interval.ms": heartbeat_interval_ms,
        }

    def _load(self, peer: Peer, protocol: GroupProtocol) -> GroupLoad:
        return GroupLoad(
            bootstrap_servers=peer.bootstrap_servers,
            protocol=protocol,
            topic=_TOPIC,
            partition_count=self.sizes.group_partition_count,
            member_count=self.sizes.group_member_count,
            session_timeout_ms=self.sizes.group_session_timeout_ms,
            heartbeat_interval_ms=self.sizes.group_heartbeat_interval_ms,
            warm_up_count=self.sizes.group_warm_up_count,
            repeat_count=self.sizes.group_repeat_count,
            pause_s=self.sizes.group_pause_s,
            time_limit_s=self.sizes.time_limit_s,
        )
