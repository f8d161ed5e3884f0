"""Where a worker keeps the offsets of its sources: in topics, or in a standalone worker's file.

Topics get offsets from the tasks, with the records that they stand for. The file gets them from the driver, after each
job: a worker that dies between the two repeats the job's records, as in Kafka Connect.

Owns the choice between the two, and the order in which they count. It must not know whether a connector runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.connect.connector import SourceOffset, SourcePartition
from penstock.connect.runtime.client_settings import ConsumerSettings, WorkerProperties
from penstock.connect.runtime.source_offsets import StoredOffset, apply_record, offset_records_of, read_offsets
from penstock.connect.storage.offset_file import OffsetFile
from penstock.wire.client import WireClient

OffsetChanges = Sequence[tuple[SourcePartition, SourceOffset | None]]
"""None removes the offset of a partition."""


class OffsetStorage(Protocol):
    @property
    def topic(self) -> str | None:
        """Where tasks write offsets. None: `save` has to."""

    def read(self, client: WireClient, connector: str) -> dict[str, StoredOffset]:
        """The committed offsets of a connector, by `partition_key`."""

    def save(self, connector: str, changes: OffsetChanges, known_keys: Mapping[str, bytes]) -> None:
        """On the driver, after a job. `known_keys` has the keys of partitions that have a record."""


@dataclass(frozen=True, slots=True)
class OffsetsFile:
    file: OffsetFile

    @property
    def topic(self) -> None:
        return None

    def read(self, client: WireClient, connector: str) -> dict[str, StoredOffset]:
        found: dict[str, StoredOffset] = {}
        for key, value in self.file.records().items():
            apply_record(found, connector, key, value)
        return found

    def save(self, connector: str, changes: OffsetChanges, known_keys: Mapping[str, bytes]) -> None:
        self.file.write(offset_records_of(connector, changes, known_keys))


@dataclass(frozen=True, slots=True)
class OffsetsTopics:
    """`written` gets offsets; `topics` are all that may have some, `written` last. `file` counts less than any."""

    written: str
    topics: Sequence[str]
    settings: ConsumerSettings
    file: OffsetsFile | None = None

    @property
    def topic(self) -> str:
        return self.written

    def read(self, client: WireClient, connector: str) -> dict[str, StoredOffset]:
        earlier = {} if self.file is None else self.file.read(client, connector)
        return earlier | read_offsets(client, self.settings, self.topics, connector)

    def save(self, connector: str, changes: OffsetChanges, known_keys: Mapping[str, bytes]) -> None:
        """The tasks have done it."""


def offset_storage(
    settings: WorkerProperties, file: OffsetFile | None, name: str, config: Mapping[str, str]
) -> OffsetsTopics | OffsetsFile:
    """`file` is that of a standalone worker. A connector's own topic (`offsets.storage.topic`) wins over both."""
    own = config.get("offsets.storage.topic", "").strip()
    in_file = None if file is None else OffsetsFile(file)
    if in_file is not None and not own:
        return in_file
    topics: Iterable[str] = (own,) if in_file is not None else (settings.offsets_topic, own or settings.offsets_topic)
    consumer = settings.consumer(name, {**config, "consumer.override.isolation.level": "read_committed"})
    every = tuple(dict.fromkeys(topics))
    return OffsetsTopics(every[-1], every, consumer, in_file)
