"""Groups with the clients that people use: rebalances on a join, a close and a death, in both protocols; restarts.

Members are told apart by what they are assigned, never by time: a test waits until the group is as it shall be, and
fails when it does not get there.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from kafka import KafkaConsumer
from kafka.errors import CommitFailedError, RebalanceInProgressError

from penstock.testing import Broker
from tests.integration.broker.conversation import create_topic
from tests.integration.broker.group_conversation import list_groups
from tests.wire_client import WireClient

PARTITIONS = 4
PATIENCE_S = 90.0
SETTINGS = {
    "group.initial.rebalance.delay.ms": "100",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.session.timeout.ms": "2000",
}
EAGER = {"partition.assignment.strategy": "range"}
COOPERATIVE = {"partition.assignment.strategy": "cooperative-sticky"}
NEWER = {"group.protocol": "consumer"}
CLASSIC_TIMING = {"session.timeout.ms": 2000, "heartbeat.interval.ms": 300}

MemberMaker = Callable[..., Consumer]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(config=SETTINGS) as broker:
        yield broker


@pytest.fixture
def topic(broker: Broker) -> str:
    return filled_topic(broker, f"topic-{uuid4().hex}")


@pytest.fixture
def group() -> str:
    return f"group-{uuid4().hex}"


@pytest.fixture
def members() -> Iterator[ExitStack]:
    with ExitStack() as members:
        yield members


def filled_topic(broker: Broker, name: str) -> str:
    with WireClient(broker.bootstrap_servers) as client:
        create_topic(client, name, partitions=PARTITIONS)
    produce(broker, name, [f"{number}" for number in range(40)])
    return name


def produce(broker: Broker, topic: str, values: list[str]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0


def librdkafka_member(broker: Broker, group: str, topic: str, protocol: dict[str, str], **more: object) -> Consumer:
    timing = {} if protocol is NEWER else CLASSIC_TIMING
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
            **timing,
            **protocol,
            **more,
        }
    )
    consumer.subscribe([topic])
    return consumer


def poll_until(consumers: list[Consumer], done: Callable[[], bool]) -> list[Message]:
    """Polls all of them until it is so; what they read."""
    deadline = time.monotonic() + PATIENCE_S
    read: list[Message] = []
    while not done():
        assert time.monotonic() < deadline, [consumer.assignment() for consumer in consumers]
        for consumer in consumers:
            message = consumer.poll(0.05)
            if message is not None and message.error() is None:
                read.append(message)
    return read


def shares(consumers: list[Consumer], *counts: int) -> Callable[[], bool]:
    """Everything is owned, nothing twice, and each has as much as it should."""

    def done() -> bool:
        owned = [[each.partition for each in consumer.assignment()] for consumer in consumers]
        return [len(each) for each in owned] == [*counts] and len({p for each in owned for p in each}) == PARTITIONS

    return done


def read_all(consumer: Consumer, count: int) -> list[str]:
    read: list[Message] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(read) < count:
        assert time.monotonic() < deadline, f"{len(read)} of {count} came"
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            read.append(message)
    return [(message.value() or b"").decode() for message in read]


@pytest.mark.parametrize("protocol", [EAGER, COOPERATIVE, NEWER], ids=["eager", "cooperative", "newer"])
def test_members_share_the_partitions_as_they_come_and_go(
    broker: Broker, topic: str, group: str, members: ExitStack, protocol: dict[str, str]
) -> None:
    one = librdkafka_member(broker, group, topic, protocol)
    members.callback(one.close)
    poll_until([one], shares([one], 4))

    two = librdkafka_member(broker, group, topic, protocol)
    poll_until([one, two], shares([one, two], 2, 2))

    idle = [librdkafka_member(broker, group, topic, protocol) for _ in range(3)]
    everybody = [one, two, *idle]
    poll_until(everybody, lambda: sorted(len(each.assignment()) for each in everybody) == [0, 1, 1, 1, 1])
    for consumer in idle:
        consumer.close()
    poll_until([one, two], shares([one, two], 2, 2))
    two.close()
    poll_until([one], shares([one], 4))


@pytest.mark.parametrize("classic", [EAGER, COOPERATIVE], ids=["eager", "cooperative"])
def test_a_rolling_upgrade_to_the_newer_protocol_and_back(
    broker: Broker, topic: str, group: str, classic: dict[str, str]
) -> None:
    """Members are replaced one by one while the group goes on: each record reaches the group once."""
    pair = [librdkafka_member(broker, group, topic, classic) for _ in range(2)]
    poll_until(pair, shares(pair, 2, 2))
    commit_ends(pair, topic, 40 // PARTITIONS)
    for round_number, protocol in enumerate((NEWER, NEWER, classic, classic), 1):
        pair.pop(0).close()
        pair.append(librdkafka_member(broker, group, topic, protocol))
        assert poll_until(pair, shares(pair, 2, 2)) == []
        sent = [f"round {round_number}: {number}" for number in range(5 * PARTITIONS)]
        produce(broker, topic, sent)
        read = [value for member in pair for value in read_all(member, len(sent) // 2)]
        assert sorted(read) == sorted(sent)
        commit_ends(pair, topic, 40 // PARTITIONS + 5 * round_number)
        with WireClient(broker.bootstrap_servers) as client:
            assert list_groups(client)[group].group_type == ("classic" if round_number == 4 else "consumer")
    for member in pair:
        member.close()


def commit_ends(consumers: list[Consumer], topic: str, offset: int) -> None:
    """Commits this offset for every partition, by the member that owns it, and goes on there."""
    for consumer in consumers:
        owned = [TopicPartition(topic, each.partition, offset) for each in consumer.assignment()]
        consumer.commit(offsets=owned, asynchronous=False)
        for each in owned:
            consumer.seek(each)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_dies_is_missed_after_its_session(
    broker: Broker, topic: str, group: str, members: ExitStack, protocol: str
) -> None:
    survivor = librdkafka_member(broker, group, topic, NEWER if protocol == "consumer" else EAGER)
    members.callback(survivor.close)
    poll_until([survivor], shares([survivor], 4))
    program = (
        "import sys\n"
        "from confluent_kafka import Consumer\n"
        "servers, group, topic, protocol = sys.argv[1:]\n"
        "timing = {} if protocol == 'consumer' else {'session.timeout.ms': 2000, 'heartbeat.interval.ms': 300}\n"
        "strategy = {} if protocol == 'consumer' else {'partition.assignment.strategy': 'range'}\n"
        "consumer = Consumer({'bootstrap.servers': servers, 'group.id': group, 'group.protocol': protocol,\n"
        "                     **timing, **strategy})\n"
        "consumer.subscribe([topic])\n"
        "while True:\n"
        "    consumer.poll(0.1)\n"
    )
    victim = subprocess.Popen([sys.executable, "-c", program, broker.bootstrap_servers, group, topic, protocol])
    try:
        poll_until([survivor], lambda: len(survivor.assignment()) == 2)
    finally:
        victim.kill()
        victim.wait()
    poll_until([survivor], shares([survivor], 4))


@pytest.mark.parametrize("protocol", [EAGER, NEWER], ids=["classic", "newer"])
def test_a_static_member_comes_back_to_what_it_had(
    broker: Broker, topic: str, group: str, members: ExitStack, protocol: dict[str, str]
) -> None:
    one = librdkafka_member(broker, group, topic, protocol, **{"group.instance.id": "one"})
    two = librdkafka_member(broker, group, topic, protocol, **{"group.instance.id": "two"})
    members.callback(one.close)
    poll_until([one, two], shares([one, two], 2, 2))
    kept = one.assignment()
    had = two.assignment()
    two.close()

    again = librdkafka_member(broker, group, topic, protocol, **{"group.instance.id": "two"})
    members.callback(again.close)
    poll_until([one, again], lambda: again.assignment() == had)
    assert one.assignment() == kept


@pytest.mark.parametrize("protocol", [EAGER, COOPERATIVE, NEWER], ids=["eager", "cooperative", "newer"])
def test_a_consumer_goes_on_where_it_was_after_the_broker_was_killed(protocol: dict[str, str]) -> None:
    with Broker(config=SETTINGS) as broker:
        topic = filled_topic(broker, "topic")
        consumer = librdkafka_member(broker, "group", topic, protocol)
        try:
            assert len(read_all(consumer, 40)) == 40
            committed = consumer.commit(asynchronous=False)
            assert {each.offset for each in committed or []} == {10}
            broker.kill()
            broker.start()
            produce(broker, topic, ["after the kill"])
            assert read_all(consumer, 1) == ["after the kill"]
            consumer.commit(asynchronous=False)
        finally:
            consumer.close()
        broker.kill()
        broker.start()
        produce(broker, topic, ["for the next"])
        successor = librdkafka_member(broker, "group", topic, protocol)
        try:
            assert read_all(successor, 1) == ["for the next"]
            offsets = successor.committed([TopicPartition(topic, index) for index in range(PARTITIONS)])
            assert sorted(each.offset for each in offsets) == [10, 10, 10, 11]
        finally:
            successor.close()


def test_kafka_python_joins_commits_and_leaves(broker: Broker, topic: str, group: str) -> None:
    def member() -> KafkaConsumer:
        return KafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap_servers,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=3000,
            heartbeat_interval_ms=300,
        )

    with closing(member()) as one, closing(member()) as two:
        read: set[bytes] = set()
        refused: set[KafkaConsumer] = set()
        deadline = time.monotonic() + PATIENCE_S
        while len(read) < 40 or {len(one.assignment()), len(two.assignment())} != {2} or refused:
            assert time.monotonic() < deadline, (len(read), one.assignment(), two.assignment(), refused)
            for consumer in (one, two):
                for records in consumer.poll(timeout_ms=100).values():
                    read.update(record.value for record in records)
                try:
                    consumer.commit()
                    refused.discard(consumer)
                except (CommitFailedError, RebalanceInProgressError):  # the next poll takes part in the rebalance
                    refused.add(consumer)
        assert not one.assignment() & two.assignment()
    assert_committed(broker, group, topic)


def test_aiokafka_joins_commits_and_leaves(broker: Broker, topic: str, group: str) -> None:
    async def scenario() -> None:
        members = [
            AIOKafkaConsumer(
                topic,
                bootstrap_servers=broker.bootstrap_servers,
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=3000,
                heartbeat_interval_ms=300,
            )
            for _ in range(2)
        ]
        await asyncio.gather(*(member.start() for member in members))
        read: set[bytes] = set()
        try:
            async with asyncio.timeout(PATIENCE_S):
                while len(read) < 40 or {len(member.assignment()) for member in members} != {2}:
                    for member in members:
                        for records in (await member.getmany(timeout_ms=100)).values():
                            read.update(record.value for record in records)
                for member in members:
                    await member.commit()
        finally:
            await asyncio.gather(*(member.stop() for member in members))

    asyncio.run(scenario())
    assert_committed(broker, group, topic)


def assert_committed(broker: Broker, group: str, topic: str) -> None:
    """Everything was read and committed, and everybody has left."""
    reader = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "log_level": 0})
    offsets = reader.committed([TopicPartition(topic, index) for index in range(PARTITIONS)], timeout=PATIENCE_S)
    reader.close()
    assert [each.offset for each in offsets] == [10] * PARTITIONS
    with WireClient(broker.bootstrap_servers) as client:
        assert list_groups(client)[group].group_state == "Empty"


def test_several_groups_read_everything_each(broker: Broker, topic: str, members: ExitStack) -> None:
    groups = [f"group-{uuid4().hex}" for _ in range(3)]
    consumers = [librdkafka_member(broker, group, topic, EAGER) for group in groups]
    for consumer in consumers:
        members.callback(consumer.close)
    for consumer in consumers:
        assert sorted(read_all(consumer, 40), key=int) == [f"{number}" for number in range(40)]


def test_the_command_line_consumes_in_a_group(broker: Broker, topic: str, group: str) -> None:
    command = [sys.executable, "-m", "penstock.cli.main", "consume", topic, "--group", group, "--from-beginning"]
    command += ["--bootstrap-server", broker.bootstrap_servers, "--count", "40"]
    first = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert len(first.stdout.splitlines()) == 40

    produce(broker, topic, ["one more"])
    command[-1] = "1"
    second = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert second.stdout.splitlines() == ["one more"]
