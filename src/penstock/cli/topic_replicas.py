"""The replicas of topics, for `penstock topic describe` and `penstock cluster describe`.

Invariant: what a broker does not tell is None, as the eligible leader replicas of brokers before KIP-966.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.cli.connection import wire_connected
from penstock.client.admin import TopicDescription
from penstock.core.errors import ClientError, ProtocolError
from penstock.core.ids import NO_LEADER, TopicPartition
from penstock.protocol.error_codes import BrokerError
from penstock.wire.replicas import PartitionReplicas, Reassignment


@dataclass(frozen=True, slots=True)
class Replicas:
    """One partition; `reassignment` is the one in progress."""

    sets: PartitionReplicas
    reassignment: Reassignment | None = None


def replicas_of(configuration: Mapping[str, Any], topics: Sequence[TopicDescription]) -> dict[TopicPartition, Replicas]:
    """librdkafka has neither DescribeTopicPartitions nor ListPartitionReassignments; the wire client has both.

    A broker that does not know them, or that refuses them, leaves what librdkafka was told.
    """
    known = {
        TopicPartition(topic.name, each.partition): PartitionReplicas(
            NO_LEADER if each.leader is None else each.leader, -1, each.replicas, each.in_sync_replicas
        )
        for topic in topics
        for each in topic.partitions
    }
    reassignments: Mapping[TopicPartition, Reassignment] = {}
    try:
        with wire_connected(configuration) as client:
            if known:
                known |= client.describe_replicas([topic.name for topic in topics])
            reassignments = client.list_reassignments()
    except (ClientError, BrokerError, ProtocolError):
        pass  # what is known so far is shown
    return {partition: Replicas(sets, reassignments.get(partition)) for partition, sets in known.items()}


def replica_fields(partition: TopicPartition, replicas: Replicas) -> str:
    """The fields of kafka-topics.sh --describe, which existing scripts parse."""
    sets, reassignment = replicas.sets, replicas.reassignment
    fields = {
        "Topic": partition.topic,
        "Partition": partition.partition,
        "Leader": "none" if sets.is_offline else sets.leader_id,
        "Replicas": _ids(sets.replicas),
        "Isr": _ids(sets.isr),
    }
    if reassignment is not None:
        fields |= {"Adding Replicas": _ids(reassignment.adding), "Removing Replicas": _ids(reassignment.removing)}
    fields |= {"Elr": _ids(sets.elr), "LastKnownElr": _ids(sets.last_known_elr)}
    return "".join(f"\t{name}: {value}" for name, value in fields.items())


def replicas_json(replicas: Replicas) -> dict[str, Any]:
    sets, reassignment = replicas.sets, replicas.reassignment
    return {
        "leader": None if sets.is_offline else sets.leader_id,
        "leader_epoch": None if sets.leader_epoch < 0 else sets.leader_epoch,
        "replicas": list(sets.replicas),
        "isr": list(sets.isr),
        "elr": None if sets.elr is None else list(sets.elr),
        "last_known_elr": None if sets.last_known_elr is None else list(sets.last_known_elr),
        "offline_replicas": list(sets.offline),
        "adding_replicas": [] if reassignment is None else list(reassignment.adding),
        "removing_replicas": [] if reassignment is None else list(reassignment.removing),
    }


def _ids(brokers: Sequence[int] | None) -> str:
    return "N/A" if brokers is None else ",".join(map(str, brokers))
