"""Brokers' metadata stores in virtual time: each in a process of its own, all on one simulated etcd."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from penstock.broker.etcd.metadata_store import EtcdMetadataStore
from penstock.broker.etcd.stored_cluster import cluster_id_of, create_cluster, load
from penstock.core.ids import BrokerId
from penstock.metadata.changes import BrokerRegistered, Change
from penstock.metadata.cluster_log import ClusterKeys
from penstock.metadata.image import ClusterImage
from penstock.metadata.store import CommittedChanges, Decide
from penstock.protocol.error_codes import BrokerError, ErrorCode
from tests.simulation.cluster.etcd import HOST, EtcdClient, SimulatedEtcd
from tests.simulation.cluster.network import Network
from tests.simulation.cluster.world import ProcessLoop, World
from tests.unit.metadata.images import registered

T = TypeVar("T")

KEYS = ClusterKeys("/penstock/")
SESSION_TIMEOUT_MS = 9000
HEARTBEAT_INTERVAL_MS = 2000
REQUEST_TIMEOUT_MS = 30_000


class LoopClock:
    """The monotonic clock of a process. Wall clocks differ between brokers, and nothing here may ask for one."""

    def __init__(self, loop: ProcessLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        raise AssertionError("the metadata store asks for the wall clock")

    def monotonic_ms(self) -> int:
        return int(self._loop.time() * 1000)


class Cluster:
    """`run` lets virtual time pass until a coroutine of one process has ended."""

    def __init__(self, seed: int = 1) -> None:
        self.world = World(seed)
        self.network = Network(self.world)
        self.etcd = SimulatedEtcd(self.world)
        self.brokers: list[StoreProcess] = []
        self.after_event: Callable[[], None] = lambda: None

    def broker(self, broker_id: int, *, rate: float = 1.0, snapshot_entries: int = 500) -> StoreProcess:
        """Starts a broker's store, which registers."""
        process = StoreProcess(self, broker_id, rate, snapshot_entries)
        self.brokers.append(process)
        process.run(process.open())
        return process

    def run_until(self, condition: Callable[[], bool], seconds: float = 60) -> None:
        held = self.world.run_until(condition, self.world.now_s + seconds, self.after_event)
        assert held, f"not within {seconds} s"

    def run_for(self, seconds: float) -> None:
        self.world.run_until(lambda: False, self.world.now_s + seconds, self.after_event)

    def close(self) -> None:
        """Ends everything that runs, also in processes that were killed: no task may be left to the collector."""
        self.after_event = lambda: None
        for broker in self.brokers:
            broker.loop.is_dead = False
            broker.loop.resume()
            broker.store.close()
        self.run_for(1)

    def stored(self, prefix: str = KEYS.prefix) -> list[str]:
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        return [entry.key for entry in self.etcd.read(prefix, end, self.etcd.revision, 0).entries]

    def partition(self, process: StoreProcess, *, there: bool = True, back: bool = True) -> None:
        """From now on requests of the process do not reach etcd (`there`), or answers do not reach it (`back`)."""
        self.network.link(process.loop.name, HOST).is_cut = there
        self.network.link(HOST, process.loop.name).is_cut = back

    def heal(self, process: StoreProcess) -> None:
        for link in (self.network.link(process.loop.name, HOST), self.network.link(HOST, process.loop.name)):
            link.is_cut = False
            held, link.held = link.held, []
            for deliver in held:
                deliver()


class StoreProcess:
    store: EtcdMetadataStore

    def __init__(self, cluster: Cluster, broker_id: int, rate: float, snapshot_entries: int) -> None:
        self.cluster = cluster
        self.broker_id = BrokerId(broker_id)
        self.loop = ProcessLoop(cluster.world, f"broker-{broker_id}", rate=rate)
        self.clock = LoopClock(self.loop)
        self.committed: list[CommittedChanges] = []
        self.fatal: list[str] = []
        self.leases: list[int] = []
        self.client = EtcdClient(cluster.etcd, cluster.network, self.loop, self.loop.name)
        self._snapshot_entries = snapshot_entries

    async def open(self) -> None:
        if await cluster_id_of(self.client, KEYS) is None:
            await create_cluster(self.client, KEYS, "the-cluster")
        self.store = EtcdMetadataStore(
            self.client,
            await load(self.client, KEYS),
            KEYS,
            broker_id=self.broker_id,
            incarnation=f"i{self.broker_id}",
            clock=self.clock,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            on_lease=self.leases.append,
            on_fatal=self.fatal.append,
            snapshot_entries=self._snapshot_entries,
        )
        self.store.subscribe(self.committed.append)
        assert await self.propose(self._register) is None

    def _register(self, image: ClusterImage) -> Sequence[Change]:
        live = image.brokers.get(self.broker_id)
        broker = replace(registered(self.broker_id).broker, epoch=image.last_broker_epoch + 1)
        if live is not None and live.incarnation != broker.incarnation:
            raise BrokerError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, "in use")
        return [BrokerRegistered(broker)]

    @property
    def image(self) -> ClusterImage:
        return self.store.image

    @property
    def acts_on_its_own(self) -> bool:
        return self.clock.monotonic_ms() < self.store.lease_deadline_ms

    @property
    def changes(self) -> list[Change]:
        return [change for committed in self.committed for change in committed.changes]

    def propose(self, decide: Decide) -> asyncio.Future[BrokerError | None]:
        """The answer. Calling it from outside of the process is a client's request that arrives."""
        answer: asyncio.Future[BrokerError | None] = self.loop.create_future()
        running = asyncio._get_running_loop()
        asyncio._set_running_loop(self.loop)
        try:
            self.store.propose(decide, answer.set_result)
        finally:
            asyncio._set_running_loop(running)
        return answer

    def run(self, work: Coroutine[Any, Any, T] | asyncio.Future[T], seconds: float = 60) -> T:
        task = work if isinstance(work, asyncio.Future) else self.loop.create_task(work)
        self.cluster.run_until(task.done, seconds)
        return task.result()

    def kill(self) -> None:
        self.loop.kill()
