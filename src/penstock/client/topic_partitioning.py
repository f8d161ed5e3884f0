"""Applies a custom partitioner to the partitions of a topic.

Owns the partition counts: it fetches them once per topic and refreshes them after `metadata.max.age.ms`, so that added
partitions are used. It must never know what is in a record.

Invariant: the result is a valid partition of the topic.
"""

from __future__ import annotations

import time
from typing import Any, Final, NamedTuple

from penstock.client.errors import from_kafka_error
from penstock.client.partitioners import Partitioner, RoundRobin
from penstock.core.errors import ClientError, UnknownTopic

_NEW_TOPIC_WAIT_S: Final = 0.1


class _Known(NamedTuple):
    partition_count: int
    fetched_at: float


class TopicPartitioning:
    def __init__(self, client: Any, partitioner: Partitioner, *, age_s: float, wait_s: float) -> None:
        self._client = client
        self._partitioner = partitioner
        self._age_s = age_s
        self._wait_s = wait_s
        self._known: dict[str, _Known] = {}
        self._round_robins: dict[str, RoundRobin] = {}

    def partition_for(self, topic: str, key: bytes | None, value: bytes | None) -> int:
        partition_count = self._partition_count(topic)
        chosen = self._partitioner_for(topic)(key, value, partition_count)
        if isinstance(chosen, bool) or not isinstance(chosen, int) or not 0 <= chosen < partition_count:
            raise ClientError(
                f"topic '{topic}': the partitioner returned {chosen!r}; valid partitions are 0 to {partition_count - 1}"
            )
        return chosen

    def _partitioner_for(self, topic: str) -> Partitioner:
        if not isinstance(self._partitioner, RoundRobin):
            return self._partitioner
        # One sequence per topic: with a shared one, alternating sends to two topics would skip every other partition.
        return self._round_robins.setdefault(topic, RoundRobin())

    def _partition_count(self, topic: str) -> int:
        known = self._known.get(topic)
        if known is None or time.monotonic() - known.fetched_at > self._age_s:
            known = _Known(self._fetched_count(topic), time.monotonic())
            self._known[topic] = known
        return known.partition_count

    def _fetched_count(self, topic: str) -> int:
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + self._wait_s
        while True:
            remaining_s = max(0.0, deadline - time.monotonic())
            try:
                found = self._client.list_topics(topic, timeout=remaining_s).topics[topic]
            except KafkaException as failure:
                raise from_kafka_error(failure.args[0], f"topic '{topic}'") from failure
            if found.error is None and found.partitions:
                return len(found.partitions)
            failure_now = (
                UnknownTopic(f"topic '{topic}' does not exist")
                if found.error is None
                else from_kafka_error(found.error, f"topic '{topic}'")
            )
            # The metadata request may have created the topic (auto.create.topics.enable), and it has no leaders yet.
            if (found.error is not None and not found.error.retriable()) or remaining_s < _NEW_TOPIC_WAIT_S:
                raise failure_now
            time.sleep(_NEW_TOPIC_WAIT_S)
