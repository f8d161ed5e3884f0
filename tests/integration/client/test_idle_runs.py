"""`run(stop_when_idle_s=...)` after a kill -9: it waits for the dead member's partitions, and never reports success
without having read them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from penstock import Admin, Consumer, Producer
from penstock.core.errors import BrokerUnreachable, ClientError, UnknownTopic
from tests.conftest import BrokerStarter, RunningBroker
from tests.integration.client.test_consumer import PROTOCOLS

RECORDS = 500
# Short, and still many times as long as the idle time of the run.
SESSION_MS = 2_000
DYING = """
import json, sys, time
from penstock import Consumer

def block(record):
    print("handling", flush=True)
    time.sleep(600)

with Consumer(json.loads(sys.argv[1])) as consumer:
    consumer.subscribe(sys.argv[2])
    consumer.run(block, guarantee="at_least_once")
"""


@pytest.fixture(scope="module")
def broker(start_broker: BrokerStarter) -> Iterator[RunningBroker]:
    settings = {
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "100",
        "group.consumer.min.session.timeout.ms": "100",
        "group.consumer.session.timeout.ms": str(SESSION_MS),
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": "300",
    }
    with start_broker(settings) as broker:
        yield broker


@pytest.fixture(params=PROTOCOLS)
def config(broker: RunningBroker, request: pytest.FixtureRequest) -> dict[str, Any]:
    protocol = request.param
    session = {} if "group.protocol" in protocol else {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 300}
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": f"idle-{request.node.name}",
        "auto.offset.reset": "earliest",
        "fetch.max.wait.ms": 20,
        **session,
        **protocol,
    }


@pytest.fixture
def topic(broker: RunningBroker, request: pytest.FixtureRequest) -> str:
    name = "".join(letter if letter.isalnum() else "-" for letter in f"waiting-{request.node.name}")
    Admin({"bootstrap.servers": broker.bootstrap_servers}).create_topic(name, partitions=2)
    with Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        for number in range(RECORDS):
            producer.send(name, str(number))
    return name


def test_a_restart_after_kill_9_reads_what_waits(config: dict[str, Any], topic: str) -> None:
    member = subprocess.Popen([sys.executable, "-c", DYING, json.dumps(config), topic], stdout=subprocess.PIPE)
    assert member.stdout is not None
    assert member.stdout.readline() == b"handling\n"
    os.kill(member.pid, signal.SIGKILL)
    member.wait()
    member.stdout.close()
    with Consumer(config) as consumer:
        consumer.subscribe(topic)
        assert consumer.run(lambda _record: None, guarantee="at_least_once", stop_when_idle_s=0.5) == RECORDS


def test_the_command_waits_for_a_dead_members_partitions(config: dict[str, Any], topic: str) -> None:
    """`penstock consume --group G -e` exits at the end of its partitions, not for lack of them."""
    member = subprocess.Popen([sys.executable, "-c", DYING, json.dumps(config), topic], stdout=subprocess.PIPE)
    assert member.stdout is not None
    assert member.stdout.readline() == b"handling\n"
    os.kill(member.pid, signal.SIGKILL)
    member.wait()
    member.stdout.close()
    options = [f"{name}={value}" for name, value in config.items() if name.startswith(("group.p", "partition."))]
    command = [sys.executable, "-m", "penstock.cli.main", "consume", topic, "--group", config["group.id"], "-e"]
    command += ["--from-beginning", "-b", config["bootstrap.servers"]]
    command += [word for option in options for word in ("-X", option)]
    finished = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert finished.returncode == 0, finished.stderr.decode()
    assert finished.stdout.count(b"\n") == RECORDS


def test_a_topic_that_does_not_exist_is_not_an_empty_one(broker: RunningBroker, topic: str) -> None:
    config = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "typo", "allow.auto.create.topics": False}
    with Consumer(config) as consumer:
        consumer.subscribe(topic + "s")
        with pytest.raises(UnknownTopic, match=f"topic '{topic}s' does not exist; did you mean '{topic}'"):
            consumer.run(lambda _record: None, guarantee="at_least_once", stop_when_idle_s=0.5)


def test_a_second_member_without_partitions_ends(broker: RunningBroker) -> None:
    """There is nothing to read for it: the other member has the only partition."""
    servers = {"bootstrap.servers": broker.bootstrap_servers}
    Admin(servers).create_topic("single", partitions=1)
    config = {**servers, "group.id": "pair", "auto.offset.reset": "earliest", "fetch.max.wait.ms": 20}
    first = subprocess.Popen(
        [sys.executable, "-c", DYING.replace("time.sleep(600)", "pass"), json.dumps(config), "single"],
        stdout=subprocess.PIPE,
    )
    try:
        assert first.stdout is not None
        with Producer(servers) as producer:
            producer.send("single", "one").result(60)
        assert first.stdout.readline() == b"handling\n"
        with Consumer(config) as consumer:
            consumer.subscribe("single")
            assert consumer.run(lambda _record: None, guarantee="at_least_once", stop_when_idle_s=0.5) == 0
    finally:
        first.kill()
        first.wait()
        if first.stdout is not None:
            first.stdout.close()


def test_a_broker_that_is_away_is_not_the_end_of_the_log(start_broker: BrokerStarter) -> None:
    with start_broker({"group.initial.rebalance.delay.ms": "0"}) as broker:
        servers = {"bootstrap.servers": broker.bootstrap_servers}
        Admin(servers).create_topic("outage", partitions=1)
        with Producer(servers) as producer:
            producer.send("outage", "one").result(60)
        config = {
            **servers,
            "group.id": "outage",
            "auto.offset.reset": "earliest",
            "default.api.timeout.ms": 3_000,
        }
        with Consumer(config) as consumer:
            consumer.subscribe("outage")
            with pytest.raises(BrokerUnreachable):
                consumer.run(lambda _record: broker.kill(), guarantee="at_most_once", stop_when_idle_s=0.5)


def test_a_run_without_a_subscription_is_refused(broker: RunningBroker) -> None:
    with (
        Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "none"}) as consumer,
        pytest.raises(ClientError, match="subscribe to topics or assign partitions before `run`"),
    ):
        consumer.run(lambda _record: None, guarantee="at_least_once", stop_when_idle_s=0.5)
