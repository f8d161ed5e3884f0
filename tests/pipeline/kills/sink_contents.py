"""The sinks of a soak: how each is declared, what it holds, and how far its own commit has come.

Contents are read with programs that nobody here wrote, or from files as Spark's documentation has them. It must never
know the processes that write.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

from confluent_kafka import Consumer, IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.pipeline.kills.fault_plan import Victim
from tests.pipeline.kills.number_feed import WORD, Row, row_of
from tests.pipeline.table_job import rows_of
from tests.pipeline.topic_contents import contents

PIPELINE: Final = "kills"
_ANSWER_S_MAX: Final = 30
_TABLE_NAME: Final = "numbers"


class SinkUnderTest(ABC):
    before_its_commit: ClassVar[tuple[str, ...]]
    """Steps at which something is written that does not count yet."""
    before_sparks_commit: ClassVar[tuple[str, ...]]
    """Steps at which it counts, and Spark has not noted that."""
    other_steps: ClassVar[tuple[str, ...]] = ()
    weak_windows: ClassVar[Mapping[str, str]]
    """By guarantee: the step at which a kill makes it repeat, or lose."""
    servers: tuple[Victim, ...] = ("broker",)
    steps_are_in_workers: ClassVar[bool] = True
    """Who arrives at a step is a Python process of Spark's, and not the driver or its JVM."""
    steps_of_the_driver: ClassVar[tuple[str, ...]] = ()
    """Those of them at which the driver may arrive as well."""
    transform: ClassVar[str] = f"SELECT number, {WORD} FROM source"

    @property
    def steps(self) -> tuple[str, ...]:
        return (*self.other_steps, *self.before_its_commit, *self.before_sparks_commit)

    @abstractmethod
    def declaration(self) -> dict[str, Any]:
        """What a pipeline says of it under `sink`."""

    @abstractmethod
    def rows(self) -> Counter[Row]:
        """What others find in it."""

    @abstractmethod
    def last_batch(self) -> int:
        """The last batch that counts; -1 before the first. For exactly_once."""

    def look_before_a_kill(self) -> None:  # noqa: B027 (most have nothing to hide)
        """At what nobody sees any more when its writer is dead, which stands still meanwhile."""

    def holds_uncommitted(self) -> bool:
        """Whether something lies there that was written and does not count, as far as others can see that."""
        return False


class TopicUnderTest(SinkUnderTest):
    # On one machine, what tasks hand over is sent by the commit, after its first step.
    other_steps = ("topic.before_init", "topic.after_init", "topic.before_commit")
    before_its_commit = ("topic.task_written", "topic.before_offsets", "topic.before_end_txn")
    before_sparks_commit = ("topic.after_end_txn",)
    weak_windows: ClassVar = {"at_least_once": "topic.before_commit", "at_most_once": "topic.recorded"}

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        self._servers = servers
        self._topic = topic
        self._partitions = [TopicPartition(topic, partition) for partition in range(partitions)]

    def declaration(self) -> dict[str, Any]:
        return {"topic": self._topic, "format": "json"}

    def rows(self) -> Counter[Row]:
        told = (json.loads(record.value or b"") for record in contents(self._servers, self._topic))
        return Counter(row_of(each["number"], each["word"]) for each in told)

    def last_batch(self) -> int:
        group = {"group.id": f"{PIPELINE}.batches", "isolation.level": "read_uncommitted"}
        consumer = Consumer({"bootstrap.servers": self._servers, "log_level": 0, **group})
        try:
            [place] = consumer.committed([TopicPartition(self._topic, 0)], timeout=_ANSWER_S_MAX)
        finally:
            consumer.close()
        return int(place.offset) - 1 if place.offset >= 0 else -1

    def holds_uncommitted(self) -> bool:
        """A transaction is open as long as the last stable offset lies before the end."""
        admin = AdminClient({"bootstrap.servers": self._servers, "log_level": 0})
        return self._ends(admin, IsolationLevel.READ_COMMITTED) != self._ends(admin, IsolationLevel.READ_UNCOMMITTED)

    def _ends(self, admin: AdminClient, isolation: IsolationLevel) -> list[int]:
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        wanted = dict.fromkeys(self._partitions, latest)
        found = admin.list_offsets(wanted, isolation_level=isolation, request_timeout=_ANSWER_S_MAX)
        return [found[place].result().offset for place in self._partitions]


class TableUnderTest(SinkUnderTest):
    before_its_commit: ClassVar[tuple[str, ...]] = (
        "table.staged",
        "table.before_commit",
        "table.before_ledger",
        "table.before_database_commit",
    )
    before_sparks_commit = (
        "table.after_database_commit",
        "table.dead_letters_sent",
        "table.dead_letters_published",
    )
    weak_windows: ClassVar = {"at_least_once": "table.before_commit", "at_most_once": "table.recorded"}

    def __init__(self, url: str) -> None:
        self._url = url

    def declaration(self) -> dict[str, Any]:
        return {"table": _TABLE_NAME, "url": self._url}

    def rows(self) -> Counter[Row]:
        return Counter(row_of(*found) for found in rows_of(self._url, f"SELECT number, word FROM {_TABLE_NAME}"))

    def last_batch(self) -> int:
        [(batch,)] = rows_of(self._url, f"SELECT batch_id FROM penstock_ledger WHERE pipeline = '{PIPELINE}'")
        return -1 if batch is None else int(batch)


class PostgresUnderTest(TableUnderTest):
    """Its rows are long, so that even a batch that follows the feed is more than messages carry: tasks stream it into
    the driver's transaction, which is gone with the driver."""

    before_its_commit = ("table.landing", *TableUnderTest.before_its_commit)
    servers = ("broker", "database", "database")
    steps_of_the_driver = (
        "table.landing",
        "table.before_ledger",
        "table.before_database_commit",
        "table.after_database_commit",
    )
    transform = f"SELECT number, {WORD}, repeat('.', 20000) AS room FROM source"
    _has_written = False

    def look_before_a_kill(self) -> None:
        """A transaction has a number from its first row on."""
        query = (
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE starts_with(application_name, 'penstock ') AND backend_xid IS NOT NULL"
        )
        [(count,)] = rows_of(self._url, query)
        self._has_written = count > 0

    def holds_uncommitted(self) -> bool:
        return self._has_written


class MariaDbUnderTest(PostgresUnderTest):
    """As PostgreSQL's, its rows are streamed into the driver's transaction."""

    def look_before_a_kill(self) -> None:
        """Whether a transaction has changed rows."""
        [(count,)] = rows_of(
            self._url, "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_rows_modified > 0"
        )
        self._has_written = count > 0


class FilesUnderTest(SinkUnderTest):
    """Spark's manifest lists what counts; with the weaker guarantees there is none, and every file does."""

    other_steps = ("batch.before_write", "batch.dead_letters_sent")
    before_its_commit = ("batch.dead_letters_published", "files.task_written", "files.before_manifest")
    before_sparks_commit = ("files.after_manifest", "batch.written")
    weak_windows: ClassVar = {"at_least_once": "batch.written", "at_most_once": "batch.before_write"}
    steps_are_in_workers = False

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._manifest = directory / "_spark_metadata"

    def declaration(self) -> dict[str, Any]:
        return {"files": str(self._directory), "format": "parquet"}

    def rows(self) -> Counter[Row]:
        import pyarrow.parquet as pq

        found: Counter[Row] = Counter()
        for path in self._listed() if self._manifest.exists() else self._written():
            columns = pq.ParquetFile(path).read(columns=["number", "word"]).to_pydict()
            found.update(map(row_of, columns["number"], columns["word"]))
        return found

    def last_batch(self) -> int:
        return max((number for number, _ in self._manifests()), default=-1)

    def holds_uncommitted(self) -> bool:
        newest = max(self._written(), key=lambda path: path.stat().st_mtime_ns, default=None)
        return newest is not None and newest not in self._listed()

    def _written(self) -> list[Path]:
        return list(self._directory.glob("*.parquet"))

    def _listed(self) -> set[Path]:
        """The last compacted list, and those that followed it."""
        manifests = sorted(self._manifests())
        compacted = max((number for number, path in manifests if path.suffix == ".compact"), default=-1)
        listed: set[Path] = set()
        for number, path in manifests:
            if number < compacted or (number == compacted and path.suffix != ".compact"):
                continue
            _version, *entries = path.read_text().splitlines()
            listed.update(self._directory / Path(json.loads(entry)["path"]).name for entry in entries)
        return listed

    def _manifests(self) -> Iterator[tuple[int, Path]]:
        if self._manifest.exists():
            for path in self._manifest.iterdir():
                if path.stem.isdecimal() and path.suffix in ("", ".compact"):
                    yield int(path.stem), path


def batches_of(checkpoint: Path) -> tuple[int, int]:
    """The last batch that Spark has begun, and the last one that it has noted as done."""
    return _last(checkpoint / "offsets"), _last(checkpoint / "commits")


def _last(directory: Path) -> int:
    if not directory.exists():
        return -1
    return max((int(path.name) for path in directory.iterdir() if path.name.isdecimal()), default=-1)
