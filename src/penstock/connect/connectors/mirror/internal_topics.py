"""The mirror's own topics: one partition, compacted, on the source or on the target cluster.

Owns creating, appending to and following them. It must not know what their records mean (`records.py`).

Invariant: a follower gets every record once, in order; tombstones and records of aborted transactions are left out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from penstock.connect.connectors.mirror.remote_topics import create_topic
from penstock.connect.runtime.client_settings import WorkerProperties
from penstock.connect.runtime.topic_reading import read_ranges
from penstock.core.ids import TopicPartition
from penstock.pipeline.topics.planning import OffsetRange
from penstock.protocol.record_encoding import NewRecord, encode_batch
from penstock.wire.client import WireClient


def create_compacted_topic(client: WireClient, name: str, replication_factor: int, factor_property: str) -> None:
    """Unless it exists. `factor_property` is what a person changes if there are too few brokers."""
    if name not in client.metadata([name]).topics:
        create_topic(
            client,
            name,
            partitions=1,
            replication_factor=replication_factor,
            factor_property=factor_property,
            configs={"cleanup.policy": "compact"},
        )


def append(client: WireClient, topic: str, records: Sequence[tuple[bytes, bytes]]) -> None:
    """Returns when the records are acknowledged."""
    now_ms = time.time_ns() // 1_000_000
    batch, _header = encode_batch([NewRecord(key, value, now_ms) for key, value in records])
    client.produce({TopicPartition(topic, 0): batch})


class Follower:
    """Reads a topic from its beginning, and then what is new."""

    def __init__(self, topic: str, settings: WorkerProperties) -> None:
        self._partition = TopicPartition(topic, 0)
        self._settings = settings.consumer("", {"consumer.override.isolation.level": "read_committed"})
        self._position = 0

    def read(self, client: WireClient) -> Iterator[tuple[bytes, bytes]]:
        """Up to the current end. A topic that does not exist yet has nothing."""
        partition = self._partition
        if partition.topic not in client.metadata([partition.topic]).topics:
            return
        start = client.list_offsets({partition: "earliest"})[partition].offset
        end = client.list_offsets({partition: "latest"}, isolation_level="read_committed")[partition].offset
        if end < self._position:  # created again
            self._position = 0
        start = max(start, self._position)
        if start < end:
            for batch in read_ranges(self._settings, [OffsetRange(partition, start, end)]):
                for key, value in zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True):
                    if key is not None and value is not None:
                        yield key, value
        self._position = end
