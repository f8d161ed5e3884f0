"""Several workers of one Connect cluster: one owner for each connector, one winner for each name."""

from __future__ import annotations

import threading

import pytest

from penstock.connect.connector import ConnectError
from penstock.connect.herder.distributed import DistributedSettings, distributed_herder
from penstock.connect.herder.herder import ConnectRestError
from penstock.connect.herder.worker_herder import WorkerSettings
from penstock.connect.storage import config_records, status_records
from penstock.connect.storage.config_records import ConnectorConfig, TargetStateChange, TaskConfig, TasksCommit
from penstock.connect.storage.json_values import KeyValue
from penstock.connect.storage.status_records import Status
from penstock.connect.storage.topic_table import TableTopic, TopicTable, prepare_topic
from penstock.core.ids import TopicPartition
from penstock.protocol.record_encoding import NewRecord, encode_batch
from penstock.testing import Broker
from penstock.wire.client import WireClient
from tests.integration.connect.workers import ConnectCluster, state_of, worker_id_of
from tests.unit.connect.herder.fakes import FakePlugins, FakeRunner, eventually

SINK = {"connector.class": "Sink", "tasks.max": "1"}
SOURCE = {"connector.class": "Source", "tasks.max": "2"}


def records_of(cluster: ConnectCluster, kind: str) -> list[KeyValue]:
    """All of a topic, read anew."""
    found: list[KeyValue] = []
    table = TopicTable(
        {"bootstrap.servers": cluster.properties["bootstrap.servers"]}, TableTopic(kind, cluster.topic(kind), 1)
    )
    table.start(found.extend)
    table.stop()
    return found


def test_a_worker_writes_what_kafka_connect_would(cluster: ConnectCluster) -> None:
    herder, runner = cluster.worker("a")
    herder.create("src", SOURCE)
    eventually(lambda: runner.running == {"src"})
    herder.set_target_state("src", "STOPPED")
    eventually(lambda: state_of(herder, "src") == "STOPPED")
    herder.create("idle", SINK, "PAUSED")
    herder.delete("idle")
    full = {**SOURCE, "name": "src"}
    assert [config_records.decode(key, value) for key, value in records_of(cluster, "config")] == [
        ConnectorConfig("src", full),
        TaskConfig("src", 0, full),
        TaskConfig("src", 1, full),
        TasksCommit("src", 2),
        config_records.TaskCount("src", 2),
        TasksCommit("src", 0),
        TargetStateChange("src", "STOPPED"),
        TargetStateChange("idle", "PAUSED"),
        ConnectorConfig("idle", {**SINK, "name": "idle"}),
        ConnectorConfig("idle", None),
        TargetStateChange("idle", None),
    ]
    statuses = [status_records.decode(key, value) for key, value in records_of(cluster, "status")]
    last = [each for each in statuses if isinstance(each, Status) and each.name == "src" and each.task is None][-1]
    assert (last.state.value, last.worker_id, last.version) == ("STOPPED", "a", "1")


def test_two_creations_of_one_name_have_one_winner(cluster: ConnectCluster) -> None:
    workers = [cluster.worker(worker_id)[0] for worker_id in ("a", "b")]
    for number in range(3):
        answers: list[int] = []
        together = threading.Barrier(4)

        def create(index: int, name: str, together: threading.Barrier = together, answers: list[int] = answers) -> None:
            together.wait()
            try:
                workers[index % 2].create(name, {**SINK, "from": str(index)})
                answers.append(201)
            except ConnectRestError as error:
                answers.append(error.status)

        threads = [threading.Thread(target=create, args=(index, f"same-{number}")) for index in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(answers) == [201, 409, 409, 409]
    for worker in workers:
        worker._configs.read_to_end()
    assert workers[0].connector("same-0").config == workers[1].connector("same-0").config


def test_connectors_are_shared_out_and_every_worker_answers_for_all(cluster: ConnectCluster) -> None:
    first, first_runner = cluster.worker("a")
    names = {f"connector-{number}" for number in range(8)}
    for name in names:
        first.create(name, SINK)
    eventually(lambda: first_runner.running == names)

    second, second_runner = cluster.worker("b")
    eventually(lambda: second_runner.running and first_runner.running | second_runner.running == names)
    assert not first_runner.running & second_runner.running
    for herder in (first, second):
        assert set(herder.connectors()) == names
        for name in names:
            owner = "a" if name in first_runner.running else "b"
            eventually(lambda herder=herder, name=name, owner=owner: worker_id_of(herder, name) == owner)
            eventually(lambda herder=herder, name=name: state_of(herder, name) == "RUNNING")

    # What one worker is asked, the other one does.
    moved = next(iter(second_runner.running))
    first.set_target_state(moved, "PAUSED")
    eventually(lambda: moved not in second_runner.running and state_of(first, moved) == "PAUSED")
    first.set_target_state(moved, "STARTED")
    eventually(lambda: moved in second_runner.running)
    starts = len(second_runner.starts)
    eventually(lambda: state_of(first, moved) == "RUNNING")
    first.restart_connector(moved, include_tasks=True, only_failed=False)
    eventually(lambda: len(second_runner.starts) == starts + 1)

    cluster.stop(second)
    eventually(lambda: first_runner.running == names)


def test_a_worker_that_starts_finds_everything_and_repeats_no_restart(cluster: ConnectCluster) -> None:
    herder, runner = cluster.worker("a")
    herder.create("src", SOURCE)
    eventually(lambda: runner.running == {"src"})
    eventually(lambda: state_of(herder, "src") == "RUNNING")
    herder.restart_connector("src", include_tasks=True, only_failed=False)
    eventually(lambda: len(runner.starts) == 2)
    cluster.stop(herder)
    again, runner = cluster.worker("b")
    eventually(lambda: runner.running == {"src"})
    eventually(lambda: worker_id_of(again, "src") == "b")
    assert runner.starts == ["src"]
    assert runner.fenced == [("src", 2)]


def test_unsuitable_topics_are_refused_with_the_remedy(broker: Broker, cluster: ConnectCluster) -> None:
    with WireClient({"bootstrap.servers": broker.bootstrap_servers}) as client:
        client.create_topic(f"{cluster.name}-deleted", partitions=1, replication_factor=1)
        client.create_topic(
            f"{cluster.name}-many", partitions=3, replication_factor=1, configs={"cleanup.policy": "compact"}
        )
        with pytest.raises(ConnectError, match=r"config\.storage\.topic.*cleanup\.policy=delete.*=compact"):
            prepare_topic(client, TableTopic("config.storage.topic", f"{cluster.name}-deleted", 1))
        with pytest.raises(ConnectError, match=r"config\.storage\.topic.* 3 partitions: it needs exactly one"):
            prepare_topic(client, TableTopic("config.storage.topic", f"{cluster.name}-many", 1, has_one_partition=True))
        unsuitable = {**cluster.properties, "config.storage.topic": f"{cluster.name}-many"}
        herder = distributed_herder(
            DistributedSettings.parse(unsuitable), WorkerSettings("a", "4.3.1"), FakeRunner(), FakePlugins()
        )
        before = threading.active_count()
        with pytest.raises(ConnectError, match=r"it needs exactly one"):
            herder.start()
        assert threading.active_count() == before
        assert prepare_topic(client, TableTopic("status.storage.topic", f"{cluster.name}-many", 5)) == 3
        new = TableTopic("status.storage.topic", f"{cluster.name}-new", 5, 1, configs={"segment.bytes": "1048576"})
        assert prepare_topic(client, new) == 5
        assert client.topic_config(new.name, "cleanup.policy") == "compact"
        assert client.topic_config(new.name, "segment.bytes") == "1048576"


def test_readers_of_a_table_see_committed_records_only(broker: Broker, cluster: ConnectCluster) -> None:
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    seen: list[KeyValue] = []
    topic = TableTopic("config.storage.topic", f"{cluster.name}-table", 1, 1)
    table = TopicTable(settings, topic, transactional_id=f"{cluster.name}-table")
    table.start(seen.extend)
    partition = TopicPartition(topic.name, 0)
    with WireClient(settings) as client:
        for number, commit in enumerate((True, False, True)):
            producer = client.init_producer_id(f"{cluster.name}-other")
            sender = client.sender(producer=producer, transactional_id=f"{cluster.name}-other")
            batch, _header = encode_batch([NewRecord(b"key", str(number).encode(), 1)], transactional=True)
            sender.send(partition, batch)
            sender.flush()
            table.read_to_end()
            assert (b"key", str(number).encode()) not in seen, "the transaction is open"
            client.end_txn(f"{cluster.name}-other", producer, commit=commit)
    table.transact(lambda: [(b"last", None)])
    assert seen == [(b"key", b"0"), (b"key", b"2"), (b"last", None)]

    def refuse() -> list[KeyValue]:
        raise ConnectRestError(409, "no")

    with pytest.raises(ConnectRestError):
        table.transact(refuse)
    table.transact(list)
    assert len(seen) == 3
    table.stop()


def test_worker_properties(cluster: ConnectCluster) -> None:
    settings = DistributedSettings.parse({**cluster.properties, "config.storage.min.insync.replicas": "1"})
    assert settings.configs.configs == {"min.insync.replicas": "1"}
    assert (settings.configs.partitions, settings.offsets.partitions, settings.statuses.partitions) == (1, 25, 5)
    with pytest.raises(ConnectError, match=r"heartbeat\.interval\.ms=5000 is more than a third"):
        DistributedSettings.parse({**cluster.properties, "heartbeat.interval.ms": "5000"})
