"""Three brokers, etcd, a network and clients in one virtual world, from one seed."""

from __future__ import annotations

import gc
import sys
from typing import Final

from tests.simulation.cluster.broker import Broker
from tests.simulation.cluster.client import Client
from tests.simulation.cluster.etcd import SimulatedEtcd
from tests.simulation.cluster.invariants import Invariants
from tests.simulation.cluster.network import Network
from tests.simulation.cluster.process import BrokerProcess
from tests.simulation.cluster.truth import Truth
from tests.simulation.cluster.world import ProcessLoop, World

PREFIX: Final = "/penstock/"
BROKER_IDS: Final = (1, 2, 3)


class Cluster:
    def __init__(self, seed: int, *, keeps_trace: bool = False) -> None:
        self.world = World(seed, keeps_trace=keeps_trace)
        self.network = Network(self.world)
        self.etcd = SimulatedEtcd(self.world)
        self.truth = Truth(self.world, PREFIX)
        self.etcd.on_commit = self.truth.committed
        self.invariants = Invariants(self.truth)
        self.brokers = [Broker(self, broker_id) for broker_id in BROKER_IDS]
        self.clients: list[Client] = []
        self.is_healed = False
        """The faults are over: a broker that stops is started again."""
        self._dead: list[BrokerProcess] = []

    def client(self, name: str) -> Client:
        client = Client(self.world, self.network, name, list(BROKER_IDS))
        self.clients.append(client)
        return client

    def close(self) -> None:
        """Nothing runs any more. What processes had begun is unwound now, and not in the middle of another run."""
        for loop in (*self.world.dead, *self.loops()):
            loop.is_dead = True
        self.world.dead.clear()
        self._dead.clear()
        for broker in self.brokers:
            broker.process = None
        hook, sys.unraisablehook = sys.unraisablehook, lambda unraisable: None
        try:
            gc.collect()
        finally:
            sys.unraisablehook = hook

    def loops(self) -> list[ProcessLoop]:
        """Of all processes that have not ended."""
        brokers = [broker.process.loop for broker in self.brokers if broker.process is not None]
        return [self.etcd.loop, *(client.loop for client in self.clients), *brokers]

    def died(self, process: BrokerProcess) -> None:
        """Kept, so that nothing of it is unwound in the middle of the run."""
        self._dead.append(process)

    def check(self) -> None:
        """Looks at the broker that did something last."""
        for broker in self.brokers:
            if broker.process is not None and broker.process.loop is self.world.active:
                self.invariants.check(broker, self.brokers)
