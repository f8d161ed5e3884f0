"""A Kafka Connect worker and a Kafka Streams application, exactly once, on a secured broker; all three are killed.

The worker copies the lines of a growing file into a topic, in transactions together with its offsets. The application
counts the lines by their first word, with a repartition topic and a changelog. Both have the ACLs that Kafka's
documentation asks for, and no others.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from penstock.testing.apache_kafka import free_ports
from penstock.testing.java import JavaMissingError
from tests.conftest import optional_part_missing
from tests.kafka_applications.java_programs import JavaProgram, compile_application, write_properties
from tests.kafka_applications.secured_broker import SecuredBroker
from tests.kafka_tools.tools import KafkaTools

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PATIENCE_S: Final = 90
STEP: Final = 500  # lines between two events
WORDS: Final = 40
INTERNAL_OF_CONNECT: Final = ("connect-configs", "connect-offsets", "connect-status")
CHANGELOG: Final = "counting-count-changelog"
# Segments end every 300 ms, and are compacted at once.
BROKER_SETTINGS: Final = {
    "log.roll.ms": "300",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.retention.check.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "num.partitions": "2",
}


class GrowingFile:
    """What the source connector reads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[str] = []
        path.touch()

    def grow(self, count: int) -> None:
        start = len(self.lines)
        new = [f"word-{number % WORDS} line-{number:06d}" for number in range(start, start + count)]
        with self.path.open("a", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in new))
        self.lines += new

    def counts(self) -> dict[str, int]:
        return dict(Counter(line.split(" ")[0] for line in self.lines))


class CountsReader:
    """The newest committed count of each word."""

    def __init__(self, broker: SecuredBroker) -> None:
        self._consumer = confluent_kafka.Consumer(
            broker.librdkafka_settings("operator") | {"group.id": "unused", "isolation.level": "read_committed"}
        )
        partitions = [confluent_kafka.TopicPartition("counts", each, 0) for each in range(2)]
        self._consumer.assign(partitions)
        self.counts: dict[str, int] = {}

    def wait_for(self, total: int, failed: Callable[[], str]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while sum(self.counts.values()) < total:
            assert time.monotonic() < deadline, f"{sum(self.counts.values())} of {total} lines counted; {failed()}"
            for message in self._consumer.consume(500, timeout=0.5):
                if message.error() is None:
                    self.counts[(message.key() or b"").decode()] = int(message.value() or b"")

    def close(self) -> None:
        self._consumer.close()


class ConnectWorker:
    """A distributed worker, by its REST interface."""

    def __init__(self, broker: SecuredBroker, directory: Path) -> None:
        directory.mkdir()
        (self._port,) = free_ports(1)
        client = broker.java_settings("connect")
        settings = {
            **client,
            **{f"{kind}.{name}": value for kind in ("producer", "consumer", "admin") for name, value in client.items()},
            "group.id": "connect",
            "exactly.once.source.support": "enabled",
            "listeners": f"http://127.0.0.1:{self._port}",
            "config.storage.topic": "connect-configs",
            "offset.storage.topic": "connect-offsets",
            "status.storage.topic": "connect-status",
            **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
            "offset.storage.partitions": "1",
            "status.storage.partitions": "1",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "plugin.discovery": "service_load",
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "1000",
            "scheduled.rebalance.max.delay.ms": "0",
            "offset.flush.interval.ms": "500",
        }
        file = write_properties(directory / "worker.properties", settings)
        self.program = JavaProgram(directory, "org.apache.kafka.connect.cli.ConnectDistributed", [str(file)], [])

    def put_connector(self, config: dict[str, str]) -> None:
        """Creates or changes a connector, as soon as the worker takes it."""
        body = json.dumps(config).encode()
        self._until(lambda: self._request("PUT", "/connectors/lines/config", body) is not None)

    def wait_until_running(self) -> None:
        def running() -> bool:
            status = self._request("GET", "/connectors/lines/status")
            states = [] if status is None else [status["connector"]["state"], *(t["state"] for t in status["tasks"])]
            return len(states) == 2 and set(states) == {"RUNNING"}

        self._until(running)

    def wait_until_failed(self, cause: str) -> None:
        """Until the connector's task has ended with this error."""

        def failed() -> bool:
            status = self._request("GET", "/connectors/lines/status")
            return status is not None and any(cause in task.get("trace", "") for task in status["tasks"])

        self._until(failed)

    def restart_task(self) -> None:
        path = "/connectors/lines/restart?includeTasks=true&onlyFailed=true"
        self._until(lambda: self._request("POST", path, b"") is not None)

    def _until(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not done():
            assert self.program.is_running(), self.program.output[-4000:]
            assert time.monotonic() < deadline, self.program.output[-4000:]
            time.sleep(0.2)

    def _request(self, method: str, path: str, body: bytes | None = None) -> Any:
        """The answer, or None while the worker starts, rebalances or has no such connector."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}{path}", body, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refused:
            refused.close()
            if refused.code not in (404, 409, 500, 503):
                raise
            return None
        except OSError:
            return None


def connector_config(file: Path, batch_size: int) -> dict[str, str]:
    return {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "file": str(file),
        "topic": "lines",
        "batch.size": str(batch_size),
        "tasks.max": "1",
        "exactly.once.support": "required",
        "transaction.boundary": "poll",
    }


def grant_connect(broker: SecuredBroker) -> None:
    """What Kafka's documentation of Connect asks for, apart from the transactional ids of tasks."""
    broker.create_user("connect")
    for topic in INTERNAL_OF_CONNECT:
        operations = ("Create", "Describe", "DescribeConfigs", "Read", "Write")
        broker.allow("connect", "--topic", topic, *(word for each in operations for word in ("--operation", each)))
    broker.allow("connect", "--group", "connect", "--operation", "Read")
    broker.allow("connect", "--transactional-id", "connect-cluster-connect", "--operation", "Write",
                 "--operation", "Describe")  # fmt: skip
    broker.allow("connect", "--topic", "lines", "--operation", "Write", "--operation", "Describe")


def grant_streams(broker: SecuredBroker) -> None:
    """What Kafka's documentation of Streams asks for, apart from the transactional ids."""
    broker.create_user("streams")
    broker.allow("streams", "--topic", "counting", "--group", "counting", "--resource-pattern-type", "prefixed",
                 "--operation", "All")  # fmt: skip
    broker.allow("streams", "--topic", "lines", "--operation", "Read", "--operation", "Describe")
    broker.allow("streams", "--topic", "counts", "--operation", "Write", "--operation", "Describe")


def grant_transactions(broker: SecuredBroker) -> None:
    for user, prefix in (("connect", "connect-lines-"), ("streams", "counting")):
        broker.allow(user, "--transactional-id", prefix, "--resource-pattern-type", "prefixed",
                     "--operation", "Write", "--operation", "Describe")  # fmt: skip


def grant_operator(broker: SecuredBroker) -> None:
    """The test itself, which creates topics and reads everything. It is no super user either."""
    broker.create_user("operator")
    broker.allow("operator", "--topic", "*", "--group", "*", "--operation", "All")
    broker.allow("operator", "--cluster", "--operation", "All")


def streams_application(broker: SecuredBroker, directory: Path, classes: Path) -> JavaProgram:
    directory.mkdir()
    settings = {
        **broker.java_settings("streams"),
        "application.id": "counting",
        "processing.guarantee": "exactly_once_v2",
        "state.dir": str(directory / "state"),
        "commit.interval.ms": "100",
        "num.stream.threads": "1",
        "consumer.session.timeout.ms": "6000",
        "consumer.heartbeat.interval.ms": "1000",
        "consumer.auto.offset.reset": "earliest",
        "default.key.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
        "default.value.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
    }
    file = write_properties(directory / "application.properties", settings)
    return JavaProgram(directory, "CountingApplication", [str(file), "lines", "counts"], [classes])


@pytest.fixture
def classes(tmp_path: Path) -> Path:
    try:
        return compile_application(tmp_path / "classes")
    except JavaMissingError as missing:
        optional_part_missing(str(missing))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SecuredBroker]:
    with SecuredBroker(tmp_path, BROKER_SETTINGS) as broker:
        broker.start_for_setup()
        yield broker


def test_connect_and_streams_count_every_line_once_while_all_of_them_are_killed(
    classes: Path, broker: SecuredBroker, tmp_path: Path
) -> None:
    grant_operator(broker)
    grant_connect(broker)
    grant_streams(broker)
    admin = AdminClient(broker.librdkafka_settings("operator"))
    topics = [NewTopic("lines", 2, 1), NewTopic("counts", 2, 1, config={"cleanup.policy": "compact"})]
    for created in admin.create_topics(topics).values():
        created.result(PATIENCE_S)
    worker = ConnectWorker(broker, tmp_path / "connect")
    application = streams_application(broker, tmp_path / "streams", classes)
    with worker.program, application:
        file = GrowingFile(tmp_path / "lines.txt")
        file.grow(STEP)
        # Without an ACL for its transactional ids, the application ends and the connector's task fails.
        worker.program.start()
        application.start()
        worker.put_connector(connector_config(file.path, batch_size=10))
        assert application.wait(PATIENCE_S) == 1
        assert "TransactionalIdAuthorizationException" in application.output, application.output[-4000:]
        worker.wait_until_failed("TransactionalIdAuthorizationException")
        grant_transactions(broker)

        # From here on there is no super user, and no other listener.
        broker.stop()
        broker.start()
        worker.restart_task()
        application.start()
        run_and_kill(broker, worker, application, file)
        change_connector_until_compacted(broker, worker, file)
    assert_compacted(broker, admin)
    broker.stop()
    with KafkaTools() as tools:
        assert_readable_for_the_dump_tool(tools, broker.data_dir)


def run_and_kill(broker: SecuredBroker, worker: ConnectWorker, application: JavaProgram, file: GrowingFile) -> None:
    def how_it_stands() -> str:
        return f"{worker.program.output[-3000:]}\n{application.output[-3000:]}\n{broker.output[-3000:]}"

    reader = CountsReader(broker)
    worker.wait_until_running()
    reader.wait_for(STEP // 2, how_it_stands)

    file.grow(STEP)
    application.kill()
    application.start()
    reader.wait_for(STEP + STEP // 2, how_it_stands)

    file.grow(STEP)
    worker.program.kill()
    worker.program.start()
    reader.wait_for(2 * STEP + STEP // 2, how_it_stands)

    file.grow(STEP)
    broker.kill()
    broker.start()
    reader.wait_for(3 * STEP + STEP // 2, how_it_stands)

    # Another generation of tasks: its producer fences the one before. The file connector keeps lines beyond a full
    # batch until the file grows again; this generation's batches are never full.
    file.grow(STEP)
    worker.put_connector(connector_config(file.path, batch_size=6 * STEP))
    reader.wait_for(4 * STEP + STEP // 2, how_it_stands)
    file.grow(STEP)
    reader.wait_for(6 * STEP, how_it_stands)
    assert reader.counts == file.counts()
    reader.close()
    lines = [(message.value() or b"").decode() for message in read_all(broker, "lines", "read_committed")]
    assert sorted(lines) == sorted(file.lines)


def change_connector_until_compacted(broker: SecuredBroker, worker: ConnectWorker, file: GrowingFile) -> None:
    """Connect writes few records of its own; each change supersedes some, and begins the segments that follow."""
    deadline = time.monotonic() + PATIENCE_S
    batch_size = 6 * STEP
    while not all(removed_records(broker, topic) for topic in INTERNAL_OF_CONNECT):
        assert time.monotonic() < deadline, cleaned_offsets(broker.data_dir)
        batch_size += 1
        worker.put_connector(connector_config(file.path, batch_size))
        worker.wait_until_running()


def removed_records(broker: SecuredBroker, topic: str) -> int:
    """How many records are gone from the cleaned part of a topic, which must not hold a key twice."""
    cleaned = {partition: end for (name, partition), end in cleaned_offsets(broker.data_dir).items() if name == topic}
    kept = [
        (message.partition(), message.key())
        for message in read_all(broker, topic)
        if (message.offset() or 0) < cleaned.get(message.partition() or 0, 0)
    ]
    assert len(kept) == len(set(kept)), f"{topic} holds a key twice below its cleaned offset"
    return sum(cleaned.values()) - len(kept)


def read_all(broker: SecuredBroker, topic: str, isolation: str = "read_uncommitted") -> list[confluent_kafka.Message]:
    """Everything that a topic holds."""
    settings = {"group.id": "unused", "isolation.level": isolation, "enable.partition.eof": True}
    consumer = confluent_kafka.Consumer(broker.librdkafka_settings("operator") | settings)
    found = consumer.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
    consumer.assign([confluent_kafka.TopicPartition(topic, each, 0) for each in found])
    messages: list[confluent_kafka.Message] = []
    ended: set[int] = set()
    deadline = time.monotonic() + PATIENCE_S
    while len(ended) < len(found):
        assert time.monotonic() < deadline, f"{topic}: {len(messages)} records, the ends of {ended}"
        for message in consumer.consume(1000, timeout=0.2):
            error = message.error()
            if error is None:
                messages.append(message)
            else:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                ended.add(message.partition() or 0)
    consumer.close()
    return messages


def assert_compacted(broker: SecuredBroker, admin: AdminClient) -> None:
    """Internal topics have the policy that was asked for, and superseded records are gone from their cleaned part."""
    policies = dict.fromkeys((*INTERNAL_OF_CONNECT, CHANGELOG, "counts", "__consumer_offsets"), "compact")
    policies |= {"__transaction_state": "compact", "counting-count-repartition": "delete"}
    described = admin.describe_configs([ConfigResource("topic", topic) for topic in policies])
    found = {each.name: configs.result(PATIENCE_S)["cleanup.policy"].value for each, configs in described.items()}
    assert found == policies
    for topic in (topic for topic, policy in policies.items() if policy == "compact"):
        assert removed_records(broker, topic) > 0, f"{topic}: {cleaned_offsets(broker.data_dir)}"


def assert_readable_for_the_dump_tool(tools: KafkaTools, data_dir: Path) -> None:
    """kafka-dump-log reads every segment, also of compacted topics, and finds that every index fits its log."""
    for kind in ("log", "index", "timeindex", "txnindex", "snapshot"):
        files = sorted(data_dir.glob(f"*-?/*.{kind}"))
        if kind == "txnindex" and not files:
            continue  # nothing was aborted in a segment that is still there
        assert files, kind
        finished = tools.finish("kafka-dump-log", "--deep-iteration", "--files", ",".join(map(str, files)))
        assert finished.code == 0, finished.output[-3000:]
        for complaint in ("mismatch", "out of order", "isvalid: false", "exception", "sanity check"):
            assert complaint not in finished.output.lower(), finished.output[-3000:]
        if kind == "log":
            assert "deleteHorizonMs: OptionalLong[" in finished.output
    for topic, decoder in (
        ("__consumer_offsets", "--offsets-decoder"),
        ("__transaction_state", "--transaction-log-decoder"),
    ):
        files = sorted((data_dir / f"{topic}-0").glob("*.log"))
        finished = tools.finish("kafka-dump-log", decoder, "--files", ",".join(map(str, files)))
        assert finished.code == 0, finished.output[-3000:]
        assert '"counting' in finished.output, f"no record of the application in {topic}"


def cleaned_offsets(data_dir: Path) -> dict[tuple[str, int], int]:
    """cleaner-offset-checkpoint: a version, a count, and a line for each partition."""
    _version, _count, *lines = (data_dir / "cleaner-offset-checkpoint").read_text().splitlines()
    fields = [line.split(" ") for line in lines]
    return {(topic, int(partition)): int(offset) for topic, partition, offset in fields}
