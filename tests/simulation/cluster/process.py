"""One process of a simulated broker: a node put together as `broker/main.py` does, on simulated parts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from penstock.broker.etcd.metadata_store import EtcdMetadataStore
from penstock.broker.etcd.start import ClusterSettings, open_metadata_store
from penstock.broker.housekeeping import Housekeeping
from penstock.broker.joining import register
from penstock.broker.main import open_node
from penstock.broker.network.endpoints import BoundListener
from penstock.broker.network.server import Server
from penstock.broker.node import Node
from penstock.core.clock import Entropy
from penstock.core.metrics import Metrics
from penstock.metadata.broker_config import BrokerConfig
from penstock.metadata.changes import Endpoint
from tests.simulation.cluster.client import BROKER_PORT
from tests.simulation.cluster.etcd import EtcdClient
from tests.simulation.cluster.network import ListeningSocket, NetworkSender
from tests.simulation.cluster.world import ProcessClock, ProcessLoop, SimulationFault

if TYPE_CHECKING:
    from tests.simulation.cluster.broker import Broker

SESSION_TIMEOUT_MS: Final = 3000
HEARTBEAT_INTERVAL_MS: Final = 700
REQUEST_TIMEOUT_MS: Final = 5000
SNAPSHOT_ENTRIES: Final = 30
LISTENER_NAME: Final = "PLAINTEXT"
DIRECTORY: Final = Path("/data")

SETTINGS: Final = {
    "log.dirs": str(DIRECTORY),
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "700",
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.wait.max.ms": "500",
    "replica.fetch.max.bytes": "500",  # a few batches: a replica that is behind takes several fetches
    "log.message.timestamp.after.max.ms": str((1 << 63) - 1),
    "log.message.timestamp.before.max.ms": str((1 << 63) - 1),
}


@cache
def config_of(broker_id: int, host: str) -> BrokerConfig:
    settings = {
        **SETTINGS,
        "node.id": str(broker_id),
        "broker.rack": f"rack{broker_id}",
        "listeners": f"{LISTENER_NAME}://{host}:{BROKER_PORT}",
    }
    return BrokerConfig.load(overrides=[f"{name}={text}" for name, text in settings.items()])


class BrokerProcess:
    node: Node

    def __init__(self, broker: Broker, loop: ProcessLoop, entropy: Entropy) -> None:
        self.broker = broker
        self.loop = loop
        self.is_open = False
        """Whether its topics are open: what it holds can be looked at."""
        self._entropy = entropy
        self.is_serving = False
        self.acts = False
        """Whether it may answer clients: it serves, and has not handed over to stop."""
        self._stopped = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, on_end: Callable[[BrokerProcess], None]) -> None:
        self._task = self.loop.create_task(self._serve())
        self._task.add_done_callback(lambda done: self._ended(done, on_end))

    def stop(self) -> None:
        self._stopped.set()

    def _ended(self, done: asyncio.Task[None], on_end: Callable[[BrokerProcess], None]) -> None:
        error = done.exception()
        if error is not None:
            raise SimulationFault(f"{self.broker} failed: {error!r}") from error
        on_end(self)

    async def _serve(self) -> None:
        broker, loop = self.broker, self.loop
        config = config_of(broker.broker_id, broker.host)
        store = await self._open_store()
        self.node = node = open_node(
            config,
            DIRECTORY,
            store,
            loop,
            self._fail,
            clock=ProcessClock(loop),
            entropy=self._entropy,
            metrics=Metrics(),
            fs=broker.disk,
        )
        node.open_topics()
        self.is_open = True
        if not await register(node, {LISTENER_NAME: Endpoint(broker.host, BROKER_PORT)}, self._stopped):
            node.close(clean=True)
            await store.leave()
            return
        server = Server(node, NetworkSender)
        await server.listen([BoundListener(LISTENER_NAME, cast("Any", ListeningSocket(broker.host, BROKER_PORT)))])
        housekeeping = Housekeeping(node)
        housekeeping.start()
        self.is_serving = self.acts = True
        loop.call_soon(node.resume_transactions)
        await self._stopped.wait()
        await node.hand_over()
        self.acts = False
        housekeeping.stop()
        await node.tasks.close()
        server.close()
        node.close(clean=True)
        await store.leave()

    async def _open_store(self) -> EtcdMetadataStore:
        broker, cluster = self.broker, self.broker.cluster
        return await open_metadata_store(
            EtcdClient(cluster.etcd, cluster.network, self.loop, broker.host),
            ClusterSettings(
                cluster.truth.keys.prefix,
                broker.broker_id,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
                request_timeout_ms=REQUEST_TIMEOUT_MS,
                snapshot_entries=SNAPSHOT_ENTRIES,
            ),
            cast("Any", broker.directory),
            clock=ProcessClock(self.loop),
            entropy=self._entropy,
            on_fatal=self._fail,
        )

    def _fail(self, message: str) -> None:
        """What a broker ends itself for is a fault of the simulated run, wherever in the broker it is raised."""
        self.loop.world.fault = SimulationFault(f"{self.broker}: {message}")
