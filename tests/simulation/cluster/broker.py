"""One simulated broker: a machine with a disk, and the processes that run on it one after another.

A process is a whole node, built as the composition root builds it. A kill ends it between two events and leaves the
disk as it is; a crash also takes from the disk what was not synced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from penstock.core.ids import BrokerId
from penstock.metadata.key_value_store import LeaseId
from tests.clocks import SeededEntropy
from tests.memory_filesystem import MemoryFileSystem
from tests.simulation.cluster.client import broker_host
from tests.simulation.cluster.process import BrokerProcess
from tests.simulation.cluster.world import ProcessLoop

if TYPE_CHECKING:
    from penstock.broker.partition import Partition
    from tests.simulation.cluster.cluster import Cluster

DRIFT: Final = 0.001
_HOUR_MS: Final = 3_600_000


class Directory:
    """What a broker keeps beside its logs: its cluster, and the lease of its last session.

    In the place of `broker/etcd/broker_directory.py`. Files that are synced when they are written survive a crash.
    """

    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self.lease_id: LeaseId | None = None

    def close(self) -> None:
        """There is no lock: a broker has one process at a time here."""

    def join(self, cluster_id: str, new_uuid: Callable[[], bytes]) -> None:
        assert self.cluster_id in (None, cluster_id)
        self.cluster_id = cluster_id

    def last_lease(self) -> LeaseId | None:
        return self.lease_id

    def keep_lease(self, lease_id: LeaseId) -> None:
        self.lease_id = lease_id


class Broker:
    def __init__(self, cluster: Cluster, broker_id: int) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.broker_id = BrokerId(broker_id)
        self.host = broker_host(broker_id)
        self.disk = MemoryFileSystem()
        self.process: BrokerProcess | None = None
        self.directory = Directory()
        self.is_lossy = False
        """It lost unsynced data and was not in sync everywhere since."""
        self._lost_at_epoch: int | None = None
        self._processes = 0
        self._rate = 1 + self.world.random.uniform(-DRIFT, DRIFT)
        self._wall_offset_ms = self.world.random.randrange(-_HOUR_MS, _HOUR_MS)
        self._end_offsets: dict[tuple[bytes, int], int] = {}

    def __repr__(self) -> str:
        return f"broker {self.broker_id}"

    # Asked by the nemesis and the invariants

    @property
    def is_up(self) -> bool:
        return self.process is not None

    @property
    def is_serving(self) -> bool:
        return self.process is not None and self.process.is_serving

    @property
    def is_paused(self) -> bool:
        return self.process is not None and self.process.loop.is_paused

    @property
    def has_lost_records(self) -> bool:
        """Its disk was set back, and it has not registered since."""
        if self._lost_at_epoch is None:
            return False
        known = self.cluster.truth.image.known_brokers.get(self.broker_id)
        if known is not None and known.epoch > self._lost_at_epoch:
            self._lost_at_epoch = None
        return self._lost_at_epoch is not None

    def replicas(self) -> Iterator[Partition]:
        """Of the process that runs."""
        if self.process is not None and self.process.is_open:
            yield from self.process.node.topics.replicas()

    def end_offsets(self) -> dict[tuple[bytes, int], int]:
        """Of the logs on its disk, also while no process runs."""
        if self.process is not None and self.process.is_open:
            self._end_offsets = {
                (partition.topic_id, partition.index): partition.log.log_end_offset for partition in self.replicas()
            }
        return self._end_offsets

    # What happens to it

    def start(self) -> None:
        self._processes += 1
        self.world.note(f"{self} starts")
        name = f"broker{self.broker_id}.{self._processes}"
        loop = ProcessLoop(self.world, name, rate=self._rate, wall_offset_ms=self._wall_offset_ms)
        loop.is_watched = True
        self.cluster.network.join(loop, self.host)
        entropy = SeededEntropy(self.world.random.getrandbits(32))
        self.process = BrokerProcess(self, loop, entropy)
        self.process.start(self._stopped)

    def kill(self) -> None:
        self.world.note(f"{self} is killed")
        self._end()
        self.disk = self.disk.copy()

    def crash(self) -> None:
        self.world.note(f"{self} crashes")
        known = self.cluster.truth.image.known_brokers.get(self.broker_id)
        self._end()
        self._lost_at_epoch = known.epoch if known is not None else 0
        self.is_lossy = True
        random = self.world.random

        def keep(path: str, unsynced: int) -> int:
            """Nothing, everything, or a part of what was not synced; of names that were not synced, most."""
            if unsynced < 0:
                return int(random.random() < 0.8)
            return random.choice((0, unsynced, random.randrange(unsynced + 1)))

        self.disk = self.disk.crash(keep)

    def stop(self) -> None:
        """A controlled shutdown, which takes its time."""
        self.world.note(f"{self} is told to stop")
        assert self.process is not None
        self.process.stop()

    def pause(self) -> None:
        self.world.note(f"{self} is paused")
        assert self.process is not None
        self.process.loop.pause()

    def resume(self) -> None:
        self.world.note(f"{self} goes on")
        assert self.process is not None
        self.process.loop.resume()

    def set_wall_clock(self, offset_ms: int) -> None:
        """For the next process. A clock that jumps under a running one ends its open transactions, as in Kafka."""
        self._wall_offset_ms = offset_ms

    def _stopped(self, process: BrokerProcess) -> None:
        if process is self.process:
            self.world.note(f"{self} has stopped")
            self._end()
            self.disk = self.disk.copy()
            if self.cluster.is_healed:
                self.start()

    def _end(self) -> None:
        self.end_offsets()
        process, self.process = self.process, None
        assert process is not None
        process.loop.kill()
        self.cluster.network.host_died(process.loop)
        self.cluster.died(process)
