"""Kafka's JSON files of partitions: those of kafka-reassign-partitions.sh and kafka-leader-election.sh.

    {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2, 3]}]}

Invariant: a mistake in a file is a usage error that names the file and the entry.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.cli.command_error import usage_error
from penstock.core.ids import TopicPartition


def partitions_in(path: Path) -> list[TopicPartition]:
    """The partitions, each of them once."""
    return [partition for partition, _ in _entries(path)]


def replicas_in(path: Path) -> dict[TopicPartition, list[int]]:
    """The partitions with their replicas."""
    found = {}
    for partition, entry in _entries(path):
        replicas = entry.get("replicas")
        if not isinstance(replicas, list) or not replicas or not all(type(each) is int for each in replicas):
            raise usage_error(f'{path}: {partition_name(partition)} needs "replicas", a list of broker ids')
        if any(each != "any" for each in entry.get("log_dirs", ())):
            raise usage_error(
                f'{path}: {partition_name(partition)}: a broker chooses its directory; write "any" in "log_dirs"'
            )
        if len(set(replicas)) < len(replicas):
            raise usage_error(f"{path}: {partition_name(partition)} has a broker twice")
        found[partition] = replicas
    return found


def partition_name(partition: TopicPartition) -> str:
    """As Kafka's tools write it."""
    return f"{partition.topic}-{partition.partition}"


def file_text(replicas: Mapping[TopicPartition, Sequence[int]]) -> str:
    """A file of kafka-reassign-partitions.sh."""
    partitions = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "replicas": list(brokers),
            "log_dirs": ["any"] * len(brokers),
        }
        for each, brokers in sorted(replicas.items())
    ]
    return json.dumps({"version": 1, "partitions": partitions})


def _entries(path: Path) -> Iterator[tuple[TopicPartition, dict[str, Any]]]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise usage_error(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise usage_error(f"{path}: not JSON: {error}") from error
    entries = content.get("partitions") if isinstance(content, dict) else None
    if not isinstance(entries, list) or not entries:
        raise usage_error(f'{path}: expected {{"partitions": [...]}} with at least one partition')
    seen = set()
    for number, entry in enumerate(entries):
        topic, index = (entry.get("topic"), entry.get("partition")) if isinstance(entry, dict) else (None, None)
        if not isinstance(topic, str) or type(index) is not int:
            raise usage_error(f'{path}: entry {number} of "partitions" needs "topic" and "partition"')
        partition = TopicPartition(topic, index)
        if partition in seen:
            raise usage_error(f"{path}: {partition_name(partition)} is there twice")
        seen.add(partition)
        yield partition, entry
