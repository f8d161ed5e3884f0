"""Dead letters of connectors in a real broker's topics: read, replayed, and left alone after too many attempts."""

from __future__ import annotations

from typing import Any, Final
from uuid import uuid4

from confluent_kafka import Consumer, Producer, TopicPartition

from penstock import Admin
from penstock.client.dead_letters.topics import DeadLetterTopics
from penstock.connect.config.connector_config import WorkerDefaults
from penstock.connect.config.providers import ConfigProviders
from penstock.connect.connector_letters import ConnectorLetters
from penstock.connect.data.records import Failure
from penstock.connect.errors.policy import ErrorPolicy
from penstock.connect.errors.stage import Stage, StagedFailure
from penstock.connect.plugins import Plugins
from penstock.connect.worker_plugins import WorkerPlugins
from penstock.core.dead_letters import REPLAY_ATTEMPT
from tests.conftest import RunningBroker
from tests.unit.connect.fake_herder import FakeHerder
from tests.unit.connect.raw_records import raw_records

CONVERTER: Final = "org.apache.kafka.connect.json.JsonConverter"
TIMEOUT_S: Final = 30


class Scene:
    """A topic `orders`, and the connectors `files` and `others`, which share a dead letter topic."""

    def __init__(self, broker: RunningBroker) -> None:
        self.servers = {"bootstrap.servers": broker.bootstrap_servers}
        self.orders, self.letters = (f"{name}-{uuid4().hex[:12]}" for name in ("orders", "letters"))
        admin = Admin(self.servers)
        admin.create_topic(self.orders, partitions=1)
        admin.create_topic(self.letters, partitions=1)
        self._config = {
            "connector.class": "FileStreamSink",
            "topics": self.orders,
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": self.letters,
            "errors.deadletterqueue.context.headers.enable": "true",
        }
        herder = FakeHerder(WorkerPlugins(Plugins(), WorkerDefaults(CONVERTER, CONVERTER), ConfigProviders({})))
        for name in ("files", "others"):
            herder.create(name, {"name": name, **self._config})
        self.connector_letters = ConnectorLetters(herder, self.servers)

    def produce(self, topic: str, value: bytes | None, key: bytes | None, headers: list[Any]) -> None:
        producer = Producer(self.servers)
        producer.produce(topic, value, key, headers=headers)
        assert producer.flush(TIMEOUT_S) == 0

    def fail(self, connector: str) -> None:
        """The newest record of `orders` becomes a dead letter, as the connector's task makes it."""
        newest = self.records(self.orders)[-1]
        batch = raw_records(
            [newest.value()],
            keys=[newest.key()],
            headers=[newest.headers() or []],
            topics=[self.orders],
            partition=0,
            first_offset=newest.offset(),
        )
        failed = StagedFailure(Stage.VALUE_CONVERTER, CONVERTER, Failure([0], "no JSON"))
        letters = ErrorPolicy.of(self._config).decide([failed], batch, connector=connector, task=0).dead_letters
        assert letters is not None
        (letter,) = letters.to_pylist()
        headers = [(header["key"], header["value"]) for header in letter["headers"]]
        self.produce(self.letters, letter["value"], letter["key"], headers)

    def records(self, topic: str) -> list[Any]:
        consumer = Consumer(
            {**self.servers, "group.id": "reader", "enable.partition.eof": True, "isolation.level": "read_committed"}
        )
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = []
        while (message := consumer.poll(TIMEOUT_S)) is not None and message.error() is None:
            found.append(message)
        consumer.close()
        return found


def test_letters_of_a_connector_are_replayed_until_they_were_tried_too_often(broker_under_test: RunningBroker) -> None:
    scene = Scene(broker_under_test)
    letters = scene.connector_letters
    scene.produce(scene.orders, b"{", b"k", [("trace", b"t")])
    scene.fail("files")
    scene.fail("others")
    (shown,) = letters.list("files", limit=10, after=None)
    assert {name: value for name, value in shown.items() if name != "timestamp"} == {
        "id": "0-0",
        "topic": scene.letters,
        "stage": "VALUE_CONVERTER",
        "reason": "DataException: no JSON",
        "attempt": 0,
        "source": {"topic": scene.orders, "partition": 0, "offset": 0},
        "key": "k",
        "value": "{",
    }
    sent = {"replayed": 1, "unreplayable": 0, "quarantined": 0, "by_topic": {scene.orders: 1}}
    assert letters.replay("files", None, max_attempts=1) == sent
    again = scene.records(scene.orders)[-1]
    assert (again.value(), again.key()) == (b"{", b"k")
    assert again.headers() == [("trace", b"t"), (REPLAY_ATTEMPT, b"1")], "and nothing of the letter"

    # The record fails again. Its letter keeps the header, and is left alone.
    scene.fail("files")
    (shown,) = letters.list("files", limit=10, after=None)
    assert (shown["id"], shown["attempt"]) == ("0-2", 1)
    left = {"replayed": 0, "unreplayable": 0, "quarantined": 1, "by_topic": {}}
    assert letters.replay("files", None, max_attempts=1) == left
    assert [each["id"] for each in letters.list("files", limit=10, after=None)] == ["0-2"]
    assert letters.replay("files", ["0-2"]) == sent, "one that is named is replayed"
    assert letters.list("files", limit=10, after=None) == []
    assert scene.records(scene.orders)[-1].headers() == [("trace", b"t"), (REPLAY_ATTEMPT, b"2")]
    # The other connector's letter waits, and `penstock dead-letters` finds the topic.
    assert [each["id"] for each in letters.list("others", limit=10, after=None)] == ["0-1"]
    with DeadLetterTopics(scene.servers) as topics:
        assert scene.letters in topics.names()
        found = [(letter.pipeline, letter.attempt) for letter in topics.letters(scene.letters)]
    assert found == [("files", 0), ("others", 0), ("files", 1)]


def test_a_letter_of_a_record_without_headers_has_an_attempt_too(broker_under_test: RunningBroker) -> None:
    scene = Scene(broker_under_test)
    scene.produce(scene.orders, b"[", None, [])
    for attempt in range(3):
        scene.fail("files")
        (shown,) = scene.connector_letters.list("files", limit=10, after=None)
        assert shown["attempt"] == attempt
        assert scene.connector_letters.replay("files", None)["replayed"] == 1
    assert [message.headers() for message in scene.records(scene.orders)] == [
        None,
        [(REPLAY_ATTEMPT, b"1")],
        [(REPLAY_ATTEMPT, b"2")],
        [(REPLAY_ATTEMPT, b"3")],
    ]
