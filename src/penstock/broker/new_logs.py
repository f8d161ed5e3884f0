"""The logs of partitions that a proposal adds, on a broker without a cluster. They are made before it is committed.

A disk that has no room for a topic's directories must not have the topic. Of a single broker only: in a cluster each
broker makes its logs when the change is committed. Owns making them, and removing them if the proposal fails or is
decided again. Topics and partitions are served by `node.py`, once the change is committed.

Invariant: a proposal that was refused leaves no log behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.metadata.changes import Change, PartitionsAdded, TopicCreated
from penstock.metadata.image import ClusterImage
from penstock.protocol.error_codes import BrokerError, ErrorCode

if TYPE_CHECKING:
    from penstock.broker.node import Node


class NewLogs:
    """Those of one proposal."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._made: list[tuple[str, int]] = []

    def make(self, changes: Sequence[Change], image: ClusterImage) -> None:
        """Raises BrokerError, and makes none then."""
        try:
            for change in changes:
                self._make(change, image)
        except OSError as error:
            self.remove()
            raise BrokerError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"The broker cannot write to its disk: {error.strerror}."
            ) from error

    def remove(self) -> None:
        directory = self._node.log_directory
        while self._made:
            self._node.remove_later(directory.delete(*self._made.pop(), self._node.entropy.uuid().hex()))

    def _make(self, change: Change, image: ClusterImage) -> None:
        match change:
            case TopicCreated(topic):
                partitions = topic.partitions
            case PartitionsAdded(topic_id, partitions):
                topic = image.topics_by_id[topic_id]
            case _:
                return
        node = self._node
        settings = node.log_config_of(topic)
        for partition in partitions:
            if node.broker_id not in partition.replicas:
                continue
            if (topic.name, partition.index) in node.log_directory.logs:
                # Of a topic of this name whose deletion is committed in the same round. The new log is made after it.
                continue
            node.log_directory.create(topic.name, partition.index, topic.topic_id, settings, node.now_ms())
            self._made.append((topic.name, partition.index))
