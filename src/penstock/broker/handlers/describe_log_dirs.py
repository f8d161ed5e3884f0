"""DescribeLogDirs: how much of the disk each partition takes, and how much the disk has left.

There is one log directory, and no replica ever moves between directories: nothing lags behind and none is a future
one. Topics and partitions that do not exist are left out, as Kafka does. Versions: 1 to 5.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclOperation
from penstock.protocol.definitions.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from penstock.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from penstock.broker.node import Node
    from penstock.broker.partition import Partition


def handle(request: DescribeLogDirsRequest, context: RequestContext) -> DescribeLogDirsResponse:
    if not context.access.may_with_cluster(AclOperation.DESCRIBE):
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    node = context.node
    result = DescribeLogDirsResult(log_dir=os.path.abspath(node.log_directory.path))
    try:
        disk = shutil.disk_usage(node.log_directory.path)
        result.total_bytes, result.usable_bytes = disk.total, disk.free
        result.topics = [
            DescribeLogDirsTopic(name=name, partitions=[_described(partition) for partition in partitions])
            for name, partitions in _wanted(request, node)
        ]
    except OSError:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    return DescribeLogDirsResponse(results=[result])


def _wanted(request: DescribeLogDirsRequest, node: Node) -> Iterable[tuple[str, list[Partition]]]:
    """The replicas on this broker, by topic."""
    if request.topics is None:
        for topic in node.topics:
            yield topic.name, [partition for partition in topic.partitions if partition is not None]
        return
    for wanted in request.topics:
        if wanted.topic not in node.topics:
            continue
        indexes = set(wanted.partitions)
        partitions = node.topics.topic(wanted.topic).partitions
        yield (
            wanted.topic,
            [partition for partition in partitions if partition is not None and partition.index in indexes],
        )


def _described(partition: Partition) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(partition_index=partition.index, partition_size=partition.log.size_bytes)
