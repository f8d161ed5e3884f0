"""Faults by chance, within what the cluster promises to survive.

min.insync.replicas is 2 of 3 replicas, and a record counts as committed when the high watermark has passed it. A broker
that is killed keeps what it wrote; one that crashes loses what it had not synced. The promise holds as long as one
replica that has every committed record keeps it and is known to have it. So these are left out:

- A second broker that loses unsynced data before the first one is in sync again everywhere: with two of three replicas
  in sync, both copies of a record could be lost, as in Kafka with the same settings.
- While a broker that lost data is not in sync again: the end of a broker after which, for some partition, no other one
  would be up that is in sync or eligible (ELR). All such replicas would then have ended uncleanly, the registrations
  make each of them ineligible, and the last known leader, which is elected then, may be the one that lost its data.

- A reassignment that takes replicas away, in a run where a broker may lose data: it completes when its target replicas
  are in sync by the metadata, which may be brokers that have just ended, and removes the one that kept its data. One
  seed in four has such reassignments, and brokers that are killed but lose nothing.

Everything else happens together: brokers that are killed all at once, or stopped cleanly, or paused for longer than
their session; links that are cut in one direction or both, also to etcd; slow links and reset connections; etcd that is
away, or forgets its history; clocks that are hours apart; and changes of topics, replicas and leaders meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.simulation.cluster.etcd import HOST
from tests.simulation.cluster.world import ProcessLoop

if TYPE_CHECKING:
    from tests.simulation.cluster.broker import Broker
    from tests.simulation.cluster.cluster import Cluster

_HOUR_MS = 3_600_000


class Nemesis:
    """Runs until its time is over; `heal` then makes everything whole again."""

    def __init__(self, cluster: Cluster, duration_s: float, *, only_late: bool = False, loses: bool = True) -> None:
        """`only_late`: messages are late and connections break, and nothing else happens. `loses`: a broker that
        crashes may lose what it had not synced."""
        self.cluster = cluster
        self._strikes_per_s = 2.5 if only_late else 0.9
        self.world = cluster.world
        self.end_s = self.world.now_s + duration_s
        self.is_done = False
        self.loop = ProcessLoop(self.world, "nemesis")
        self._clients = [client.name for client in cluster.clients]
        self._faults: list[tuple[int, Callable[[], None]]] = [
            (4, self._kill),
            (3, self._crash if loses else self._kill),
            (2, self._stop),
            (2, self._kill_several),
            (3, self._pause),
            (3, self._isolate),
            (3, self._cut_one_way),
            (2, self._cut_from_etcd),
            (2, self._slow),
            (2, self._reset),
            (1, self._etcd_away),
            (1, self._compact),
            (1, self._set_clock),
        ]
        if only_late:
            self._faults = [(10, self._delay), (1, self._reset), (1, self._cut_one_way), (1, self._pause)]

    def start(self) -> None:
        self._after(self.world.random.uniform(0.2, 1.5), self._strike)

    def heal(self) -> None:
        self.world.note("nemesis: heals everything")
        self.cluster.is_healed = True
        self.cluster.etcd.come_back()
        self.cluster.network.heal()
        for broker in self.cluster.brokers:
            if broker.is_paused:
                broker.resume()
            if not broker.is_up:
                broker.start()

    def _after(self, seconds: float, act: Callable[[], None]) -> None:
        self.loop.call_in_world(self.world.now_s + seconds, act)

    def _strike(self) -> None:
        if self.world.now_s >= self.end_s:
            self.heal()
            self.is_done = True
            return
        weights, faults = zip(*self._faults, strict=True)
        self.world.random.choices(faults, weights)[0]()
        self._after(self.world.random.expovariate(self._strikes_per_s), self._strike)

    def _any(self, brokers: list[Broker]) -> Broker | None:
        return self.world.random.choice(brokers) if brokers else None

    # Brokers

    def _up(self) -> list[Broker]:
        return [broker for broker in self.cluster.brokers if broker.is_up]

    def _may_end(self, ended: list[Broker], *, loses: bool) -> bool:
        """See the module's docstring."""
        lossy = [broker for broker in self.cluster.brokers if not self._is_whole(broker)]
        if not loses and not lossy:
            return True
        if loses and (len(ended) > 1 or lossy not in ([], ended)):
            return False
        kept = {broker.broker_id for broker in self.cluster.brokers if broker.is_serving and self._is_whole(broker)}
        kept -= {broker.broker_id for broker in ended}
        return all(not kept.isdisjoint((*image.isr, *image.elr)) for _, _, image in self.cluster.truth.partitions())

    def _is_whole(self, broker: Broker) -> bool:
        """Whether a broker that lost data is in sync again everywhere."""
        if broker.is_lossy and not broker.has_lost_records and self._is_in_sync_everywhere(broker):
            broker.is_lossy = False
        return not broker.is_lossy

    def _is_in_sync_everywhere(self, broker: Broker) -> bool:
        return all(
            broker.broker_id in image.isr
            for _, _, image in self.cluster.truth.partitions()
            if broker.broker_id in image.replicas
        )

    def _kill(self) -> None:
        broker = self._any(self._up())
        if broker is not None and self._may_end([broker], loses=False):
            broker.kill()
            self._restart_later(broker)

    def _crash(self) -> None:
        broker = self._any(self._up())
        if broker is not None and self._may_end([broker], loses=True):
            broker.crash()
            self._restart_later(broker)

    def _kill_several(self) -> None:
        brokers = [broker for broker in self._up() if self.world.chance(0.7)]
        if brokers and self._may_end(brokers, loses=False):
            for broker in brokers:
                broker.kill()
                self._restart_later(broker)

    def _stop(self) -> None:
        broker = self._any([broker for broker in self._up() if broker.is_serving and not broker.is_paused])
        if broker is not None and self._may_end([broker], loses=False):
            broker.stop()
            self._after(self.world.random.uniform(1.0, 6.0), lambda: self._restart(broker))

    def _restart_later(self, broker: Broker) -> None:
        random = self.world.random
        self._after(
            random.uniform(0.05, 0.5) if random.random() < 0.4 else random.uniform(0.5, 8.0),
            lambda: self._restart(broker),
        )

    def _restart(self, broker: Broker) -> None:
        if not broker.is_up and not self.is_done:
            broker.start()

    def _pause(self) -> None:
        broker = self._any([broker for broker in self._up() if not broker.is_paused])
        if broker is None:
            return
        broker.pause()
        self._after(self.world.random.choice((0.3, 1.0, 4.0, 8.0)), lambda: self._resume(broker))

    def _resume(self, broker: Broker) -> None:
        if broker.is_paused:
            broker.resume()

    def _set_clock(self) -> None:
        broker = self._any(self.cluster.brokers)
        assert broker is not None
        broker.set_wall_clock(self.world.random.randrange(-_HOUR_MS, _HOUR_MS))

    # The network

    def _hosts(self) -> list[str]:
        return [broker.host for broker in self.cluster.brokers]

    def _isolate(self) -> None:
        """One broker is cut off from all others, from etcd too or not, and clients reach it or not."""
        host = self.world.random.choice(self._hosts())
        others = [other for other in self._hosts() if other != host]
        if self.world.chance(0.5):
            others.append(HOST)
        if self.world.chance(0.5):
            others += self._clients
        for other in others:
            self._cut(host, other)
            self._cut(other, host)
        self._heal_later()

    def _cut_one_way(self) -> None:
        source, target = self.world.random.sample([*self._hosts(), HOST, *self._clients], 2)
        self._cut(source, target)
        self._heal_later()

    def _cut_from_etcd(self) -> None:
        host = self.world.random.choice(self._hosts())
        self._cut(host, HOST)
        self._cut(HOST, host)
        self._heal_later()

    def _cut(self, source: str, target: str) -> None:
        self.world.note(f"nemesis: cuts {source} -> {target}")
        self.cluster.network.cut(source, target)

    def _heal_later(self) -> None:
        def heal() -> None:
            self.world.note("nemesis: heals the network")
            self.cluster.network.heal()

        self._after(self.world.random.choice((0.5, 2.0, 5.0, 8.0)), heal)

    def _slow(self) -> None:
        source, target = self.world.random.sample([*self._hosts(), HOST], 2)
        self.world.note(f"nemesis: slows {source} -> {target}")
        self.cluster.network.slow(source, target, self.world.random.choice((0.05, 0.3, 1.0)))
        self._heal_later()

    def _delay(self) -> None:
        """What one broker sends to another is late by up to a second, and nothing else is."""
        source, target = self.world.random.sample(self._hosts(), 2)
        self.world.note(f"nemesis: delays {source} -> {target}")
        self.cluster.network.slow(source, target, 1.0)
        self._after(self.world.random.uniform(0.5, 2.0), lambda: self.cluster.network.slow(source, target, 0.0))

    def _reset(self) -> None:
        host, peer = self.world.random.sample([*self._hosts(), *self._clients], 2)
        self.world.note(f"nemesis: resets connections of {host} and {peer}")
        self.cluster.network.reset(host, peer)

    # The key-value store

    def _etcd_away(self) -> None:
        self.world.note("nemesis: etcd goes away")
        self.cluster.etcd.go_away()

        def come_back() -> None:
            self.world.note("nemesis: etcd comes back")
            self.cluster.etcd.come_back()

        self._after(self.world.random.choice((0.3, 1.5, 5.0)), come_back)

    def _compact(self) -> None:
        self.world.note("nemesis: etcd compacts its history")
        self.cluster.etcd.compact()
