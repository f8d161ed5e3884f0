"""How many bytes partitions take on the disks of their brokers. It must never know records."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from penstock.core.ids import TopicPartition
from penstock.protocol.definitions.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from penstock.wire.cluster import Cluster
from penstock.wire.connection import Connection
from penstock.wire.errors import ConnectionLost, require_success

_ERROR_CODE_SINCE: Final = 3


def partition_sizes(cluster: Cluster, timeout_s: float | None) -> dict[TopicPartition, int]:
    """The largest replica of every partition, in bytes; log directories and brokers that are offline are left out."""
    metadata = cluster.ask_any(
        "cluster metadata", lambda _: cluster.fetch_metadata(None, allow_auto_topic_creation=False), timeout_s
    )
    request = DescribeLogDirsRequest(
        topics=[
            DescribableLogDirTopic(topic=name, partitions=list(topic.partitions))
            for name, topic in metadata.topics.items()
        ]
    )
    sizes: dict[TopicPartition, int] = {}
    for node_id in metadata.brokers:
        with suppress(ConnectionLost):
            for partition, size in _sizes_at(cluster.connection(node_id), request).items():
                sizes[partition] = max(size, sizes.get(partition, 0))
    return sizes


def _sizes_at(connection: Connection, request: DescribeLogDirsRequest) -> Mapping[TopicPartition, int]:
    version = connection.version_for(DescribeLogDirsRequest)
    response: DescribeLogDirsResponse = connection.ask(request, version)
    if version >= _ERROR_CODE_SINCE:
        require_success(response.error_code, "log directories")
    return {
        TopicPartition(topic.name, partition.partition_index): partition.partition_size
        for directory in response.results
        if not directory.error_code
        for topic in directory.topics
        for partition in topic.partitions
        if not partition.is_future_key
    }
