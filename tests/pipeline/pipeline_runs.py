"""Runs pipelines in the tests' own Spark session, and looks at what came out, with clients that nobody here wrote."""

from __future__ import annotations

import json
import sqlite3
import textwrap
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from penstock.pipeline.api import PipelinePlan
from penstock.pipeline.declaration.spec_file import parse_pipeline
from penstock.pipeline.failure import PipelineFailed
from penstock.pipeline.run import run_pipeline
from penstock.pipeline.run_settings import Event, RunSettings

PATIENCE_S = 120


class Found(NamedTuple):
    key: str | None
    value: str | None
    headers: dict[str, str | None]


class Pipelines:
    """Pipelines of one test: their broker, their directory, and names that no other test has."""

    def __init__(self, spark: SparkSession, bootstrap_servers: str, directory: Path) -> None:
        self.spark = spark
        self.bootstrap_servers = bootstrap_servers
        self.directory = directory
        self._id = uuid.uuid4().hex[:8]
        self.admin = AdminClient({"bootstrap.servers": bootstrap_servers})

    def name(self, word: str) -> str:
        return f"{word}-{self._id}"

    def topic(self, word: str, *, partitions: int = 2) -> str:
        name = self.name(word)
        self.admin.create_topics([NewTopic(name, partitions, 1)])[name].result()
        return name

    def send(self, topic: str, values: Iterable[Any], *, key: str | bytes | None = None) -> None:
        """Texts and bytes as they are, everything else as JSON; in turn to the partitions."""
        producer = Producer({"bootstrap.servers": self.bootstrap_servers})
        partitions = len(self.admin.list_topics(topic, timeout=60).topics[topic].partitions)
        for number, value in enumerate(values):
            text = value if isinstance(value, str | bytes) or value is None else json.dumps(value)
            producer.produce(topic, value=text, key=key, partition=number % partitions)
        producer.flush()

    def records(self, topic: str) -> list[Found]:
        """All that is committed, in no particular order."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": uuid.uuid4().hex,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
            }
        )
        waiting = set(consumer.list_topics(topic, timeout=60).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in waiting])
        found = []
        deadline = time.monotonic() + PATIENCE_S
        while waiting and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error():
                waiting.discard(message.partition())
                continue
            found.append(
                Found(
                    _text(message.key()),
                    _text(message.value()),
                    {header[0]: _text(header[1]) for header in message.headers() or []},
                )
            )
        consumer.close()
        assert not waiting
        return found

    def values(self, topic: str) -> list[Any]:
        return [json.loads(found.value or "null") for found in self.records(topic)]

    def committed(self, group: str, topic: str) -> dict[int, int]:
        consumer = Consumer({"bootstrap.servers": self.bootstrap_servers, "group.id": group})
        partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
        offsets = consumer.committed([TopicPartition(topic, partition) for partition in partitions], timeout=60)
        consumer.close()
        return {place.partition: place.offset for place in offsets}

    def settings(self, *, once: bool, report: Callable[[Event], None], checkpoint: str | None = None) -> RunSettings:
        return RunSettings(
            directory=self.directory,
            bootstrap_servers=self.bootstrap_servers,
            checkpoint=checkpoint,
            once=once,
            report=report,
            spark=self.spark,
        )

    def once(self, yaml: str, *, checkpoint: str | None = None) -> list[Event]:
        """Runs over what is there; the events that it reported."""
        events: list[Event] = []
        pipeline = parse_pipeline(textwrap.dedent(yaml), "pipeline.yaml")
        run_pipeline(
            PipelinePlan(pipeline.spec, self.directory),
            self.settings(once=True, report=events.append, checkpoint=checkpoint),
        )
        return events

    def start(self, yaml: str) -> Running:
        pipeline = parse_pipeline(textwrap.dedent(yaml), "pipeline.yaml")
        return Running(self, PipelinePlan(pipeline.spec, self.directory))


class Running:
    """A pipeline in a thread, until the context is left."""

    def __init__(self, pipelines: Pipelines, plan: PipelinePlan) -> None:
        self.events: list[Event] = []
        self.failure: PipelineFailed | None = None
        self._settings = pipelines.settings(once=False, report=self.events.append)
        self._plan = plan
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            run_pipeline(self._plan, self._settings)
        except PipelineFailed as failure:
            self.failure = failure

    def __enter__(self) -> Running:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._settings.stop.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()

    def wait_until(self, reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not reached():
            assert self._thread.is_alive(), self.failure
            assert time.monotonic() < deadline, self.events[-3:]
            time.sleep(0.05)

    def wait_for_end(self) -> PipelineFailed | None:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), self.events[-3:]
        return self.failure


def of_kind(events: Iterable[Event], kind: str) -> list[Event]:
    return [event for event in events if event["event"] == kind]


def _text(value: bytes | str | None) -> str | None:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def sqlite_rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()
