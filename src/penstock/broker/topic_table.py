"""The topics that this broker serves, by name and by id.

The cluster image lists all topics of the cluster; this table holds the replicas that this broker runs for them. A
client's request finds the partitions here that the broker leads, or the error code that says why not.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.broker.partition import Partition
from penstock.protocol.error_codes import BrokerError, ErrorCode


class Topic:
    """One topic's partitions by index; None where this broker has no replica."""

    __slots__ = ("name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: bytes, partitions: list[Partition | None]) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = partitions


class TopicTable:
    """Looked up on every produce and fetch."""

    __slots__ = ("_by_id", "_by_name")

    def __init__(self) -> None:
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._by_name.values())

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def add(self, topic: Topic) -> None:
        assert topic.name not in self._by_name
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic

    def remove(self, name: str) -> Topic:
        topic = self._by_name.pop(name)
        del self._by_id[topic.topic_id]
        return topic

    def topic(self, name: str) -> Topic:
        topic = self._by_name.get(name)
        if topic is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {name!r}.")
        return topic

    def name_of(self, topic_id: bytes) -> str:
        topic = self._by_id.get(topic_id)
        if topic is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_ID, f"There is no topic with the id {topic_id.hex()}.")
        return topic.name

    def partition(self, name: str, index: int) -> Partition:
        return _partition(self.topic(name), index)

    def partition_by_id(self, topic_id: bytes, index: int) -> Partition:
        topic = self._by_id.get(topic_id)
        if topic is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_ID, f"There is no topic with the id {topic_id.hex()}.")
        return _partition(topic, index)

    def readable(self, name: str, index: int) -> Partition:
        """As `partition`, or a follower: consumers may read from it, up to the high watermark that it knows."""
        return _readable(self.topic(name), index)

    def readable_by_id(self, topic_id: bytes, index: int) -> Partition:
        topic = self._by_id.get(topic_id)
        return self.partition_by_id(topic_id, index) if topic is None else _readable(topic, index)

    def replicas(self) -> Iterator[Partition]:
        """Every partition that this broker has a replica of, as leader or follower."""
        for topic in self._by_name.values():
            for partition in topic.partitions:
                if partition is not None:
                    yield partition

    def led(self) -> Iterator[Partition]:
        """Every partition that this broker leads."""
        return (partition for partition in self.replicas() if partition.is_leader)


def _partition(topic: Topic, index: int) -> Partition:
    if not 0 <= index < len(topic.partitions):
        raise BrokerError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"Topic {topic.name!r} has partitions 0 to {len(topic.partitions) - 1}, not {index}.",
        )
    partition = topic.partitions[index]
    if partition is None or not partition.is_leader:
        if partition is not None and partition.offline_reason is not None:
            reason = partition.offline_reason
            raise BrokerError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{partition} is offline: {reason.filename}: {reason.strerror}."
            )
        raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"This broker does not lead {topic.name}-{index}.")
    return partition


def _readable(topic: Topic, index: int) -> Partition:
    if 0 <= index < len(topic.partitions):
        partition = topic.partitions[index]
        if partition is not None and partition.is_readable_follower:
            return partition
    return _partition(topic, index)
