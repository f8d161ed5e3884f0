from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.topic_table import Topic, TopicTable
from penstock.protocol.definitions.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from penstock.protocol.error_codes import ErrorCode
from tests.unit.broker.handlers.requests import Client, versions_of


@dataclass
class LogOfSize:
    size_bytes: int


@dataclass
class PartitionOfSize:
    index: int
    log: LogOfSize


@dataclass
class Directory:
    path: Path


class NodeWithLogs:
    """The part of a node that knows its logs' sizes."""

    def __init__(self, path: Path, sizes: dict[str, list[int]]) -> None:
        self.log_directory = Directory(path)
        self.topics = TopicTable()
        for number, (name, topic_sizes) in enumerate(sizes.items()):
            partitions: list[Any] = [PartitionOfSize(index, LogOfSize(size)) for index, size in enumerate(topic_sizes)]
            self.topics.add(Topic(name, bytes([number]) * 16, partitions))


def ask(path: Path, request: DescribeLogDirsRequest, version: int) -> Any:
    node: Any = NodeWithLogs(path, {"orders": [10, 20], "payments": [30]})
    return Client(node).ask(request, version)


def sizes(result: Any) -> dict[str, list[tuple[int, int]]]:
    return {
        topic.name: [(partition.partition_index, partition.partition_size) for partition in topic.partitions]
        for topic in result.topics
    }


@pytest.mark.parametrize("version", versions_of(DescribeLogDirsRequest))
def test_every_partition_is_shown_in_every_version(tmp_path: Path, version: int) -> None:
    response = ask(tmp_path, DescribeLogDirsRequest(topics=None), version)
    [result] = response.results
    assert (result.error_code, result.log_dir) == (0, str(tmp_path))
    assert sizes(result) == {"orders": [(0, 10), (1, 20)], "payments": [(0, 30)]}
    if version >= 4:
        assert result.total_bytes == shutil.disk_usage(tmp_path).total
        assert 0 < result.usable_bytes <= result.total_bytes


def test_only_what_exists_and_was_asked_for_is_shown(tmp_path: Path) -> None:
    wanted = [
        DescribableLogDirTopic(topic="orders", partitions=[1, 1, 7, -1]),
        DescribableLogDirTopic(topic="none", partitions=[0]),
    ]
    [result] = ask(tmp_path, DescribeLogDirsRequest(topics=wanted), 4).results
    assert sizes(result) == {"orders": [(1, 20)]}


def test_a_directory_that_cannot_be_asked_is_a_storage_error(tmp_path: Path) -> None:
    missing = tmp_path / "gone"
    [result] = ask(missing, DescribeLogDirsRequest(topics=None), 4).results
    assert (result.error_code, result.topics) == (ErrorCode.KAFKA_STORAGE_ERROR, [])
