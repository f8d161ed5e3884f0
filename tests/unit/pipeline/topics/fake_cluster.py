"""A cluster that is a few dictionaries, for what is decided before anybody connects."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from penstock.core.ids import TopicPartition
from penstock.pipeline.topics.offsets import Offsets
from penstock.pipeline.topics.positions import Assign, Selection, Subscribe, SubscribePattern
from penstock.pipeline.topics.resolution import TopicLayout


@dataclass
class FakePartition:
    earliest: int = 0
    latest: int = 0
    timestamps_ms: dict[int, int] = field(default_factory=dict)
    """Offset of the first record that is not older than a timestamp."""


class FakeCluster:
    def __init__(self) -> None:
        self.logs: dict[TopicPartition, FakePartition] = {}
        self.topic_ids: dict[str, bytes] = {}
        self.waits: list[int] = []
        self.is_closed = False

    def create(self, topic: str, *latest: int, topic_id: bytes = b"first") -> None:
        self.topic_ids[topic] = topic_id
        for partition, end in enumerate(latest):
            self.logs[TopicPartition(topic, partition)] = FakePartition(latest=end)

    def delete(self, topic: str) -> None:
        del self.topic_ids[topic]
        self.logs = {partition: log for partition, log in self.logs.items() if partition.topic != topic}

    def log(self, topic: str, partition: int) -> FakePartition:
        return self.logs[TopicPartition(topic, partition)]

    def topics(self, selection: Selection, *, max_age_ms: int = 0) -> Mapping[str, TopicLayout]:
        match selection:
            case Subscribe(topics):
                names = set(topics)
            case Assign(partitions):
                names = {partition.topic for partition in partitions}
            case SubscribePattern(pattern):
                names = {name for name in self.topic_ids if pattern.fullmatch(name)}
        return {
            name: TopicLayout(topic_id, frozenset(p.partition for p in self.logs if p.topic == name))
            for name, topic_id in self.topic_ids.items()
            if name in names
        }

    def earliest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {partition: self.logs[partition].earliest for partition in partitions if partition in self.logs}

    def latest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {partition: self.logs[partition].latest for partition in partitions if partition in self.logs}

    def at_timestamps(self, timestamps_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return {p: self.logs[p].timestamps_ms.get(timestamp) for p, timestamp in timestamps_ms.items()}

    def wait_for_records(self, ends: Offsets, timeout_ms: int) -> None:
        self.waits.append(timeout_ms)

    def close(self) -> None:
        self.is_closed = True
