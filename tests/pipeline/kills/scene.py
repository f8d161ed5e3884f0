"""What a soak happens in: a broker with its topics, a database, the pipeline's file; servers that are killed come back.

Owns the servers and the directory. It must never know faults or figures.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import psutil
import yaml
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing import Broker
from penstock.testing.postgres import PostgresServer, running_postgres
from tests.pipeline.kills import number_feed
from tests.pipeline.kills.manifest_steps import spark_settings
from tests.pipeline.kills.sink_contents import (
    PIPELINE,
    FilesUnderTest,
    PostgresUnderTest,
    SinkUnderTest,
    TableUnderTest,
    TopicUnderTest,
)

SinkName = Literal["topic", "table", "postgres", "files"]
SINK_NAMES: Final[tuple[SinkName, ...]] = ("topic", "table", "postgres", "files")
SOURCE: Final = "numbers"
DEAD_LETTERS: Final = "numbers.dlq"
_TARGET: Final = "numbers.copy"
_TARGET_PARTITIONS: Final = 3
_BATCH_ROWS: Final = 2000
_DEATH_S_MAX: Final = 30


@dataclass(slots=True)
class Scene:
    directory: Path
    broker: Broker
    postgres: PostgresServer | None
    sink: SinkUnderTest
    pipeline: Path  # its file

    @property
    def checkpoint(self) -> Path:
        return self.directory / "checkpoint"

    @property
    def crash_directory(self) -> Path:
        return self.directory / "steps"

    @property
    def log(self) -> Path:
        return self.directory / "pipeline.log"

    def broker_processes(self) -> list[int]:
        return [self.broker.pid]

    def postgres_processes(self) -> list[int]:
        """The server's, and those of its connections, which would finish what they are doing."""
        assert self.postgres is not None
        server = psutil.Process(self.postgres.pid)
        return [server.pid, *(child.pid for child in server.children())]

    def bring_broker_back(self, down_s: float) -> None:
        self.broker.kill()
        time.sleep(down_s)
        self.broker.start()

    def bring_postgres_back(self, down_s: float) -> None:
        assert self.postgres is not None
        self.postgres.await_death(_DEATH_S_MAX)
        time.sleep(down_s)
        self.postgres.start()


@contextmanager
def scene(directory: Path, sink_name: SinkName, guarantee: str) -> Iterator[Scene]:
    with ExitStack() as stack:
        broker = stack.enter_context(Broker(data_dir=directory / "broker"))
        postgres = None
        if sink_name == "postgres":
            (directory / "postgres").mkdir()
            postgres = stack.enter_context(running_postgres(directory / "postgres"))
        _create_topics(broker)
        (directory / "steps").mkdir()
        sink = _sink(sink_name, broker, postgres, directory)
        pipeline = directory / "pipeline.yaml"
        made = Scene(directory, broker, postgres, sink, pipeline)
        pipeline.write_text(yaml.safe_dump(_declaration(made, guarantee)))
        yield made


def _create_topics(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    partitions = {SOURCE: number_feed.PARTITIONS, DEAD_LETTERS: 2, _TARGET: _TARGET_PARTITIONS}
    for created in admin.create_topics([NewTopic(name, count, 1) for name, count in partitions.items()]).values():
        created.result()


def _sink(name: SinkName, broker: Broker, postgres: PostgresServer | None, directory: Path) -> SinkUnderTest:
    if name == "topic":
        return TopicUnderTest(broker.bootstrap_servers, _TARGET, _TARGET_PARTITIONS)
    if name == "files":
        return FilesUnderTest(directory / "files")
    if postgres is not None:
        return PostgresUnderTest(postgres.url)
    return TableUnderTest(f"sqlite:///{directory}/numbers.db")


def _declaration(made: Scene, guarantee: str) -> dict[str, Any]:
    declared: dict[str, Any] = {
        "name": PIPELINE,
        "guarantee": guarantee,
        "bootstrap_servers": made.broker.bootstrap_servers,
        "checkpoint": str(made.checkpoint),
        "source": {
            "topic": SOURCE,
            "format": "json",
            "schema": "number BIGINT, word STRING",
            "max_offsets_per_trigger": _BATCH_ROWS,
        },
        "transform": made.sink.transform,
        "sink": made.sink.declaration(),
        "on_error": {"dead_letters": DEAD_LETTERS},
    }
    if isinstance(made.sink, FilesUnderTest) and guarantee == "exactly_once":
        compiled = made.directory / "compiled"
        compiled.mkdir()
        declared["spark"] = spark_settings(compiled)
    return declared
