"""The sinks under test: how each is declared, what others find in it, and where a crash hurts it.

A new kind of sink is an adapter here and gets the whole suite; a new database is a line in `tests/databases.py`.
Contents are read without the code that wrote them. It must never know how the suite runs a pipeline.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, get_args

from penstock.core.guarantee import Guarantee
from penstock.pipeline.declaration.verdicts import Kept
from penstock.pipeline.sinks.console.declaration import ConsoleSink
from penstock.pipeline.sinks.files.declaration import FileSink
from penstock.pipeline.sinks.function.declaration import FunctionSink
from penstock.pipeline.sinks.kinds import SINKS
from penstock.pipeline.sinks.sink import Sink
from penstock.pipeline.sinks.table.declaration import TableSink
from penstock.pipeline.sinks.topic.declaration import TopicSink
from tests.databases import DATABASES
from tests.pipeline.pipeline_runs import Pipelines, of_kind
from tests.pipeline.table_job import rows_of

Rows = Counter[tuple[int, str]]
GUARANTEES: Final[tuple[Guarantee, ...]] = get_args(Guarantee)
_NO_SUCH_TABLE: Final = re.compile(r"no such table|does not exist|doesn't exist")
SECRET: Final = "swordfish"


class SinkAdapter(ABC):
    kind: ClassVar[type[Sink]]

    before_commit: ClassVar[str]
    """A step at which a batch has begun and its rows do not count yet."""

    recorded: ClassVar[str]
    """For at_most_once: a step at which the batch is on record and its rows do not count yet."""

    steps_are_in_workers: ClassVar[bool] = True
    """A Python process of Spark's arrives at the steps; otherwise it is the driver, which is the test's own process."""

    knows_its_batches: ClassVar[tuple[Guarantee, ...]] = ("exactly_once", "at_most_once")
    """With which guarantees the sink itself knows its last batch, so that an older checkpoint is recognised."""

    with_secret: ClassVar[Mapping[str, Any] | None] = None
    """A declaration with SECRET in it; None if the kind has no setting that may hold one."""

    relative: ClassVar[tuple[Mapping[str, Any], str] | None] = None
    """A declaration with a relative location, and the key that holds it; None if the kind has no location."""

    def __init__(self, pipelines: Pipelines, url: str = "") -> None:
        self.pipelines = pipelines
        self.url = url

    @abstractmethod
    def declaration(self, guarantee: Guarantee) -> dict[str, Any]:
        """What a pipeline says under `sink`. The rows have the columns id and word."""

    @abstractmethod
    def rows(self, events: list[Any]) -> Rows:
        """What others find; `events` are those of all runs."""

    def elsewhere(self, guarantee: Guarantee) -> list[dict[str, Any]]:
        """Declarations with which rows would go to another place, or be written there in another way."""
        return [{"files": "elsewhere"}]

    def respelled(self, guarantee: Guarantee) -> dict[str, Any]:
        """The declaration with everything changed that may change while the place is the same."""
        return self.declaration(guarantee)


class TopicAdapter(SinkAdapter):
    kind = TopicSink
    before_commit = "topic.before_end_txn"
    recorded = "topic.recorded"
    with_secret: ClassVar = {"topic": "t", "options": {"kafka.sasl.password": SECRET}}

    def declaration(self, guarantee: Guarantee) -> dict[str, Any]:
        return {"topic": self.pipelines.name("copy")}

    def rows(self, events: list[Any]) -> Rows:
        return Counter((value["id"], value["word"]) for value in self.pipelines.values(self.pipelines.name("copy")))

    def elsewhere(self, guarantee: Guarantee) -> list[dict[str, Any]]:
        return [{"topic": self.pipelines.name("other")}, *super().elsewhere(guarantee)]

    def respelled(self, guarantee: Guarantee) -> dict[str, Any]:
        servers = self.pipelines.bootstrap_servers.replace("127.0.0.1", "localhost")
        return {**self.declaration(guarantee), "bootstrap_servers": servers, "options": {"kafka.linger.ms": 1}}


class TableAdapter(SinkAdapter):
    kind = TableSink
    before_commit = "table.before_commit"
    recorded = "table.recorded"
    with_secret: ClassVar = {"table": "t", "url": f"postgresql://user:{SECRET}@host/database"}
    relative: ClassVar = ({"table": "t", "url": "sqlite:///here.db"}, "url")

    def declaration(self, guarantee: Guarantee) -> dict[str, Any]:
        return {"table": self.pipelines.name("copy").replace("-", "_"), "url": self.url}

    def rows(self, events: list[Any]) -> Rows:
        query = f"SELECT id, word FROM {self.declaration('exactly_once')['table']}"
        try:
            return Counter((number, word) for number, word in rows_of(self.url, query))
        except Exception as failure:  # of a driver, each its own
            if _NO_SUCH_TABLE.search(f"{failure} {getattr(failure, 'stderr', '')}"):
                return Counter()
            raise

    def elsewhere(self, guarantee: Guarantee) -> list[dict[str, Any]]:
        here = self.declaration(guarantee)
        return [
            {**here, "table": f"{here['table']}_2"},
            {**here, "mode": "upsert", "key": ["id"]},
            {**here, "url": f"{self.url.rpartition('/')[0]}/{_OTHER_DATABASES[self.url.partition(':')[0]]}"},
            *super().elsewhere(guarantee),
        ]

    def respelled(self, guarantee: Guarantee) -> dict[str, Any]:
        parts = self.url.replace("127.0.0.1", "localhost").split("/")
        if self.url.startswith("sqlite:"):
            parts[-1:] = ["..", *parts[-2:]]
        return {**self.declaration(guarantee), "url": "/".join(parts)}


# Of each server, one that is there and that no pipeline has written.
_OTHER_DATABASES: Final = {"sqlite": "other.db", "postgresql": "template1", "mysql": "mysql"}


class FilesAdapter(SinkAdapter):
    kind = FileSink
    before_commit = "batch.before_write"
    recorded = "batch.before_write"
    steps_are_in_workers = False
    knows_its_batches = ("exactly_once",)
    with_secret: ClassVar = {"files": "out", "options": {"encryption.key": SECRET}}
    relative: ClassVar = ({"files": "out"}, "files")

    def declaration(self, guarantee: Guarantee) -> dict[str, Any]:
        return {"files": "out", "format": "json"}

    def rows(self, events: list[Any]) -> Rows:
        directory = self.pipelines.directory / "out"
        if not directory.exists():
            return Counter()
        found = self.pipelines.spark.read.schema("id BIGINT, word STRING").json(str(directory))
        return Counter((row["id"], row["word"]) for row in found.collect())

    def elsewhere(self, guarantee: Guarantee) -> list[dict[str, Any]]:
        here = self.declaration(guarantee)
        return [{**here, "files": "out2"}, {"topic": self.pipelines.name("other")}]

    def respelled(self, guarantee: Guarantee) -> dict[str, Any]:
        return {**self.declaration(guarantee), "files": "./out/", "options": {"compression": "gzip"}}


class ConsoleAdapter(SinkAdapter):
    kind = ConsoleSink
    before_commit = "batch.before_write"
    recorded = "batch.before_write"
    steps_are_in_workers = False
    knows_its_batches = ()

    def declaration(self, guarantee: Guarantee) -> dict[str, Any]:
        return {"console": True, "rows": 1000}

    def rows(self, events: list[Any]) -> Rows:
        return Counter((row["id"], row["word"]) for event in of_kind(events, "rows") for row in event["rows"])


class FunctionAdapter(SinkAdapter):
    """Idempotent under exactly_once, as it then has to be: a call replaces the file of its batch."""

    kind = FunctionSink
    before_commit = "batch.before_write"
    recorded = "batch.before_write"
    steps_are_in_workers = False
    knows_its_batches = ()

    def __init__(self, pipelines: Pipelines, url: str = "") -> None:
        super().__init__(pipelines, url)
        self._module = pipelines.name("function").replace("-", "_")
        self._directory = pipelines.directory / "calls"
        self._directory.mkdir(exist_ok=True)
        (pipelines.directory / f"{self._module}.py").write_text(
            "import json, pathlib, uuid\n"
            f"calls = pathlib.Path({str(self._directory)!r})\n"
            "def replace(rows, batch_id):\n"
            "    unfinished = calls.parent / f'{uuid.uuid4().hex}.json'\n"
            "    unfinished.write_text(json.dumps([list(row) for row in rows.collect()]))\n"
            "    unfinished.rename(calls / str(batch_id))\n"
            "def add(rows, batch_id):\n"
            "    replace(rows, f'{batch_id}-{uuid.uuid4().hex}')\n"
        )

    def declaration(self, guarantee: Guarantee) -> dict[str, Any]:
        if guarantee == "exactly_once":
            return {"python": f"{self._module}:replace", "idempotent": True}
        return {"python": f"{self._module}:add"}

    def rows(self, events: list[Any]) -> Rows:
        calls = (json.loads(path.read_text()) for path in self._directory.iterdir())
        return Counter((number, word) for call in calls for number, word in call)


ADAPTERS: Final[tuple[type[SinkAdapter], ...]] = (
    TopicAdapter,
    TableAdapter,
    FilesAdapter,
    ConsoleAdapter,
    FunctionAdapter,
)
assert {adapter.kind for adapter in ADAPTERS} == set(SINKS), "a kind of sink has no adapter"

# An adapter and, for tables, the name of a database.
UNDER_TEST: Final[dict[str, tuple[type[SinkAdapter], str | None]]] = {
    f"{adapter.kind.discriminator}-{database}" if database else adapter.kind.discriminator: (adapter, database)
    for adapter in ADAPTERS
    for database in (DATABASES if adapter.kind.uses_databases else (None,))
}


def kept_guarantees(adapter: type[SinkAdapter]) -> list[Guarantee]:
    """Those that the kind can keep, the strongest first."""
    kept = [guarantee for guarantee in GUARANTEES if isinstance(adapter.kind.guarantees[guarantee], Kept)]
    return sorted(kept, key=["exactly_once", "at_least_once", "at_most_once"].index)


def remove_last_commit(checkpoint: Path) -> None:
    """As if the driver had died between the sink's commit and Spark's own: Spark runs that batch again."""
    commits = checkpoint / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
    for path in (commits / str(last), commits / f".{last}.crc"):
        path.unlink(missing_ok=True)
