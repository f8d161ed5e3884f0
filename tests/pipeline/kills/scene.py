"""What a soak happens in: a broker with its topics, a database, the pipeline's file; servers that are killed come back.

Owns the servers and the directory. It must never know faults or figures.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil
import yaml
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing import Broker
from penstock.testing.mariadb import MariaDbServer, running_mariadb
from penstock.testing.postgres import PostgresServer, running_postgres
from tests.conformance.sinks.adapters import UNDER_TEST, kept_guarantees
from tests.pipeline.kills import number_feed
from tests.pipeline.kills.manifest_steps import spark_settings
from tests.pipeline.kills.sink_contents import (
    PIPELINE,
    FilesUnderTest,
    MariaDbUnderTest,
    PostgresUnderTest,
    SinkUnderTest,
    TableUnderTest,
    TopicUnderTest,
)

SinkName = str
# Those of the conformance suite that keep exactly_once themselves: a function keeps it if its author does.
SINK_NAMES: Final[tuple[SinkName, ...]] = tuple(
    name
    for name, (adapter, _) in UNDER_TEST.items()
    if "exactly_once" in kept_guarantees(adapter) and not adapter.kind.calls_functions
)
SOURCE: Final = "numbers"
DEAD_LETTERS: Final = "numbers.dlq"
_TARGET: Final = "numbers.copy"
_TARGET_PARTITIONS: Final = 3
_BATCH_ROWS: Final = 2000
_DEATH_S_MAX: Final = 30
_SERVERS: Final[dict[SinkName, Callable[[Path], AbstractContextManager[PostgresServer | MariaDbServer]]]] = {
    "table-postgresql": running_postgres,
    "table-mysql": running_mariadb,
}


@dataclass(slots=True)
class Scene:
    directory: Path
    broker: Broker
    database: PostgresServer | MariaDbServer | None
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

    def database_processes(self) -> list[int]:
        """The server's, and those of its connections, which would finish what they are doing."""
        assert self.database is not None
        server = psutil.Process(self.database.pid)
        return [server.pid, *(child.pid for child in server.children())]

    def bring_broker_back(self, down_s: float) -> None:
        self.broker.kill()
        time.sleep(down_s)
        self.broker.start()

    def bring_database_back(self, down_s: float) -> None:
        assert self.database is not None
        self.database.await_death(_DEATH_S_MAX)
        time.sleep(down_s)
        self.database.start()


@contextmanager
def scene(directory: Path, sink_name: SinkName, guarantee: str) -> Iterator[Scene]:
    with ExitStack() as stack:
        broker = stack.enter_context(Broker(data_dir=directory / "broker"))
        database: PostgresServer | MariaDbServer | None = None
        if sink_name in _SERVERS:
            (directory / "database").mkdir()
            database = stack.enter_context(_SERVERS[sink_name](directory / "database"))
        _create_topics(broker)
        (directory / "steps").mkdir()
        sink = _sink(sink_name, broker, database, directory)
        pipeline = directory / "pipeline.yaml"
        made = Scene(directory, broker, database, sink, pipeline)
        pipeline.write_text(yaml.safe_dump(_declaration(made, guarantee)))
        yield made


def _create_topics(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    partitions = {SOURCE: number_feed.PARTITIONS, DEAD_LETTERS: 2, _TARGET: _TARGET_PARTITIONS}
    for created in admin.create_topics([NewTopic(name, count, 1) for name, count in partitions.items()]).values():
        created.result()


def _sink(
    name: SinkName, broker: Broker, database: PostgresServer | MariaDbServer | None, directory: Path
) -> SinkUnderTest:
    if name == "topic":
        return TopicUnderTest(broker.bootstrap_servers, _TARGET, _TARGET_PARTITIONS)
    if name == "files":
        return FilesUnderTest(directory / "files")
    if isinstance(database, PostgresServer):
        return PostgresUnderTest(database.url)
    if isinstance(database, MariaDbServer):
        return MariaDbUnderTest(database.url)
    assert name == "table-sqlite", f"no scene for {name}"
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
