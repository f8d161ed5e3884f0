"""The cluster as reading a topic needs it, over the wire client.

Owns how the source's options become the wire client's settings. It must never know Spark.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from penstock.core.errors import UnknownTopic
from penstock.core.ids import TopicPartition
from penstock.core.isolation import IsolationLevel
from penstock.pipeline.topics.offsets import Offsets
from penstock.pipeline.topics.options import SourceOptions
from penstock.pipeline.topics.positions import Assign, Selection, Subscribe, SubscribePattern
from penstock.pipeline.topics.resolution import TopicLayout
from penstock.wire.client import WIRE_SETTING_NAMES, WireClient
from penstock.wire.offsets import OffsetAt


def wire_settings(kafka: Mapping[str, str]) -> dict[str, str]:
    """What concerns connections; the rest of a consumer's settings means nothing to a source without a consumer."""
    return {name: value for name, value in kafka.items() if name in WIRE_SETTING_NAMES}


def isolation_level(options: SourceOptions) -> IsolationLevel:
    return "read_committed" if options.reads_committed_only else "read_uncommitted"


class WireCluster:
    def __init__(self, options: SourceOptions) -> None:
        self._client = WireClient(wire_settings(options.kafka))
        self._isolation_level = isolation_level(options)
        self._watch = self._client.record_watch(isolation_level=self._isolation_level)
        self._topics: Mapping[str, TopicLayout] = {}
        self._topics_seen_at = float("-inf")

    def topics(self, selection: Selection, *, max_age_ms: int = 0) -> Mapping[str, TopicLayout]:
        now = time.monotonic()
        if (now - self._topics_seen_at) * 1000 >= max_age_ms:
            self._topics = self._ask_for_topics(selection)
            self._topics_seen_at = now
        return self._topics

    def _ask_for_topics(self, selection: Selection) -> dict[str, TopicLayout]:
        match selection:
            case Subscribe(topics):
                names: list[str] | None = list(topics)
            case Assign(partitions):
                names = sorted({partition.topic for partition in partitions})
            case SubscribePattern():
                names = None
        found = {
            name: TopicLayout(topic.topic_id, frozenset(topic.partitions))
            for name, topic in self._client.metadata(names).topics.items()
            if names is not None or not topic.is_internal
        }
        if isinstance(selection, SubscribePattern):
            return {name: layout for name, layout in found.items() if selection.pattern.fullmatch(name)}
        return found

    def earliest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self._listed(dict.fromkeys(partitions, "earliest"))

    def latest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self._listed(dict.fromkeys(partitions, "latest"))

    def at_timestamps(self, timestamps_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return {
            partition: None if offset < 0 else offset for partition, offset in self._listed(dict(timestamps_ms)).items()
        }

    def _listed(self, wanted: Mapping[TopicPartition, OffsetAt]) -> dict[TopicPartition, int]:
        if not wanted:
            return {}
        try:
            listed = self._client.list_offsets(wanted, isolation_level=self._isolation_level)
        except UnknownTopic:
            self._topics_seen_at = float("-inf")
            topics = self._client.metadata({partition.topic for partition in wanted}).topics
            there = {
                partition: at
                for partition, at in wanted.items()
                if partition.topic in topics and partition.partition in topics[partition.topic].partitions
            }
            if not there:
                return {}
            listed = self._client.list_offsets(there, isolation_level=self._isolation_level)
        return {partition: answer.offset for partition, answer in listed.items()}

    def wait_for_records(self, ends: Offsets, timeout_ms: int) -> None:
        if ends:
            self._watch.wait(ends, timeout_ms)
        else:
            time.sleep(timeout_ms / 1000)

    def close(self) -> None:
        self._watch.close()
        self._client.close()
