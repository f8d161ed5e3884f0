"""A distributed worker: any number of them with one `group.id` and the same three topics are one Connect cluster.

The composition root of a distributed herder, and what it makes of the properties of `config/distributed_properties.py`.

Workers need no leader for changes: each writes the config topic itself, under the transactional id of the cluster,
which fences every other writer. A worker of Kafka Connect with exactly-once support uses the same id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.connect.config.distributed_properties import DISTRIBUTED, STORAGE_PARTITIONS
from penstock.connect.config.parsing import parse
from penstock.connect.connector import ConnectError
from penstock.connect.herder.membership import PROTOCOL, Membership
from penstock.connect.herder.plugins_interface import Plugins
from penstock.connect.herder.worker_herder import WorkerHerder, WorkerSettings
from penstock.connect.runtime.runner import Runner
from penstock.connect.storage.topic_table import TableTopic, TopicTable, prepare_topic
from penstock.wire.client import WIRE_SETTING_NAMES, WireClient
from penstock.wire.group_member import GroupSettings


@dataclass(frozen=True, slots=True)
class DistributedSettings:
    group_id: str
    configs: TableTopic
    offsets: TableTopic
    statuses: TableTopic
    session_timeout_ms: int
    heartbeat_interval_ms: int
    rebalance_timeout_ms: int
    client: Mapping[str, str]
    """For the wire client."""

    @classmethod
    def parse(cls, properties: Mapping[str, str]) -> DistributedSettings:
        """Of a worker's properties; those of other parts are left to them. Raises ConfigException."""
        values = parse(DISTRIBUTED, properties)
        if values["heartbeat.interval.ms"] * 3 > values["session.timeout.ms"]:
            raise ConnectError(
                f"heartbeat.interval.ms={values['heartbeat.interval.ms']} is more than a third of session.timeout.ms="
                f"{values['session.timeout.ms']}: one lost heartbeat would stop the connectors of a worker"
            )

        def topic(kind: str, partitions: int) -> TableTopic:
            setting = f"{kind}.storage.topic"
            factor = values[f"{kind}.storage.replication.factor"]
            # Kafka Connect's worker passes any topic setting on: `status.storage.max.message.bytes`, say.
            configs = _topic_configs(properties, f"{kind}.storage.")
            return TableTopic(setting, values[setting], partitions, factor, kind == "config", configs)

        topics = {kind: topic(kind, values[f"{kind}.storage.partitions"]) for kind in STORAGE_PARTITIONS}
        return cls(
            values["group.id"],
            topic("config", 1),
            topics["offset"],
            topics["status"],
            values["session.timeout.ms"],
            values["heartbeat.interval.ms"],
            values["rebalance.timeout.ms"],
            {name: value for name, value in properties.items() if name in WIRE_SETTING_NAMES},
        )


def _topic_configs(properties: Mapping[str, str], prefix: str) -> dict[str, str]:
    ours = ("topic", "partitions", "replication.factor", "cleanup.policy")
    return {
        name.removeprefix(prefix): value
        for name, value in properties.items()
        if name.startswith(prefix) and name.removeprefix(prefix) not in ours
    }


def distributed_herder(
    settings: DistributedSettings, worker: WorkerSettings, runner: Runner, plugins: Plugins
) -> WorkerHerder:
    """Creates the offsets topic, whose partitions the workers share out; `start` does everything else."""
    with WireClient(settings.client) as client:
        partition_count = prepare_topic(client, settings.offsets)
        cluster_id = client.metadata([]).cluster_id
    group = GroupSettings(
        settings.group_id,
        settings.offsets.name,
        PROTOCOL,
        settings.session_timeout_ms,
        settings.rebalance_timeout_ms,
    )
    # Kafka Connect's name for it (KIP-618).
    transactional_id = f"connect-cluster-{settings.group_id}"
    return WorkerHerder(
        replace(worker, kafka_cluster_id=worker.kafka_cluster_id or cluster_id or ""),
        TopicTable(settings.client, settings.configs, transactional_id=transactional_id),
        TopicTable(settings.client, settings.statuses),
        Membership(settings.client, group, partition_count, settings.heartbeat_interval_ms),
        runner,
        plugins,
    )
