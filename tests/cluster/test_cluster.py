"""`penstock.testing.Cluster` and the commands on it: real brokers, real etcd, one fault at a time."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, Producer

from penstock.core.ids import TopicPartition
from penstock.testing.cluster import ETCD, Cluster
from penstock.wire.client import WireClient
from tests.cluster.conftest import CONFIG, require_etcd
from tests.unit.testing.test_broker import is_alive

pytestmark = pytest.mark.cluster

TIMEOUT_S = 60.0


def create(cluster: Cluster, topic: str, partitions: int = 1, **configs: str) -> None:
    with WireClient({"bootstrap.servers": cluster.bootstrap_servers}) as client:
        assert client.create_topic(topic, partitions=partitions, configs=configs)


def send(cluster: Cluster, topic: str, *values: bytes, partition: int = 0, bootstrap: str | None = None) -> list[int]:
    """The offsets, acknowledged by the in-sync replicas."""
    offsets: list[int] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        offsets.append(int(message.offset() or 0))

    settings = {"bootstrap.servers": bootstrap or cluster.bootstrap_servers, "acks": "all", "log_level": 0}
    producer = Producer({**settings, "enable.idempotence": True, "message.timeout.ms": 60_000})
    for value in values:
        producer.produce(topic, value, partition=partition, on_delivery=on_delivery)
    assert producer.flush(TIMEOUT_S) == 0
    assert len(offsets) == len(values)
    return offsets


def end_offset(cluster: Cluster, topic: str, partition: int = 0) -> int:
    with WireClient({"bootstrap.servers": cluster.bootstrap_servers}) as client:
        at = TopicPartition(topic, partition)
        return client.list_offsets({at: "latest"}, timeout_s=TIMEOUT_S)[at].offset


def penstock(cluster: Cluster, *words: str) -> Any:
    """The JSON that the command prints."""
    command = [sys.executable, "-m", "penstock.cli.main", *words, "--json", "-b", cluster.bootstrap_servers]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def follower(cluster: Cluster, topic: str) -> int:
    leader = cluster.leader(topic)
    return next(number for number in cluster.broker_ids if number != leader)


def test_brokers_that_create_one_topic_at_the_same_time_agree_on_it(shared_cluster: Cluster) -> None:
    def create_at(number: int, topic: str) -> bool:
        with WireClient({"bootstrap.servers": shared_cluster.broker(number).bootstrap_servers}) as client:
            return client.create_topic(topic, partitions=4)

    for attempt in range(5):
        topic = f"raced-{attempt}"
        with ThreadPoolExecutor() as threads:
            created = list(threads.map(lambda number: create_at(number, topic), shared_cluster.broker_ids))  # noqa: B023
        assert created.count(True) == 1
        for partition in range(4):
            assert send(shared_cluster, topic, b"a", partition=partition) == [0]


def test_commands_describe_the_cluster(shared_cluster: Cluster) -> None:
    create(shared_cluster, "described", 3)
    assert send(shared_cluster, "described", b"a", b"b") == [0, 1]
    shown = penstock(shared_cluster, "cluster", "describe")
    assert [(broker["id"], broker["fenced"]) for broker in shown["brokers"]] == [(1, False), (2, False), (3, False)]
    assert shown["offline_partitions"] == []
    (topic,) = penstock(shared_cluster, "topic", "describe", "described")
    assert [sorted(each["isr"]) for each in topic["partitions"]] == [[1, 2, 3]] * 3
    assert len({each["leader"] for each in topic["partitions"]}) == 3
    assert topic["partitions"][0]["end_offset"] == 2


def test_a_plan_of_reassign_moves_replicas(shared_cluster: Cluster, tmp_path: Path) -> None:
    create(shared_cluster, "moved", 2)
    send(shared_cluster, "moved", *(b"%d" % number for number in range(100)))
    plan = penstock(shared_cluster, "cluster", "reassign", "--generate", "--topic", "moved", "--broker-list", "1,2,3")
    for each in plan["partitions"]:
        each["replicas"] = [3, 1]
        each["log_dirs"] = ["any", "any"]
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan))
    started = penstock(shared_cluster, "cluster", "reassign", "--execute", str(file))
    assert len(started["started"]) == 2
    shared_cluster.wait_until(
        lambda seen: all(
            each.replicas == (3, 1) and each.leader_id in (3, 1) for each in seen.topics["moved"].partitions.values()
        ),
        "the replicas have moved",
    )
    # A leader that is one of the new replicas goes on, until the preferred one is elected.
    penstock(shared_cluster, "cluster", "elect-leaders", "--all-topic-partitions")
    shared_cluster.wait_until(
        lambda seen: all(each.leader_id == 3 for each in seen.topics["moved"].partitions.values()),
        "the preferred replicas lead",
    )
    states = penstock(shared_cluster, "cluster", "reassign", "--verify", str(file))
    assert [each["state"] for each in states] == ["completed", "completed"]
    assert end_offset(shared_cluster, "moved") == 100


def test_writes_go_on_when_a_leader_is_killed_and_when_it_is_back(cluster: Cluster) -> None:
    create(cluster, "orders")
    assert send(cluster, "orders", b"0") == [0]
    leader = cluster.leader("orders")
    cluster.kill(leader)
    assert send(cluster, "orders", b"1") == [1]
    assert cluster.leader("orders") != leader
    cluster.restart(leader)
    cluster.wait_until_in_sync()
    assert send(cluster, "orders", b"2") == [2]
    assert end_offset(cluster, "orders") == 3


def test_a_controlled_shutdown_moves_leaders_before_the_broker_ends(cluster: Cluster) -> None:
    create(cluster, "orders", 6)
    leader = cluster.leader("orders")
    cluster.stop(leader)
    seen = cluster.metadata(["orders"]).topics["orders"].partitions.values()
    assert all(each.leader_id not in (leader, -1) for each in seen)
    assert send(cluster, "orders", b"0") == [0]


@pytest.mark.parametrize("one_way", [False, True])
def test_a_leader_that_no_follower_reaches_loses_nothing(cluster: Cluster, one_way: bool) -> None:
    create(cluster, "orders")
    assert send(cluster, "orders", b"0") == [0]
    leader = cluster.leader("orders")
    for other in cluster.broker_ids:
        if other != leader:
            cluster.partition(leader, other, one_way=one_way)
    cluster.partition(leader, ETCD, one_way=one_way)
    assert send(cluster, "orders", b"1") == [1]
    cluster.heal()
    cluster.wait_until_in_sync()
    assert end_offset(cluster, "orders") == 2


def test_a_broker_that_was_stopped_longer_than_its_session_acknowledges_nothing_that_others_do_not_have(
    cluster: Cluster,
) -> None:
    create(cluster, "orders")
    assert send(cluster, "orders", b"0") == [0]
    leader = cluster.leader("orders")
    cluster.pause(leader)
    others = [each for each in cluster.broker_ids if each != leader]
    servers = ",".join(cluster.broker(each).bootstrap_servers for each in others)
    assert send(cluster, "orders", b"1", bootstrap=servers) == [1]
    cluster.resume(leader)
    cluster.wait_until_in_sync()
    assert send(cluster, "orders", b"2", bootstrap=cluster.broker(leader).bootstrap_servers) == [2]


def test_a_power_failure_of_one_broker_loses_nothing(cluster: Cluster) -> None:
    create(cluster, "orders")
    send(cluster, "orders", *(b"%d" % number for number in range(500)))
    leader = cluster.leader("orders")
    assert cluster.lose_unsynced(leader) > 0
    assert send(cluster, "orders", b"more") == [500]
    cluster.restart(leader)
    cluster.wait_until_in_sync()
    assert end_offset(cluster, "orders") == 501


def test_a_broker_comes_back_with_an_empty_directory(cluster: Cluster) -> None:
    create(cluster, "orders")
    send(cluster, "orders", *(b"%d" % number for number in range(500)))
    leader = cluster.leader("orders")
    cluster.kill(leader)
    for file in sorted(cluster.broker(leader).data_dir.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    cluster.restart(leader)
    cluster.wait_until_in_sync()
    assert send(cluster, "orders", b"more") == [500]


def test_clocks_an_hour_apart_do_no_harm(cluster: Cluster) -> None:
    create(cluster, "orders")
    cluster.skew_clock(1, 3600)
    cluster.skew_clock(2, -3600)
    assert send(cluster, "orders", b"0") == [0]
    leader = cluster.leader("orders")
    cluster.kill(leader)
    assert send(cluster, "orders", b"1") == [1]
    cluster.restart(leader)
    cluster.wait_until_in_sync()


def test_data_flows_while_etcd_is_away_and_the_sessions_last() -> None:
    require_etcd()
    with Cluster(brokers=3, config=CONFIG | {"broker.session.timeout.ms": "300000"}) as cluster:
        create(cluster, "orders")
        assert send(cluster, "orders", b"0") == [0]
        cluster.etcd.kill()
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 0})
        producer.produce("orders", b"1")
        assert producer.flush(TIMEOUT_S) == 0
        cluster.etcd.start()
        create(cluster, "later")
        assert send(cluster, "later", b"0") == [0]
        assert end_offset(cluster, "orders") == 2


def test_brokers_come_back_by_themselves_when_etcd_was_away_longer_than_their_sessions(cluster: Cluster) -> None:
    create(cluster, "orders")
    assert send(cluster, "orders", b"0") == [0]
    cluster.etcd.kill()
    for number in cluster.broker_ids:
        await_words(cluster, number, "the session of this broker may have ended")
    cluster.etcd.start()
    assert send(cluster, "orders", b"1") == [1]
    cluster.wait_until_in_sync()


def await_words(cluster: Cluster, number: int, words: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while words not in cluster.broker(number).stderr_text():
        assert time.monotonic() < deadline, f"broker {number} did not say: {words}"
        time.sleep(0.05)


def test_replicas_are_spread_over_racks() -> None:
    racks = {number: {"broker.rack": "west" if number == 3 else "east"} for number in (1, 2, 3)}
    with Cluster(brokers=3, config={"default.replication.factor": "2"}, broker_configs=racks) as cluster:
        create(cluster, "orders", 6)
        shown = penstock(cluster, "cluster", "describe")
        assert [broker["rack"] for broker in shown["brokers"]] == ["east", "east", "west"]
        partitions = cluster.metadata(["orders"]).topics["orders"].partitions.values()
        assert all(3 in each.replicas for each in partitions)


def test_nothing_is_left_behind() -> None:
    with Cluster(brokers=2) as cluster:
        pids = [cluster.broker(number).pid for number in cluster.broker_ids] + [cluster.etcd.pid()]
        directories = [cluster.broker(number).data_dir for number in cluster.broker_ids]
        cluster.pause(1)
    assert not any(map(is_alive, pids))
    assert not any(directory.exists() for directory in directories)
