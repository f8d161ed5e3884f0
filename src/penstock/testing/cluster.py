"""A real cluster for a test: brokers and an etcd as processes on loopback, with faults on call.

Owns the order of starts, the addresses, and the network between the nodes. A broker reaches each of its peers, and
etcd, through a relay of their ordered pair (`relays.py`): every broker has a listener `FROM_<n>` for each peer n, which
advertises the relay's port, and n's `inter.broker.listener.name` is `FROM_<n>`. Clients use the listener `CLIENT`
without a relay: a broker that is cut off from its peers still answers clients, as behind a broken switch.

It must not use the brokers' internals: a test sees what every Kafka client sees.

Invariants: ports and data survive `stop`, `kill` and `restart`; after the context no process and no temporary directory
remains.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

from penstock.client.local_broker.process import BrokerProcessError
from penstock.core.errors import PenstockError
from penstock.core.exit_codes import ExitCode
from penstock.testing.broker import Broker
from penstock.testing.etcd import Etcd
from penstock.testing.faulty_broker import Faults
from penstock.testing.ports import lasting_ports
from penstock.testing.relays import Relays
from penstock.wire.client import ClusterMetadata, WireClient

ETCD: Final = "etcd"
Node = int | Literal["etcd"]

_HOST: Final = "127.0.0.1"
_POLL_S: Final = 0.02
_START_ATTEMPTS: Final = 5
# Kafka's 9 s and 2 s suit machines far apart. On loopback a test need not wait that long for a dead broker.
_SESSION_TIMEOUT_MS: Final = 3000
_HEARTBEAT_MS: Final = 500


class Cluster:
    """Brokers with the ids 1 to `brokers`. `config` has settings of all of them, `broker_configs` those
    of single ones.

    Internal topics have a replica on three brokers, or on all if there are fewer, and so have topics that are created
    without a replication factor. `min.insync.replicas` is 2 from three brokers on, so that one broker may fail. The
    session timeout is 3 s instead of Kafka's 9 s.

    with Cluster(brokers=3) as cluster:
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
        cluster.kill(cluster.leader("orders", 0))
    """

    def __init__(
        self,
        *,
        brokers: int = 3,
        config: Mapping[str, str] | None = None,
        broker_configs: Mapping[int, Mapping[str, str]] | None = None,
        etcd_members: int = 1,
        start_timeout_s: float = 60.0,
    ) -> None:
        if brokers < 1:
            raise ValueError("a cluster has at least one broker")
        self.broker_ids: Final = tuple(range(1, brokers + 1))
        self._config = dict(config or {})
        self._broker_configs = dict(broker_configs or {})
        self._etcd_members = etcd_members
        self._start_timeout_s = start_timeout_s
        self._directory: Path | None = None
        self._relays: Relays | None = None
        self._etcd: Etcd | None = None
        self._brokers: dict[int, _ClusterBroker] = {}

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers; restarts do not change them."""
        return ",".join(self.broker(number).bootstrap_servers for number in self.broker_ids)

    @property
    def etcd(self) -> Etcd:
        if self._etcd is None:
            raise RuntimeError("this cluster has not started: use it as a context manager, or call start()")
        return self._etcd

    def broker(self, number: int) -> Broker:
        """Its address, data directory, process id and error output."""
        if number not in self._brokers:
            known = ", ".join(map(str, self._brokers)) or "none, it has not started"
            raise KeyError(f"this cluster has no broker {number}; it has {known}")
        return self._brokers[number]

    def start(self) -> None:
        """Returns when each broker accepts connections and knows the others."""
        if self._directory is not None:
            raise RuntimeError("this cluster has already started")
        self._directory = Path(tempfile.mkdtemp(prefix="penstock-cluster-"))
        try:
            self._etcd = Etcd(self._directory / "etcd", members=self._etcd_members)
            self._etcd.start()
            self._relays = Relays()
            self._start_brokers()
            self.wait_until(lambda seen: len(seen.brokers) == len(self.broker_ids), "all brokers know each other")
        except BaseException:
            self.close()
            raise

    def _start_brokers(self) -> None:
        for attempt in range(1, _START_ATTEMPTS + 1):
            self._prepare_brokers()
            try:
                in_parallel(lambda broker: broker.start(), self._brokers.values())
            except BrokerProcessError as failure:
                if attempt == _START_ATTEMPTS or failure.exit_code != ExitCode.CANNOT_LISTEN:
                    raise
                self._kill_brokers()  # another process has taken a port: try others
            else:
                return

    def _prepare_brokers(self) -> None:
        assert self._directory is not None
        assert self._relays is not None
        count = len(self.broker_ids)
        ports = lasting_ports(count * (count + 1))
        of_peers = {
            number: dict(zip(self.broker_ids, ports[count + index * count :], strict=False))
            for index, number in enumerate(self.broker_ids)
        }
        for index, number in enumerate(self.broker_ids):
            listeners = {"CLIENT": ports[index]} | {f"FROM_{peer}": of_peers[number][peer] for peer in self.broker_ids}
            advertised = listeners | {
                f"FROM_{peer}": self._relays.add(str(peer), str(number), of_peers[number][peer])
                for peer in self.broker_ids
                if peer != number
            }
            etcd_ports = [self._relays.add(str(number), ETCD, port) for port in self.etcd.ports]
            self._brokers[number] = _ClusterBroker(
                self._settings(number, listeners, advertised, etcd_ports),
                self._directory / f"broker-{number}",
                Faults(self._directory / f"faults-{number}"),
                self._start_timeout_s,
            )

    def _settings(
        self, number: int, listeners: Mapping[str, int], advertised: Mapping[str, int], etcd_ports: Sequence[int]
    ) -> dict[str, str]:
        replicas = min(3, len(self.broker_ids))
        in_sync_min = 2 if replicas >= 3 else 1
        return {
            "node.id": str(number),
            "metadata.store": "etcd://" + ",".join(f"{_HOST}:{port}" for port in etcd_ports),
            "listeners": _listener_text(listeners),
            "advertised.listeners": _listener_text(advertised),
            "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in listeners),
            "inter.broker.listener.name": f"FROM_{number}",
            "broker.session.timeout.ms": str(_SESSION_TIMEOUT_MS),
            "broker.heartbeat.interval.ms": str(_HEARTBEAT_MS),
            "default.replication.factor": str(replicas),
            "min.insync.replicas": str(in_sync_min),
            "offsets.topic.replication.factor": str(replicas),
            "transaction.state.log.replication.factor": str(replicas),
            "transaction.state.log.min.isr": str(in_sync_min),
            **self._config,
            **self._broker_configs.get(number, {}),
        }

    # Faults

    def kill(self, number: int) -> None:
        """SIGKILL. The others elect new leaders when its session has timed out."""
        self.broker(number).kill()

    def stop(self, number: int) -> None:
        """SIGTERM: a controlled shutdown, which moves leadership first."""
        self.broker(number).stop()

    def restart(self, number: int) -> None:
        """Starts the broker on its data and ports, after a controlled shutdown if it is running."""
        self.broker(number).restart()

    def pause(self, number: int) -> None:
        """SIGSTOP: it keeps its connections, answers nothing, and does not know that time passes."""
        self.broker(number).pause()

    def resume(self, number: int) -> None:
        self.broker(number).resume()

    def partition(self, a: Node, b: Node, *, one_way: bool = False) -> None:
        """Cuts the network between two brokers, or between a broker and `"etcd"`. With `one_way`, only what `a` sends
        to `b` does not arrive. The bytes wait, as in a network that loses packets, and arrive after `heal`."""
        relays = self._network()
        self._check_nodes(a, b)
        relays.cut(str(a), str(b))
        if not one_way:
            relays.cut(str(b), str(a))

    def isolate(self, number: int) -> None:
        """Cuts a broker off from all its peers and from etcd. Clients still reach it."""
        for other in (*self.broker_ids, ETCD):
            if other != number:
                self.partition(number, other)  # type: ignore[arg-type]

    def heal(self) -> None:
        """Ends all cuts."""
        self._network().heal()

    def lose_unsynced(self, number: int) -> int:
        """SIGKILL, and a power failure: what was not synced to disk is gone. Returns the number of lost bytes."""
        broker = self._member(number)
        broker.kill()
        return broker.faults.lose_unsynced(broker.data_dir)

    def skew_clock(self, number: int, seconds: float) -> None:
        """From now on the broker's wall clock is wrong by so many seconds, also after restarts."""
        self._member(number).faults.skew_clock(round(seconds * 1000))

    # State

    def metadata(self, topics: Sequence[str] | None = None) -> ClusterMetadata:
        """What one of the running brokers says. Without `topics`, of all."""
        with WireClient({"bootstrap.servers": self._running_servers}) as client:
            return client.metadata(topics)

    @property
    def _running_servers(self) -> str:
        return ",".join(broker.bootstrap_servers for broker in self._brokers.values() if broker.is_running())

    def leader(self, topic: str, partition: int = 0) -> int:
        """The broker that leads the partition; -1 while there is none."""
        return self.metadata([topic]).topics[topic].partitions[partition].leader_id

    def coordinator(self, group: str) -> int:
        """The broker that coordinates the consumer group."""
        with WireClient({"bootstrap.servers": self._running_servers}) as client:
            return client.group_coordinator(group)

    def wait_until_in_sync(self, timeout_s: float = 60.0) -> None:
        """Returns when every replica of every partition is in sync, and each partition is led."""

        def in_sync(seen: ClusterMetadata) -> bool:
            return len(seen.brokers) == len(self.broker_ids) and all(
                partition.leader_id >= 0 and set(partition.in_sync_replicas) == set(partition.replicas)
                for topic in seen.topics.values()
                for partition in topic.partitions.values()
            )

        self.wait_until(in_sync, "every replica is in sync", timeout_s)

    def wait_until(self, condition: Callable[[ClusterMetadata], bool], what: str, timeout_s: float = 60.0) -> None:
        """Returns when each running broker describes the cluster so; raises TimeoutError that says `what`."""
        deadline = time.monotonic() + timeout_s
        waiting = [broker for broker in self._brokers.values() if broker.is_running()]
        while waiting:
            waiting = [broker for broker in waiting if not _describes(broker, condition)]
            if waiting and time.monotonic() > deadline:
                where = ", ".join(broker.bootstrap_servers for broker in waiting)
                raise TimeoutError(f"not within {timeout_s:g} s: {what}, says the broker on {where}")
            if waiting:
                time.sleep(_POLL_S)

    def close(self) -> None:
        """Kills all processes and removes their data."""
        self._kill_brokers()
        if self._relays is not None:
            self._relays.close()
        if self._etcd is not None:
            self._etcd.close()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
        self._directory = self._relays = self._etcd = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            for number, broker in self._brokers.items():
                error.add_note(f"broker {number}: {broker.stderr_text() or 'printed nothing, or is not running'}")
        self.close()

    def _member(self, number: int) -> _ClusterBroker:
        self.broker(number)
        return self._brokers[number]

    def _network(self) -> Relays:
        if self._relays is None:
            raise RuntimeError("this cluster is not running")
        return self._relays

    def _check_nodes(self, *nodes: Node) -> None:
        for node in nodes:
            if node != ETCD:
                self.broker(node)

    def _kill_brokers(self) -> None:
        for broker in self._brokers.values():
            broker.kill()


class _ClusterBroker(Broker):
    def __init__(self, config: Mapping[str, str], data_dir: Path, faults: Faults, start_timeout_s: float) -> None:
        super().__init__(config=config, data_dir=data_dir, start_timeout_s=start_timeout_s)
        self.faults = faults
        self._program = faults.program


def _listener_text(ports: Mapping[str, int]) -> str:
    return ",".join(f"{name}://{_HOST}:{port}" for name, port in ports.items())


def _describes(broker: Broker, condition: Callable[[ClusterMetadata], bool]) -> bool:
    if not broker.is_running():
        return True
    with suppress(PenstockError), WireClient({"bootstrap.servers": broker.bootstrap_servers}) as client:
        return condition(client.metadata(timeout_s=1.0))
    return False


def in_parallel(start: Callable[[_ClusterBroker], None], brokers: Iterable[_ClusterBroker]) -> None:
    """Raises the first failure when all have returned."""
    with ThreadPoolExecutor() as threads:
        for outcome in [threads.submit(start, broker) for broker in brokers]:
            outcome.result()
