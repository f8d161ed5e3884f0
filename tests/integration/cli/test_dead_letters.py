"""`penstock dead-letters` against a real broker: what is counted, shown and replayed; a replay that is killed."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import confluent_kafka
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from penstock import Admin
from penstock.client.dead_letters import topics
from penstock.client.dead_letters.done import Done
from penstock.client.dead_letters.replay import replay
from penstock.core import dead_letters as names
from penstock.protocol.compression import Compression
from penstock.protocol.error_codes import ErrorCode
from tests.conftest import RunningBroker
from tests.integration.broker.conversation import create_topic, delete_topic, produce
from tests.integration.cli.conftest import TIMEOUT_S, Command, command_line, environment, only_line
from tests.record_batches import Record, encode_batch
from tests.wire_client import WireClient


class Scene:
    """A topic `orders` with records that a pipeline could not process, and their dead letters."""

    def __init__(self, broker: RunningBroker, new_topic: Callable[..., str]) -> None:
        self.servers = broker.bootstrap_servers
        self.orders, self.letters = new_topic(partitions=2), new_topic(partitions=1)

    def add(self, numbers: Sequence[int], **changed: str | None) -> None:
        """The record `number`, and its letter."""
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 5})
        for number in numbers:
            value, key = f"order {number}", f"key {number}"
            placed: list[Any] = []

            def seen(_error: Any, message: Any, placed: list[Any] = placed) -> None:
                placed.append(message)

            producer.produce(
                self.orders,
                value,
                key,
                partition=number % 2,
                headers={"trace": str(number)},
                on_delivery=seen,
            )
            producer.flush()
            said: dict[str, str | None] = {
                names.REASON: f"column 'amount' is INT as declared, got '{number}'",
                names.STAGE: "parse",
                names.TOPIC: self.orders,
                names.PARTITION: str(number % 2),
                names.OFFSET: str(placed[0].offset()),
                names.PIPELINE: "revenue",
            }
            producer.produce(self.letters, value, key, headers=list((said | changed).items()))
        producer.flush()

    def fail_again(self) -> None:
        """A letter, as a pipeline writes it, for the newest record of partition 0 of `orders`."""
        newest = [message for message in self.records(self.orders) if message.partition() == 0][-1]
        said = {
            names.REASON: "still bad",
            names.STAGE: "parse",
            names.TOPIC: self.orders,
            names.PARTITION: "0",
            names.OFFSET: str(newest.offset()),
            names.PIPELINE: "revenue",
        }
        producer = Producer({"bootstrap.servers": self.servers})
        producer.produce(self.letters, newest.value(), newest.key(), headers=list(said.items()))
        producer.flush()

    def records(self, topic: str, first: Mapping[int, int] | None = None) -> list[Any]:
        """Committed records, partition by partition."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "reader",
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
            }
        )
        partitions = sorted(consumer.list_topics(topic, timeout=60).topics[topic].partitions)
        found = []
        for partition in partitions:
            consumer.assign([TopicPartition(topic, partition, (first or {}).get(partition, 0))])
            while (message := consumer.poll(TIMEOUT_S)) is not None and message.error() is None:
                found.append(message)
        consumer.close()
        return found


@pytest.fixture
def scene(broker_under_test: RunningBroker, new_topic: Callable[..., str]) -> Scene:
    return Scene(broker_under_test, new_topic)


def lines(finished: subprocess.CompletedProcess[bytes]) -> list[dict[str, Any]]:
    assert finished.returncode == 0, finished.stderr
    return [json.loads(line) for line in finished.stdout.splitlines()]


def test_letters_are_counted_shown_and_replayed_once(penstock: Command, scene: Scene) -> None:
    scene.add(range(4))
    scene.add([4], **{names.REASON: "(a / b) fails for b = '0'", names.STAGE: "transform"})
    counted: list[dict[str, Any]] = json.loads(penstock("dead-letters", "list", "--json").stdout)
    mine = [row for row in counted if row["topic"] == scene.letters]
    assert [(row["letters"], row["waiting"], row["stage"], row["pipeline"], row["reason"]) for row in mine] == [
        (4, 4, "parse", "revenue", "column 'amount' is INT as declared, got '...'"),
        (1, 1, "transform", "revenue", "(a / b) fails for b = '...'"),
    ]
    assert scene.orders not in {row["topic"] for row in counted}
    table = penstock("dead-letters", "list", scene.letters).stdout.decode().splitlines()
    assert table[0].split() == ["TOPIC", "PIPELINE", "STAGE", "LETTERS", "WAITING", "ATTEMPT", "REASON"]

    shown = lines(penstock("dead-letters", "show", scene.letters, "--stage", "transform", "--json"))
    assert [(letter["value"], letter["source"]["offset"], letter["replayed"]) for letter in shown] == [
        ("order 4", 2, False)
    ]
    text = penstock("dead-letters", "show", scene.letters, "-o", "1").stdout.decode()
    assert f"from    {scene.orders} partition 1 offset 0" in text
    assert "value   order 1" in text

    planned = lines(penstock("dead-letters", "replay", scene.letters, "--dry-run", "--json"))
    assert [plan["to"] for plan in planned] == [scene.orders] * 5
    assert len(scene.records(scene.orders)) == 5  # nothing was written

    # Some of them: the others stay.
    replayed = penstock("dead-letters", "replay", scene.letters, "--reason", "got '2'")
    assert replayed.stdout.decode() == f"replayed 1 dead letters: 1 to {scene.orders}\n"
    waiting = lines(penstock("dead-letters", "show", scene.letters, "--json"))
    assert [letter["value"] for letter in waiting] == ["order 0", "order 1", "order 3", "order 4"]
    every = lines(penstock("dead-letters", "show", scene.letters, "--all", "--json"))
    assert [letter["replayed"] for letter in every] == [False, False, True, False, False]

    assert lines(penstock("dead-letters", "replay", scene.letters, "--json"))[-1]["replayed"] == 4
    assert lines(penstock("dead-letters", "replay", scene.letters, "--json")) == []
    again = scene.records(scene.orders, {0: 3, 1: 2})
    assert sorted((message.value(), message.key(), message.partition()) for message in again) == [
        (b"order %d" % number, b"key %d" % number, number % 2) for number in range(5)
    ]
    # The headers of the records themselves, which the letters do not have.
    assert sorted(message.headers() for message in again) == [
        [("trace", str(number).encode()), (names.REPLAY_ATTEMPT, b"1")] for number in range(5)
    ]


@pytest.mark.slow
def test_a_letter_that_fails_again_and_again_is_left_alone(penstock: Command, scene: Scene) -> None:
    """A pipeline's letter: the attempt is in a header of the record that was replayed."""
    scene.add([0])
    limited = ("dead-letters", "replay", scene.letters, "--max-attempts", "2")
    for attempt in (1, 2):
        assert penstock(*limited).stdout.decode() == f"replayed 1 dead letters: 1 to {scene.orders}\n"
        scene.fail_again()
        (waiting,) = lines(penstock("dead-letters", "show", scene.letters, "--json"))
        assert (waiting["attempt"], waiting["offset"]) == (attempt, attempt)
    assert b"  attempt 2\n" in penstock("dead-letters", "show", scene.letters).stdout
    counted = json.loads(penstock("dead-letters", "list", scene.letters, "--json").stdout)
    assert {row["reason"]: (row["letters"], row["waiting"], row["attempt"]) for row in counted} == {
        "still bad": (2, 1, 2),
        "column 'amount' is INT as declared, got '...'": (1, 0, 0),
    }

    scene.add([2])
    planned = penstock(*limited, "--dry-run").stdout.decode().splitlines()
    assert "stays: it was replayed 2 times" in planned[0]
    assert f"to {scene.orders}" in planned[1]
    finished = penstock(*limited)
    assert finished.stdout.decode() == f"replayed 1 dead letters: 1 to {scene.orders}\n"
    assert only_line(finished.stderr).startswith("penstock: 1 letters were replayed 2 times before and stay; correct")
    assert lines(penstock(*limited, "--json")) == [{"replayed": 0, "quarantined": 1, "topics": {}}]
    # It stays until it is chosen.
    assert [each["offset"] for each in lines(penstock("dead-letters", "show", scene.letters, "--json"))] == [2]
    assert penstock("dead-letters", "replay", scene.letters, "-o", "2").returncode == 0
    newest = [message for message in scene.records(scene.orders) if message.partition() == 0][-1]
    assert (newest.value(), newest.headers()) == (b"order 0", [("trace", b"0"), (names.REPLAY_ATTEMPT, b"3")])
    assert lines(penstock("dead-letters", "show", scene.letters, "--json")) == []


def test_letters_of_a_file_need_a_topic(penstock: Command, scene: Scene) -> None:
    scene.add([0], **{names.TOPIC: "file:/orders.json", names.PARTITION: None, names.OFFSET: None})
    finished = penstock("dead-letters", "replay", scene.letters)
    assert finished.stdout.decode() == "replayed 0 dead letters\n"
    assert only_line(finished.stderr) == "penstock: 1 letters were not read from a topic and stay; name one with --to"
    assert penstock("dead-letters", "replay", scene.letters, "--to", scene.orders).returncode == 0
    assert [message.value() for message in scene.records(scene.orders)] == [b"order 0", b"order 0"]


def test_mistakes_are_one_line(penstock: Command, scene: Scene) -> None:
    for words, code, said in (
        (("show", "no-such-topic"), 4, "topic 'no-such-topic' does not exist"),
        (("replay", "no-such-topic"), 4, "topic 'no-such-topic' does not exist"),
        (("replay", scene.letters, "--to", "no-such-topic"), 4, "topic 'no-such-topic' does not exist"),
        (("replay", scene.letters, "--to", scene.letters), 2, "cannot be replayed into their own topic"),
        (("show", scene.letters, "--stage", "prase"), 2, "expected one of parse, expect, transform, handle"),
        (("show", scene.letters, "-o", "1-x"), 2, "expected an offset, or a range such as 10-20"),
    ):
        finished = penstock("dead-letters", *words)
        assert (finished.returncode, said in only_line(finished.stderr)) == (code, True), finished.stderr


@pytest.mark.slow
def test_a_replay_that_is_killed_neither_loses_nor_repeats(penstock: Command, scene: Scene) -> None:
    numbers = range(60)
    scene.add(numbers)
    before = Counter(message.value() for message in scene.records(scene.orders))
    variables = {**environment(), "PENSTOCK_BOOTSTRAP_SERVER": scene.servers}
    replay = command_line("dead-letters", "replay", scene.letters, "--json", "--batch-size", "7")
    kills = 0
    for _ in range(3):
        process = subprocess.Popen(replay, stdout=subprocess.PIPE, env={**os.environ, **variables})
        assert process.stdout is not None
        with process.stdout:
            process.stdout.readline()  # one transaction is committed, and the next one is under way
            process.kill()
            kills += process.wait() == -9
    assert kills, "every replay ended before it was killed"
    assert penstock("dead-letters", "replay", scene.letters, "--batch-size", "7").returncode == 0
    after = Counter(message.value() for message in scene.records(scene.orders))
    assert after - before == Counter(b"order %d" % number for number in numbers)


def test_letters_are_shown_while_a_killed_replay_has_an_open_transaction(scene: Scene) -> None:
    """It was killed between its offsets and its commit. The broker ends the transaction after a minute."""
    scene.add(range(2))
    name = topics.replay_group(scene.letters)
    member = Consumer({"bootstrap.servers": scene.servers, "group.id": name})
    killed = Producer({"bootstrap.servers": scene.servers, "transactional.id": name})
    killed.init_transactions()
    killed.begin_transaction()
    killed.produce(scene.orders, "order 0", partition=0)
    killed.flush()
    offsets = [TopicPartition(scene.letters, 0, 1)]
    killed.send_offsets_to_transaction(offsets, member.consumer_group_metadata())
    configuration = {"bootstrap.servers": scene.servers}
    with topics.DeadLetterTopics(configuration) as reader:
        assert reader.done(scene.letters) == {0: Done()}
        assert replay(configuration, reader, scene.letters, choose=lambda _: True).letters == 2
        assert reader.done(scene.letters) == {0: Done(2)}
    member.close()
    assert sorted(message.value() for message in scene.records(scene.orders, {0: 1, 1: 1})) == [b"order 0", b"order 1"]


class CountedConsumer(Consumer):
    """Remembers the partitions of each assignment, which begins fetches of its own."""

    assignments: ClassVar[list[list[str]]] = []

    def assign(self, partitions: Any, *more: Any) -> Any:
        self.assignments.append([place.topic for place in partitions])
        return super().assign(partitions, *more)


@pytest.fixture
def assignments(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Those of all consumers from now on."""
    CountedConsumer.assignments.clear()
    monkeypatch.setattr(confluent_kafka, "Consumer", CountedConsumer)
    return CountedConsumer.assignments


def test_topics_are_looked_at_together(
    scene: Scene, new_topic: Callable[..., str], assignments: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand topics take as many requests as these."""
    scene.add([0])
    producer = Producer({"bootstrap.servers": scene.servers})
    others = [new_topic(partitions=2) for _ in range(20)]
    for topic in others:
        producer.produce(topic, "no letter")
    producer.flush()
    asked = []
    offsets = Admin.offsets

    def counted(self: Admin, partitions: Any, *which: Any, **how: Any) -> Any:
        asked.append(which)
        return offsets(self, partitions, *which, **how)

    monkeypatch.setattr(Admin, "offsets", counted)
    with topics.DeadLetterTopics({"bootstrap.servers": scene.servers}) as reader:
        found = reader.names()
    assert scene.letters in found
    assert not {scene.orders, *others} & set(found)
    assert asked == [("earliest",), ("latest",)]
    # The second looks further back, where a test has left aborted records behind letters.
    together, *further_back = assignments
    assert {scene.orders, scene.letters, *others} <= set(together)
    assert not {scene.orders, scene.letters, *others} & {topic for later in further_back for topic in later}


def test_aborted_records_hide_no_letters(scene: Scene) -> None:
    scene.add(range(2))
    producer = Producer({"bootstrap.servers": scene.servers, "transactional.id": f"{scene.letters}-aborted"})
    producer.init_transactions()
    producer.begin_transaction()
    for number in range(40):
        producer.produce(scene.letters, f"aborted {number}", headers={names.REASON: "no"})
    producer.flush()
    producer.abort_transaction()
    with topics.DeadLetterTopics({"bootstrap.servers": scene.servers}) as reader:
        assert scene.letters in reader.names()
        assert [letter.value for letter in reader.letters(scene.letters)] == [b"order 0", b"order 1"]


def test_a_topic_that_nobody_can_read_is_left_out(penstock: Command, scene: Scene) -> None:
    """A broker does not open batches: this one says gzip, and is not."""
    scene.add(range(1))
    unreadable = f"{scene.letters}-unreadable"
    with WireClient(scene.servers) as client:
        batch = encode_batch([Record(b"not gzip")], attributes=Compression.GZIP)
        assert produce(client, create_topic(client, unreadable), batch).error_code == ErrorCode.NONE
        try:
            listed = penstock("dead-letters", "list", "--json")
        finally:
            delete_topic(client, unreadable)
    assert scene.letters in {count["topic"] for count in json.loads(listed.stdout)}
    told = f"penstock: topic '{unreadable}' partition 0: its records cannot be read; it is left out"
    assert told in listed.stderr.decode().splitlines()


def test_letters_are_replayed_with_the_headers_of_their_records(scene: Scene, assignments: list[list[str]]) -> None:
    """A pipeline's letters do not have them. The records are read together, beside the letters."""
    scene.add(range(10))
    configuration = {"bootstrap.servers": scene.servers}
    with topics.DeadLetterTopics(configuration) as reader:
        first = replay(configuration, reader, scene.letters, choose=lambda letter: letter.offset < 6, chunk_letters=2)
        assignments.clear()
        second = replay(configuration, reader, scene.letters, choose=lambda _: True)
    assert (first.letters, second.letters) == (6, 4)
    assert sorted(assignments) == sorted([[scene.letters], [scene.orders], [scene.orders]])
    again = scene.records(scene.orders, {0: 5, 1: 5})
    assert sorted((message.value(), message.headers()) for message in again) == [
        (b"order %d" % number, [("trace", str(number).encode()), (names.REPLAY_ATTEMPT, b"1")]) for number in range(10)
    ]
