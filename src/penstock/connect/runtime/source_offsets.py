"""Positions of source connectors in the offsets topic, in Kafka Connect's record format.

A connector may have an offsets topic of its own (`offsets.storage.topic`, KIP-618). It wins over the worker's, whose
offsets count for partitions that the connector's own topic does not have.

Owns reading the topic and the records that change it; a standalone worker's file has the same records. It must not
know who produces them, nor in which transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from penstock.connect.connector import SourceOffset, SourcePartition, partition_key
from penstock.connect.runtime.client_settings import ConsumerSettings
from penstock.connect.runtime.topic_reading import read_ranges
from penstock.connect.storage import offset_records
from penstock.connect.storage.json_values import KeyValue
from penstock.core.ids import TopicPartition
from penstock.pipeline.topics.planning import OffsetRange
from penstock.wire.client import WireClient

_SCHEMA = pa.schema([pa.field("key", pa.binary()), pa.field("value", pa.binary())])


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """`key` is that of its record: another text of the same partition would be another record of a compacted topic."""

    key: bytes
    partition: SourcePartition
    offset: SourceOffset


StoredOffsets = Mapping[str, StoredOffset]
"""By `partition_key`."""


def read_offsets(
    client: WireClient, settings: ConsumerSettings, topics: Iterable[str], connector: str
) -> dict[str, StoredOffset]:
    """The committed offsets of a connector. A topic that does not exist has none; later topics win.

    It reads up to the log's end, and waits for transactions that are open there: a commit of this connector may be
    behind the first record of another one's.
    """
    found: dict[str, StoredOffset] = {}
    for topic in topics:
        known = client.metadata([topic]).topics.get(topic)
        if known is None:
            continue
        partitions = [TopicPartition(topic, index) for index in known.partitions]
        starts = client.list_offsets(dict.fromkeys(partitions, "earliest"))
        ends = client.list_offsets(dict.fromkeys(partitions, "latest"))
        ranges = [
            OffsetRange(each, starts[each].offset, ends[each].offset)
            for each in partitions
            if ends[each].offset > starts[each].offset
        ]
        for batch in read_ranges(settings, ranges):
            for key, value in zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True):
                apply_record(found, connector, key, value)
    return found


def apply_record(found: dict[str, StoredOffset], connector: str, key: bytes | None, value: bytes | None) -> None:
    """A record of another connector changes nothing."""
    record = offset_records.decode(key, value)
    if record is None or record.connector != connector or record.partition is None or key is None:
        return
    name = partition_key(record.partition)
    if record.offset is None:
        found.pop(name, None)
    else:
        found[name] = StoredOffset(key, record.partition, record.offset)


def offset_rows(
    connector: str,
    changes: Iterable[tuple[SourcePartition, SourceOffset | None]],
    known_keys: Mapping[str, bytes],
) -> pa.RecordBatch:
    """Records of the offsets topic, for ColumnEncoder."""
    records = offset_records_of(connector, changes, known_keys)
    columns = [pa.array([each[column] for each in records], pa.binary()) for column in range(2)]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def offset_records_of(
    connector: str,
    changes: Iterable[tuple[SourcePartition, SourceOffset | None]],
    known_keys: Mapping[str, bytes],
) -> list[KeyValue]:
    """`known_keys` has the keys of partitions that have a record."""
    records = []
    for partition, offset in changes:
        key, value = offset_records.encode(offset_records.OffsetRecord(connector, partition, offset))
        records.append((known_keys.get(partition_key(partition), key), value))
    return records
