"""Whether a consumer has read everything that it is assigned: asked of the brokers, not concluded from silence.

Owns the ends that librdkafka reported for partitions, and the admin client that asks for the current ones. It must
never know records or commits.

Invariant: `is_reached` is True only if brokers answered for every partition, at the time of the call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock.client.admin import Admin, IsolationLevel, unknown_topic
from penstock.core.ids import TopicPartition


class EndOfLog:
    def __init__(self, connection: Mapping[str, Any], *, timeout_s: float) -> None:
        self._connection = connection
        self._timeout_s = timeout_s
        self._reported: dict[TopicPartition, int] = {}
        self._lazy_admin: Admin | None = None

    def reported(self, partition: TopicPartition, offset: int) -> None:
        """The consumer has read to this end; transaction markers before it are no records."""
        self._reported[partition] = offset

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions are read from another position now."""
        for partition in partitions:
            self._reported.pop(partition, None)

    def is_reached(
        self,
        partitions: Iterable[TopicPartition],
        positions: Mapping[TopicPartition, int],
        isolation_level: IsolationLevel,
    ) -> bool:
        """Raises a ClientError if a partition does not exist any more, or no broker answers for it."""
        asked = sorted(partitions)
        ends = self._admin().offsets(asked, "latest", isolation_level=isolation_level)
        for partition in asked:
            if partition not in ends:
                self._admin().require_topic(partition.topic)
                return False
            if max(self._reported.get(partition, -1), positions.get(partition, -1)) < ends[partition]:
                return False
        return True

    def is_someone_elses(self, group_id: str) -> bool:
        """Whether a member without partitions has none because the others read all of them.

        Under KIP-848 a new member is told of an empty assignment first, and partitions of a dead member follow when its
        session ends: then the group is not stable yet.
        """
        return self._admin().describe_group(group_id).state == "Stable"

    def require_topics(self, topics: Sequence[str]) -> None:
        """Raises UnknownTopic for a subscription to a topic that does not exist; patterns may match nothing yet."""
        known = self._admin().list_topics()
        for topic in topics:
            if not topic.startswith("^") and topic not in known:
                raise unknown_topic(topic, known)

    def _admin(self) -> Admin:
        if self._lazy_admin is None:
            self._lazy_admin = Admin(self._connection, timeout_s=self._timeout_s)
        return self._lazy_admin

    def close(self) -> None:
        self._lazy_admin = None
