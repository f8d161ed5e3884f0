"""Mirror connectors between two clusters, run by the worker's own loop, with threads in place of Spark's tasks."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from uuid import uuid4

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from pyspark import cloudpickle

from penstock.client.admin import Admin
from penstock.connect.connector import Connector, SourceConnector
from penstock.connect.plugins import Plugins
from penstock.connect.runtime.client_settings import WorkerProperties
from penstock.connect.runtime.connector_offsets import ConnectorOffsets
from penstock.connect.runtime.connector_runs import ConnectorRuns
from penstock.connect.runtime.runner import Execution
from penstock.connect.runtime.spark_jobs import SparkJobs

PACKAGE = "org.apache.kafka.connect.mirror."
NOTHING: Mapping[str, str] = {}
EXACTLY_ONCE = {"exactly.once.source.support": "enabled"}
PATIENCE_S = 240.0

_failures: list[BaseException] = []
"""Of connectors that run."""


class _TasksInThisProcess(SparkJobs):
    """Pickles tasks as Spark does, and runs them one after the other."""

    def __init__(self) -> None:
        super().__init__(lambda: None)  # type: ignore[arg-type, return-value]

    def run(
        self,
        group: str,
        function: Callable[[Any], Any],
        tasks: Sequence[Any],
        stop: threading.Event | None = None,
    ) -> list[Any]:
        dumps: Any = cloudpickle.dumps
        return [pickle.loads(dumps(function(pickle.loads(dumps(task))))) for task in tasks]


def _class_of(config: Mapping[str, str]) -> type[Connector]:
    found: type[Connector] = Plugins().load("Connector", config["connector.class"]).implementation
    return found


class Mirror:
    """A worker next to `target`, and the properties of mirrors from `source`."""

    def __init__(self, source: str, target: str, worker: Mapping[str, str] = NOTHING) -> None:
        self.source = source
        self.target = target
        suffix = uuid4().hex[:8]
        self.worker = {
            "bootstrap.servers": target,
            "group.id": f"connect-{suffix}",
            "offset.storage.topic": f"connect-offsets-{suffix}",
            "offset.storage.partitions": "1",
            # A mirror does not use them.
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            **worker,
        }

    def config(self, kind: str, more: Mapping[str, str]) -> dict[str, str]:
        return {
            "connector.class": f"{PACKAGE}Mirror{kind}Connector",
            "source.cluster.alias": "a",
            "target.cluster.alias": "b",
            "source.cluster.bootstrap.servers": self.source,
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "checkpoints.topic.replication.factor": "1",
            "heartbeats.topic.replication.factor": "1",
            "consumer.poll.timeout.ms": "20",
            "refresh.topics.interval.seconds": "0",
            "refresh.groups.interval.seconds": "0",
            "sync.topic.configs.interval.seconds": "0",
            "sync.topic.acls.interval.seconds": "0",
            "emit.checkpoints.interval.seconds": "0",
            "sync.group.offsets.interval.seconds": "0",
            **more,
        }

    @contextmanager
    def running(self, kind: str, properties: Mapping[str, str] = NOTHING, **more: str) -> Iterator[None]:
        """Until the end of the block; a failure of the connector is raised there. `_` in names stands for `.`."""
        config = self.config(kind, {**properties, **{name.replace("_", "."): more[name] for name in more}})
        connector = _class_of(config)(kind, config)
        stop = threading.Event()

        def run() -> None:
            runs = ConnectorRuns(WorkerProperties(self.worker), _TasksInThisProcess())
            execution = Execution(kind, config, connector.task_count(2), lambda _report: None, stop)
            try:
                runs.run(connector, execution, started=lambda: None, moved=lambda _moved: None)
            except BaseException as failure:
                _failures.append(failure)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
        if _failures:
            raise _failures.pop()

    def offsets(
        self, kind: str, properties: Mapping[str, str] = NOTHING
    ) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """Committed offsets of the connector of this kind."""
        config = self.config(kind, properties)
        found = _class_of(config)
        assert issubclass(found, SourceConnector)
        return list(ConnectorOffsets(WorkerProperties(self.worker)).of_source(kind, found.completed(config)))


class Found(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def content(self) -> tuple[Any, ...]:
        """Everything but the offset."""
        return (self.partition, self.key, self.value, self.timestamp, self.headers)


def eventually(reason: str, is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        if _failures:
            raise _failures.pop()
        assert time.monotonic() < deadline, reason
        time.sleep(0.05)


def create(servers: str, topic: str, partitions: int = 1, **config: str) -> str:
    named = {name.replace("_", "."): value for name, value in config.items()}
    Admin({"bootstrap.servers": servers}).create_topic(topic, partitions=partitions, config=named)
    return topic


def produce(
    servers: str, topic: str, count: int, *, first: int = 0, partitions: int = 1, transactional_id: str | None = None
) -> None:
    """Records with bytes that are no text, with and without keys, values and headers."""
    settings = {} if transactional_id is None else {"transactional.id": transactional_id}
    producer = Producer({"bootstrap.servers": servers, **settings})
    if settings:
        producer.init_transactions()
        producer.begin_transaction()
    for number in range(first, first + count):
        headers: Any = [
            [],
            [("h", b"\xff\x00")],
            [("h", b"1"), ("h", b"2"), ("other", None)],
            [("é", b"")],
        ][number % 4]
        producer.produce(
            topic,
            key=None if number % 5 == 0 else b"k%d\xff" % number,
            value=None if number % 7 == 3 else b"\x00%d\xfe" % number,
            partition=number % partitions,
            timestamp=1_600_000_000_000 + number,
            headers=headers,
            on_delivery=_require_delivery,
        )
    if settings:
        producer.commit_transaction()
    assert producer.flush(30) == 0


def _require_delivery(error: Any, _message: Any) -> None:
    if error is not None:
        raise KafkaException(error)


def contents(servers: str, topic: str) -> list[Found]:
    """All committed records, by partition and offset; none if the topic does not exist."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": uuid4().hex,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    try:
        topics = consumer.list_topics(timeout=60).topics
        if topic not in topics:
            return []
        partitions = topics[topic].partitions
        consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in partitions])
        ended: set[int] = set()
        found = []
        while len(ended) < len(partitions):
            message = consumer.poll(10)
            assert message is not None
            error = message.error()
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                ended.add(message.partition() or 0)
                continue
            headers: Any = message.headers() or []
            found.append(
                Found(
                    message.partition() or 0,
                    message.offset() or 0,
                    message.key(),
                    message.value(),
                    message.timestamp()[1],
                    tuple(map(tuple, headers)),
                )
            )
        return sorted(found, key=lambda each: (each.partition, each.offset))
    finally:
        consumer.close()


def await_records(servers: str, topic: str, count: int) -> list[Found]:
    found: list[Found] = []

    def are_there() -> bool:
        found[:] = contents(servers, topic)
        return len(found) >= count

    eventually(f"{topic} has not {count} records", are_there)
    assert len(found) == count
    return found
