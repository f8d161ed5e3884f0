"""What connectors move in a measurement: how it is fed, where it arrives, and when all of it has.

Owns the data and the clocks. A flow is fed twice, a little to warm up and then all that counts. Everything has arrived
when the end has not moved for a while, and the time is that of the last move.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Final

from penstock.bench.connect.workers import JSON
from penstock.bench.measurement import MeasurementError
from penstock.bench.peers import PENSTOCK
from penstock.bench.raw_client import RawClient
from penstock.bench.raw_frames import record_batch
from penstock.bench.topics import create_topic
from penstock.core.ids import TopicPartition
from penstock.wire.client import WireClient

RECORDS_PER_BATCH: Final = 2_000  # with a schema beside each record, below the largest batch that a topic takes
_STABLE_S: Final = 1.5
_POLL_S: Final = 0.01


class Flow(ABC):
    """One connector. Rows arrive in their order."""

    key: str
    title: str

    def __init__(self, bootstrap_servers: str, directory: Path, time_limit_s: float) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._directory = directory
        self._time_limit_s = time_limit_s

    @abstractmethod
    def prepare(self) -> None:
        """Before the connector exists."""

    def close(self) -> None:  # noqa: B027 (most hold nothing)
        """At the end, also of a flow that failed."""

    @abstractmethod
    def config(self, contestant: str) -> dict[str, str]: ...

    @abstractmethod
    def feed(self, rows: int) -> None: ...

    @abstractmethod
    def end(self) -> int:
        """Something that grows as rows arrive; cheap to ask for."""

    @abstractmethod
    def arrived(self) -> int:
        """The number of rows that have arrived; asked for when `end` rests."""

    def move(self, rows: int) -> float:
        """Feeds so many rows; the seconds until the last one has arrived."""
        wanted = self.arrived() + rows
        begun_s = time.perf_counter()
        deadline_s = begun_s + self._time_limit_s
        self.feed(rows)
        before, moved_s = self.end(), time.perf_counter()
        while True:
            time.sleep(_POLL_S)
            now_s = time.perf_counter()
            end = self.end()
            if end != before:
                before, moved_s = end, now_s
            elif now_s - moved_s > _STABLE_S and self.arrived() >= wanted:
                return moved_s - begun_s
            if now_s > deadline_s:
                raise MeasurementError(f"{self.key}: {self.arrived()} of {wanted} rows after {self._time_limit_s:g} s")


class FileToTopic(Flow):
    key = "file-to-topic"
    title = "lines of 100 B, file to topic"
    _topic: Final = "lines"

    def prepare(self) -> None:
        create_topic(self._bootstrap_servers, self._topic, self._time_limit_s)
        (self._directory / "in.txt").touch()
        self._client = WireClient({"bootstrap.servers": self._bootstrap_servers})

    def close(self) -> None:
        self._client.close()

    def config(self, contestant: str) -> dict[str, str]:
        return {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "file": str(self._directory / "in.txt"),
            "topic": self._topic,
            "tasks.max": "1",
        }

    def feed(self, rows: int) -> None:
        line = os.urandom(50).hex()[:99] + "\n"
        with (self._directory / "in.txt").open("a") as file:
            file.write(line * rows)

    def end(self) -> int:
        return self._client.list_offsets({TopicPartition(self._topic, 0): "latest"})[
            TopicPartition(self._topic, 0)
        ].offset

    def arrived(self) -> int:
        """Transaction markers take offsets, too; there are few, and fewer than a feed has rows."""
        return self.end()


class TopicFed(Flow):
    """From one partition: the minimal client sends the same batch again and again."""

    topic: str

    def prepare(self) -> None:
        create_topic(self._bootstrap_servers, self.topic, self._time_limit_s)
        self._batch = self.batch()

    @abstractmethod
    def batch(self) -> bytes:
        """Of `RECORDS_PER_BATCH` records."""

    def feed(self, rows: int) -> None:
        with RawClient(self._bootstrap_servers, self.topic, self._time_limit_s) as client:
            client.fill(self._batch, rows // RECORDS_PER_BATCH, self._time_limit_s)


class TopicToFile(TopicFed):
    key = "topic-to-file"
    title = "records of 100 B, topic to file"
    topic = "records"

    def batch(self) -> bytes:
        return record_batch(RECORDS_PER_BATCH, os.urandom(50).hex().encode(), int(time.time() * 1000))

    def config(self, contestant: str) -> dict[str, str]:
        guarantee = {"guarantee": "exactly_once"} if contestant == PENSTOCK else {}
        return {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
            "file": str(self._file),
            "topics": self.topic,
            "tasks.max": "1",
            **guarantee,
        }

    @property
    def _file(self) -> Path:
        return self._directory / f"{self.key}.txt"

    def end(self) -> int:
        return self._file.stat().st_size if self._file.exists() else 0

    def arrived(self) -> int:
        if not self._file.exists():
            return 0
        with self._file.open("rb") as file:
            return sum(part.count(b"\n") for part in iter(lambda: file.read(1 << 20), b""))


class Transformed(TopicToFile):
    key = "transforms"
    title = "JSON of 100 B through three transforms, topic to file"
    topic = "documents"

    def batch(self) -> bytes:
        document = b'{"id":12345678,"customer":"%s","amount":19.5,"country":"CH","is_new":true}'
        value = document % (b"c" * (100 - len(document) + 2))
        return record_batch(RECORDS_PER_BATCH, value, int(time.time() * 1000))

    def config(self, contestant: str) -> dict[str, str]:
        transforms = "org.apache.kafka.connect.transforms"
        return {
            **super().config(contestant),
            "value.converter": JSON,
            "value.converter.schemas.enable": "false",
            "transforms": "insert,rename,cast",
            "transforms.insert.type": f"{transforms}.InsertField$Value",
            "transforms.insert.topic.field": "topic",
            "transforms.rename.type": f"{transforms}.ReplaceField$Value",
            "transforms.rename.renames": "customer:client",
            "transforms.rename.exclude": "country",
            "transforms.cast.type": f"{transforms}.Cast$Value",
            "transforms.cast.spec": "amount:string,id:string",
        }


FLOWS: Final[tuple[type[Flow], ...]] = (FileToTopic, TopicToFile, Transformed)
