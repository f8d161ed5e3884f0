"""Several Apache Kafka nodes as one cluster: KRaft combined mode, every node a broker and a controller.

Owns the quorum of the nodes; `apache_kafka.py` owns each process. All other settings are Kafka's defaults.

Invariants: as those of `ApacheKafka`, for every node.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from penstock.testing.apache_kafka import ApacheKafka, free_ports, random_cluster_id, run_kafka_tool


class ApacheKafkaCluster:
    """Nodes with the ids 1 to `nodes`, below `data_dir`, which the caller removes."""

    def __init__(self, data_dir: Path, config: Mapping[str, str] | None = None, *, nodes: int = 3) -> None:
        ports = free_ports(2 * nodes)
        controllers = ports[nodes:]
        quorum = ",".join(f"{number}@127.0.0.1:{port}" for number, port in enumerate(controllers, start=1))
        cluster_id = random_cluster_id()
        self.nodes = {
            number: _Node(
                data_dir / f"node-{number}", config or {}, number, ports[number - 1], port, quorum, cluster_id
            )
            for number, port in enumerate(controllers, start=1)
        }

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(node.bootstrap_servers for node in self.nodes.values())

    def format(self) -> None:
        """Formats the storage of every node, as `start` does by itself at the first start."""
        for node in self.nodes.values():
            node.format()

    def start(self) -> None:
        with ThreadPoolExecutor() as threads:
            for started in [threads.submit(node.start) for node in self.nodes.values()]:
                started.result()

    def kill(self) -> None:
        for node in self.nodes.values():
            node.kill()


class _Node(ApacheKafka):
    def __init__(
        self,
        data_dir: Path,
        config: Mapping[str, str],
        node_id: int,
        port: int,
        controller_port: int,
        quorum: str,
        cluster_id: str,
    ) -> None:
        of_cluster = {
            "node.id": str(node_id),
            "controller.quorum.voters": quorum,
            "default.replication.factor": "3",
            "min.insync.replicas": "2",
            "offsets.topic.replication.factor": "3",
            "transaction.state.log.replication.factor": "3",
            "transaction.state.log.min.isr": "2",
        }
        super().__init__(data_dir=data_dir, config={**of_cluster, **config})
        self._cluster_id = cluster_id
        self.port, self._controller_port = port, controller_port

    def format(self) -> None:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self._write_properties()
        self._format_storage()

    def _format_storage(self) -> None:
        run_kafka_tool(
            "kafka.tools.StorageTool",
            ["format", "--cluster-id", self._cluster_id, "--config", str(self._properties_file), "--ignore-formatted"],
        )
