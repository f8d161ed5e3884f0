"""JDBC connectors on PostgreSQL, their workers killed with -9 at every step of a commit, and once the database itself.

Every second portion is large enough to be staged; the others travel to the driver. Staged rows are gone with a killed
server, which must not pass for a batch without rows.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests import crash_points
from tests.conftest import RunningBroker
from tests.pipeline.connect.worker_process import Work, WorkerProcess
from tests.pipeline.topic_contents import contents
from tests.pipeline.topic_feed import AN_HOUR_AGO_MS, Sent, TopicFeed
from tests.postgres_server import PostgresServer, running_postgres

pytestmark = [pytest.mark.kills, pytest.mark.timeout(1800)]

PORTION = 1000
BAD_PER_PORTION = 10
STAGED_PADDING = 200
WAIT_S = 300
JSON = "org.apache.kafka.connect.json.JsonConverter"
SCHEMA = {
    "type": "struct",
    "fields": [{"field": "id", "type": "int64"}, {"field": "padding", "type": "string"}],
}
SINK_STEPS = (
    "connect.sink_task_written",
    "connect.jdbc.staged",
    "connect.sink_before_commit",
    "connect.jdbc.before_ledger",
    "connect.jdbc.before_commit",
    "connect.jdbc.after_commit",
    "connect.sink_before_offsets",
)


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with running_postgres(tmp_path_factory.mktemp("postgres")) as server:
        yield server


class Runs:
    """Workers of one connector, one after the other."""

    def __init__(self, directory: Path) -> None:
        self.steps = directory / "steps"
        self.steps.mkdir()
        self.log = directory / "worker.log"

    def killed(self, work: Work, step: str) -> None:
        with WorkerProcess(work, self.steps, self.log) as worker:
            crash_points.arm(self.steps, step, *worker.await_session(), crash_points.SELF)
            worker.begin()
            assert worker.wait(WAIT_S) == -9, self.log.read_text()[-3000:]
        assert crash_points.was_hit(self.steps, step)

    def to_the_end(self, work: Work) -> None:
        with WorkerProcess(work, self.steps, self.log) as worker:
            worker.await_session()
            worker.begin()
            assert worker.wait(WAIT_S) == 0, self.log.read_text()[-3000:]

    def while_the_database_is_killed(self, work: Work, step: str, database: PostgresServer) -> None:
        with WorkerProcess(work, self.steps, self.log) as worker:
            worker.await_session()
            crash_points.arm(self.steps, step, database.pid)
            worker.begin()
            database.await_death(WAIT_S)
            database.start()
            assert worker.wait(WAIT_S) == 0, self.log.read_text()[-3000:]
        assert crash_points.was_hit(self.steps, step)


class Portions:
    """Good and bad records of a topic with two partitions."""

    def __init__(self, feed: TopicFeed, topic: str) -> None:
        self._feed = feed
        self._topic = topic
        self.good: list[int] = []
        self.bad: set[bytes] = set()

    def send(self) -> None:
        start = len(self.good)
        padding = "x" * (STAGED_PADDING if start // PORTION % 2 == 0 else 1)
        values = [
            json.dumps({"schema": SCHEMA, "payload": {"id": number, "padding": padding}}).encode()
            for number in range(start, start + PORTION)
        ]
        # Half of them no converter takes, half no table.
        bad = [b"{no json %d" % (start + number) for number in range(BAD_PER_PORTION // 2)]
        bad += [
            json.dumps({"schema": {"type": "string"}, "payload": f"no struct {start + number}"}).encode()
            for number in range(BAD_PER_PORTION // 2)
        ]
        self.good += range(start, start + PORTION)
        self.bad.update(bad)
        mixed = [*values[:500], *bad, *values[500:]]
        self._feed.send(
            self._topic, [Sent(number % 2, None, value, AN_HOUR_AGO_MS) for number, value in enumerate(mixed)]
        )


def sink(
    broker: RunningBroker, postgres: PostgresServer, guarantee: str, more: Mapping[str, str]
) -> tuple[Work, Portions]:
    feed = TopicFeed(broker.bootstrap_servers)
    topic = feed.create(partitions=2)
    config = {
        "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
        "connection.url": f"jdbc:postgresql://127.0.0.1:{postgres.port}/postgres",
        "connection.user": "penstock",
        "connection.password": "unused",
        "topics": topic,
        "table.name.format": f"t{uuid.uuid4().hex}",
        "tasks.max": "2",
        "auto.create": "true",
        "insert.mode": "insert",
        "value.converter": JSON,
        "retry.backoff.ms": "500",
        "guarantee": guarantee,
        **more,
    }
    return Work(broker.bootstrap_servers, f"sink-{topic}", config), Portions(feed, topic)


def rows(postgres: PostgresServer, work: Work) -> Counter[int]:
    with psycopg.connect(postgres.address) as connection:
        found: Any = connection.execute(f'SELECT id FROM "{work.config["table.name.format"]}"').fetchall()
    return Counter(number for (number,) in found)


def tables(postgres: PostgresServer) -> list[str]:
    with psycopg.connect(postgres.address) as connection:
        found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    return [name for (name,) in found]


def test_a_sink_is_exactly_once_under_kills_of_workers_and_of_the_database(
    broker_under_test: RunningBroker, postgres: PostgresServer, tmp_path: Path
) -> None:
    letters = f"letters-{uuid.uuid4().hex}"
    errors = {
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": letters,
        "errors.deadletterqueue.topic.replication.factor": "1",
    }
    work, portions = sink(broker_under_test, postgres, "exactly_once", errors)
    runs = Runs(tmp_path)
    for step in SINK_STEPS:
        portions.send()
        runs.killed(work, step)
    for step in ("connect.jdbc.before_ledger", "connect.jdbc.before_commit"):
        portions.send()
        portions.send()
        runs.while_the_database_is_killed(work, step, postgres)
    assert rows(postgres, work) == Counter(portions.good)
    found = Counter(record.value for record in contents(broker_under_test.bootstrap_servers, letters))
    assert set(found) == portions.bad
    runs.to_the_end(work)  # a start removes what killed workers have left
    assert not [name for name in tables(postgres) if name.startswith("penstock_staging")]


def test_a_sink_at_least_once_repeats(
    broker_under_test: RunningBroker, postgres: PostgresServer, tmp_path: Path
) -> None:
    work, portions = sink(broker_under_test, postgres, "at_least_once", {"errors.tolerance": "all"})
    runs = Runs(tmp_path)
    portions.send()
    runs.killed(work, "connect.sink_before_offsets")
    runs.to_the_end(work)
    assert rows(postgres, work) == Counter(portions.good + portions.good)


def test_a_source_is_exactly_once_under_kills_at_its_commit(
    broker_under_test: RunningBroker, postgres: PostgresServer, tmp_path: Path
) -> None:
    table, prefix = f"t{uuid.uuid4().hex}", f"db-{uuid.uuid4().hex[:8]}-"
    TopicFeed(broker_under_test.bootstrap_servers).create(prefix + table, partitions=2)
    config = {
        "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
        "connection.url": f"jdbc:postgresql://127.0.0.1:{postgres.port}/postgres",
        "connection.user": "penstock",
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "table.whitelist": table,
        "topic.prefix": prefix,
        "poll.interval.ms": "100",
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
        "exactly.once.support": "required",
    }
    work = Work(
        broker_under_test.bootstrap_servers, f"source-{table}", config, {"exactly.once.source.support": "enabled"}
    )
    runs = Runs(tmp_path)
    with psycopg.connect(postgres.address, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {table} (id BIGSERIAL PRIMARY KEY, word TEXT)")

        def insert() -> None:
            connection.execute(f"INSERT INTO {table} (word) SELECT 'word' || i FROM generate_series(1, {PORTION}) AS i")

        steps = ("connect.source_before_commit", "connect.source_after_commit")
        for step in steps:
            insert()
            runs.killed(work, step)
        insert()
    total = PORTION * (len(steps) + 1)
    runs.to_the_end(replace(work, last_offset={"incrementing": total}))
    found = Counter(
        json.loads(record.value or b"null")["id"]
        for record in contents(broker_under_test.bootstrap_servers, prefix + table)
    )
    assert found == Counter(range(1, total + 1))
