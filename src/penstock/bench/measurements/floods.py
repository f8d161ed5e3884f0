"""What a producer and a consumer notice of clients that mean no good: connections, trickles, strangers, handshakes."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.bench.bystander import bystander
from penstock.bench.certificates import Certificates
from penstock.bench.figures import percentile
from penstock.bench.flood import Flood, Kind
from penstock.bench.measurement import Workbench
from penstock.bench.measurements.one_at_a_time import produce_one_at_a_time
from penstock.bench.metric import AT_MOST_LEVEL, Metric, Readings, Target, Unit
from penstock.bench.peers import Contestant, Peer
from penstock.bench.process_usage import memory
from penstock.bench.sizes import Sizes
from penstock.bench.topics import create_topic
from penstock.testing.apache_kafka import free_ports

_TOPIC: Final = "among-strangers"
_AT_MOST_TWICE: Final = Target(value_at_most=2.0)
_TITLES: Final[dict[Kind, str]] = {
    "connections": "1,000 new connections a second",
    "trickle": "1,000 sockets that send a byte a second",
    "unauthenticated": "50 clients that do not authenticate",
    "handshakes": "1,000 TLS handshakes that never end",
}


@dataclass(frozen=True, slots=True)
class Floods:
    sizes: Sizes
    name: str = "floods"
    title: str = "One-at-a-time produce among clients that mean no good"

    @property
    def metrics(self) -> Sequence[Metric]:
        rows = [Metric("floods.quiet.p99", "no other clients, p99", Unit.MILLISECONDS)]
        for kind, title in _TITLES.items():
            rows += [
                Metric(f"floods.{kind}.p99", f"{title}, p99", Unit.MILLISECONDS, AT_MOST_LEVEL),
                Metric(f"floods.{kind}.slowdown", "· against no other clients", Unit.TIMES, _AT_MOST_TWICE),
                Metric(f"floods.{kind}.own", "· against the same flood at another server", Unit.TIMES),
            ]
        return [*rows, Metric("floods.growth", "memory at the end, beyond the quiet broker's", Unit.BYTES)]

    @property
    def disk_bytes(self) -> int:
        return self.sizes.one_at_a_time_count * 10 * (self.sizes.small_record_bytes + 100)

    def run(self, contestant: Contestant, workbench: Workbench) -> Readings:
        plaintext, tls, sasl = free_ports(3)
        readings: dict[str, float] = {}
        with tempfile.TemporaryDirectory(dir=workbench.data_parent) as directory:
            config = {
                "listeners": f"PLAINTEXT://127.0.0.1:{plaintext},SSL://127.0.0.1:{tls},"
                f"SASL_PLAINTEXT://127.0.0.1:{sasl}",
                "sasl.enabled.mechanisms": "SCRAM-SHA-256",
                "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": "org.apache.kafka.common.security.scram."
                "ScramLoginModule required;",
                **Certificates.make(Path(directory)).broker_config,
            }
            ports: dict[Kind, int] = {
                "connections": plaintext,
                "trickle": plaintext,
                "unauthenticated": sasl,
                "handshakes": tls,
            }
            with contestant.fresh(workbench.data_parent, config) as peer:
                create_topic(peer.bootstrap_servers, _TOPIC, self.sizes.time_limit_s)
                workbench.tell("no other clients")
                quiet_p99 = self._p99(peer, warm_up_count=self.sizes.one_at_a_time_warm_up_count)
                readings["floods.quiet.p99"] = quiet_p99
                resident_before = memory(peer.pid).resident_bytes
                for kind, port in ports.items():
                    workbench.tell(_TITLES[kind])
                    with bystander() as elsewhere, Flood(kind, elsewhere).running():
                        elsewhere_p99 = self._p99(peer)
                    with Flood(kind, f"127.0.0.1:{port}").running():
                        p99 = self._p99(peer)
                    readings[f"floods.{kind}.p99"] = p99
                    readings[f"floods.{kind}.slowdown"] = p99 / quiet_p99
                    readings[f"floods.{kind}.own"] = p99 / elsewhere_p99
                growth = memory(peer.pid).resident_bytes - resident_before
                readings["floods.growth"] = max(0, growth)
        return readings

    def _p99(self, peer: Peer, warm_up_count: int = 0) -> float:
        return percentile(produce_one_at_a_time(peer, _TOPIC, self.sizes, warm_up_count=warm_up_count), 0.99)
