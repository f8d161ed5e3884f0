"""Three brokers of each kind, for the measurement of replication.

Apache Kafka runs three nodes in combined mode, each a broker and a controller. Penstock runs three brokers and an etcd
of one member, whose CPU time and memory count as the cluster's. Owns their processes; it must not know what is
measured.

Invariant: after the context, also after an exception, every process has ended and the data is deleted.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from penstock.bench.peers import APACHE_KAFKA, Contestant
from penstock.protocol.definitions.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from penstock.testing.apache_kafka_cluster import ApacheKafkaCluster
from penstock.testing.broker import Broker
from penstock.testing.etcd import Etcd
from penstock.wire.cluster import Cluster as WireCluster
from penstock.wire.settings import WireSettings

BROKERS: Final = 3
_HOST: Final = "127.0.0.1"


class BenchCluster(ABC):
    """Started once. Brokers have the ids 1 to 3."""

    @property
    @abstractmethod
    def bootstrap_servers(self) -> str: ...

    @property
    @abstractmethod
    def pids(self) -> list[int]:
        """Of every process that runs."""

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def kill(self, number: int) -> None: ...

    @abstractmethod
    def stop(self, number: int) -> None:
        """A controlled shutdown."""

    @abstractmethod
    def restart(self, number: int) -> None: ...

    @abstractmethod
    def controller(self) -> int: ...

    @abstractmethod
    def close(self) -> None: ...


@contextlib.contextmanager
def prepared_cluster(
    contestant: Contestant, parent: Path, config: Mapping[str, str] | None = None
) -> Iterator[BenchCluster]:
    """A cluster that has not started, on empty directories."""
    parent.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix=f"{contestant.name}-cluster-", dir=parent))
    try:
        cluster: BenchCluster
        if contestant.name == APACHE_KAFKA:
            cluster = _ApacheKafka(directory, config or {})
        else:
            cluster = _Penstock(directory, config or {})
        try:
            yield cluster
        finally:
            cluster.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


class _ApacheKafka(BenchCluster):
    def __init__(self, directory: Path, config: Mapping[str, str]) -> None:
        self._cluster = ApacheKafkaCluster(directory, config)
        # An installation formats its storage once, and not at every start.
        self._cluster.format()

    @property
    def bootstrap_servers(self) -> str:
        return self._cluster.bootstrap_servers

    @property
    def pids(self) -> list[int]:
        return [node.pid for node in self._cluster.nodes.values() if node.is_running()]

    def start(self) -> None:
        self._cluster.start()

    def kill(self, number: int) -> None:
        self._cluster.nodes[number].kill()

    def stop(self, number: int) -> None:
        self._cluster.nodes[number].stop()

    def restart(self, number: int) -> None:
        self._cluster.nodes[number].start()

    def controller(self) -> int:
        """Metadata names any broker here; the leader of the quorum is the active controller."""
        request = DescribeQuorumRequest(
            topics=[
                RequestTopicData(topic_name="__cluster_metadata", partitions=[RequestPartitionData(partition_index=0)])
            ]
        )
        cluster = WireCluster(WireSettings.parse({"bootstrap.servers": self.bootstrap_servers}))
        try:
            answer = cluster.ask_any(
                "the quorum", lambda connection: connection.ask(request, connection.version_for(DescribeQuorumRequest))
            )
        finally:
            cluster.close()
        return int(answer.topics[0].partitions[0].leader_id)

    def close(self) -> None:
        self._cluster.kill()


class _Penstock(BenchCluster):
    def __init__(self, directory: Path, config: Mapping[str, str]) -> None:
        self._directory = directory
        self._config = config
        self._etcd = Etcd(directory / "etcd")
        self._brokers: dict[int, Broker] = {}

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.bootstrap_servers for broker in self._brokers.values())

    @property
    def pids(self) -> list[int]:
        return [self._etcd.pid(), *(each.pid for each in self._brokers.values() if each.is_running())]

    def start(self) -> None:
        self._etcd.start()
        for number in range(1, BROKERS + 1):
            settings = {
                "node.id": str(number),
                "metadata.store": self._etcd.url,
                "default.replication.factor": "3",
                "min.insync.replicas": "2",
                "offsets.topic.replication.factor": "3",
                "transaction.state.log.replication.factor": "3",
                "transaction.state.log.min.isr": "2",
                **self._config,
            }
            self._brokers[number] = Broker(config=settings, data_dir=self._directory / f"broker-{number}")
        with ThreadPoolExecutor() as threads:
            for started in [threads.submit(broker.start) for broker in self._brokers.values()]:
                started.result()

    def kill(self, number: int) -> None:
        self._brokers[number].kill()

    def stop(self, number: int) -> None:
        self._brokers[number].stop()

    def restart(self, number: int) -> None:
        self._brokers[number].start()

    def controller(self) -> int:
        cluster = WireCluster(WireSettings.parse({"bootstrap.servers": self.bootstrap_servers}))
        try:
            return cluster.fetch_metadata([], allow_auto_topic_creation=False).controller_id
        finally:
            cluster.close()

    def close(self) -> None:
        for broker in self._brokers.values():
            broker.kill()
        self._etcd.close()
