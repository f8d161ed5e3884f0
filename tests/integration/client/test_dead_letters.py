"""Records that a run cannot process, against a real broker: they reach their topic, in the commit of their batch."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import Consumer, HandlerError, KafkaTransaction, Producer, Record
from penstock.client.dead_letters.replay import replay, waiting_letters
from penstock.client.dead_letters.topics import DeadLetterTopics
from tests.integration.client.conftest import NewTopic
from tests.integration.client.test_guarantees import values_of


@pytest.fixture
def config(bootstrap_servers: str, group: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap_servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "fetch.max.wait.ms": 20,
    }


@pytest.fixture
def topic(bootstrap_servers: str, new_topic: NewTopic) -> str:
    name = new_topic()
    with Producer({"bootstrap.servers": bootstrap_servers}) as producer:
        for value in ("1", "two", "3", "4"):
            producer.send(name, value, key="k", headers={"trace": b"t"})
    return name


def letters_in(config: dict[str, Any], topic: str) -> list[Record]:
    found: list[Record] = []
    reader = {**config, "group.id": f"{config['group.id']}-reader", "isolation.level": "read_committed"}
    with Consumer(reader) as consumer:
        consumer.subscribe(topic)
        consumer.run(found.append, guarantee="at_least_once", stop_when_idle_s=0.3)
    return found


def test_an_undecodable_record_goes_to_the_groups_own_topic(config: dict[str, Any], topic: str) -> None:
    handled: list[int] = []
    with Consumer(config, value_deserializer="json") as consumer:
        consumer.subscribe(topic)
        count = consumer.run(
            lambda record: handled.append(record.value), guarantee="at_least_once", stop_when_idle_s=0.3
        )
    assert (count, handled) == (4, [1, 3, 4])
    (letter,) = letters_in(config, f"{config['group.id']}.dlq")
    assert (letter.key, letter.value) == (b"k", b"two")
    headers = dict(letter.headers)
    assert headers["trace"] == b"t"
    assert (headers["penstock.topic"], headers["penstock.partition"]) == (topic.encode(), b"0")
    assert (headers["penstock.offset"], headers["penstock.stage"]) == (b"1", b"parse")
    assert headers["penstock.pipeline"] == config["group.id"].encode()
    assert headers["penstock.reason"] is not None
    assert headers["penstock.reason"].startswith(b"the value cannot be deserialized (JSONDecodeError: ")


def test_in_a_transaction_letters_and_results_are_committed_together(
    config: dict[str, Any], topic: str, new_topic: NewTopic
) -> None:
    results, bad = new_topic(), new_topic()

    def copy(record: Record, transaction: Producer) -> None:
        transaction.send(results, f"{record.value}")
        if record.value == 3:
            raise ValueError("three is right out")

    servers = {"bootstrap.servers": config["bootstrap.servers"]}
    with (
        Producer({**servers, "transactional.id": config["group.id"]}, value_serializer="string") as producer,
        Consumer(config, value_deserializer="json") as consumer,
    ):
        consumer.subscribe(topic)
        options: dict[str, Any] = {"guarantee": "exactly_once", "store": KafkaTransaction(producer)}
        with pytest.raises(HandlerError, match="three is right out"):
            consumer.run(copy, on_error={"dead_letters": bad}, stop_when_idle_s=0.3, **options)
        assert letters_in(config, bad) == [], "the letter of a batch that was rolled back is not there"
        policy = {"dead_letters": bad}
        count = consumer.run(copy, on_error=policy, on_handler_error=policy, stop_when_idle_s=0.3, **options)
    assert count == 4
    assert values_of(config["bootstrap.servers"], results, "read_committed") == ["1", "4"]
    reader = {**config, "group.id": f"{config['group.id']}-again"}
    assert [(letter.value, dict(letter.headers)["penstock.stage"]) for letter in letters_in(reader, bad)] == [
        (b"two", b"parse"),
        (b"3", b"handle"),
    ]


def test_a_replayed_record_that_fails_again_keeps_its_attempt(config: dict[str, Any], topic: str) -> None:
    dlq = f"{config['group.id']}.dlq"
    servers = {"bootstrap.servers": config["bootstrap.servers"]}
    attempts = []
    for _ in range(3):
        with Consumer(config, value_deserializer="json") as consumer:
            consumer.subscribe(topic)
            consumer.run(lambda _: None, guarantee="at_least_once", stop_when_idle_s=0.3)
        with DeadLetterTopics(servers) as topics:
            (letter,) = waiting_letters(topics, dlq, lambda _: True)
            attempts.append(letter.attempt)
            done = replay(servers, topics, dlq, choose=lambda _: True, max_attempts=2)
    assert attempts == [0, 1, 2]
    assert (done.letters, done.quarantined) == (0, 1)
