"""Creates topics. It must never know what they are for."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.protocol.definitions.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.protocol.error_codes import ErrorCode
from penstock.wire.cluster import Cluster
from penstock.wire.connection import Connection
from penstock.wire.errors import Right, require_success


def create_topic(
    cluster: Cluster,
    name: str,
    partitions: int,
    replication_factor: int,
    configs: Mapping[str, str],
    timeout_s: float | None,
) -> bool:
    """Any broker passes the request on to the controller."""
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replication_factor)
    topic.configs.extend(CreatableTopicConfig(name=each, value=value) for each, value in configs.items())
    request = CreateTopicsRequest(topics=[topic], timeout_ms=cluster.settings.times_ms["request.timeout.ms"])

    def attempt(connection: Connection) -> bool:
        response: CreateTopicsResponse = connection.ask(request, connection.version_for(CreateTopicsRequest))
        (result,) = response.topics
        if result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
            return False
        require_success(
            result.error_code, f"topic '{name}'", result.error_message, needs=(Right("Create", "topic", name),)
        )
        return True

    return cluster.ask_any(f"topic '{name}'", attempt, timeout_s)
