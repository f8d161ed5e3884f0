"""`penstock group` against a real broker."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from penstock import Admin, Consumer, Producer, SQLiteStore, TopicPartition
from penstock.core.mirrored_offsets import MirroredFrom
from tests.conftest import RunningBroker
from tests.integration.cli.conftest import Command, only_line


@pytest.fixture
def topic(broker_under_test: RunningBroker, new_topic: Callable[..., str]) -> str:
    """Two partitions; ten records in the first."""
    name = new_topic(partitions=2)
    with Producer({"bootstrap.servers": broker_under_test.bootstrap_servers}) as producer:
        for number in range(10):
            producer.send(name, str(number).encode(), partition=0)
    return name


@pytest.fixture
def group(broker_under_test: RunningBroker, topic: str) -> str:
    """A group that has read everything and has no members."""
    name = f"cli-{uuid4().hex}"
    admin = Admin({"bootstrap.servers": broker_under_test.bootstrap_servers})
    admin.set_group_offsets(name, {TopicPartition(topic, 0): 10, TopicPartition(topic, 1): 0})
    return name


@contextmanager
def member(broker: RunningBroker, group: str, topic: str) -> Iterator[None]:
    with Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "client.id": "me"}) as consumer:
        consumer.subscribe(topic)
        while not consumer.assignment():
            consumer.poll(0.1)
        yield


def busy_with_one_member(group: str) -> str:
    return (
        f"penstock: group '{group}' has 1 active member (me at 127.0.0.1); stop it first; a member that was killed "
        "leaves when its session ends, by default after 45 s (session.timeout.ms)"
    )


def described(penstock: Command, group: str) -> dict[str, Any]:
    finished = penstock("group", "describe", group, "--json")
    assert finished.returncode == 0, finished.stderr
    (description,) = json.loads(finished.stdout)
    assert isinstance(description, dict)
    return description


def offsets(penstock: Command, group: str) -> dict[int, int]:
    return {row["partition"]: row["current_offset"] for row in described(penstock, group)["offsets"]}


def test_listing(penstock: Command, group: str) -> None:
    assert group in penstock("group", "list").stdout.decode().splitlines()
    listed = json.loads(penstock("group", "list", "--json").stdout)
    assert {"group": group, "type": "classic", "state": "Empty"} in listed
    assert group not in penstock("group", "list", "--state", "Stable").stdout.decode()
    assert group in penstock("group", "list", "--state", "empty,stable", "--type", "classic").stdout.decode()


def test_describing_an_empty_group(penstock: Command, topic: str, group: str) -> None:
    assert penstock("produce", topic, "-p", "0", stdin=b"a\nb\nc\n").returncode == 0
    description = described(penstock, group)
    assert (description["state"], description["lag"], description["members"]) == ("Empty", 3, [])
    (row,) = [row for row in description["offsets"] if row["partition"] == 0]
    assert (row["topic"], row["current_offset"], row["log_end_offset"], row["lag"]) == (topic, 10, 13, 3)
    _header, line, *_rest = penstock("group", "describe", "--group", group).stdout.decode().splitlines()
    assert line.split() == [group, topic, "0", "10", "13", "3", "-", "-", "-"]


def test_describing_a_group_with_a_member(
    penstock: Command, topic: str, group: str, broker_under_test: RunningBroker
) -> None:
    with member(broker_under_test, group, topic):
        description = described(penstock, group)
        members = penstock("group", "describe", group, "--members", "--verbose").stdout.decode().splitlines()
        state = penstock("group", "describe", group, "--state").stdout.decode().splitlines()
    assert description["state"] == "Stable"
    (only,) = description["members"]
    assert only["client_id"] == "me"
    assert only["partitions"] == [{"topic": topic, "partition": 0}, {"topic": topic, "partition": 1}]
    assert {row["consumer_id"] for row in description["offsets"]} == {only["consumer_id"]}
    assert members[1].split()[-2:] == ["2", f"{topic}(0,1)"]
    assert state[1].split()[2:] == ["range", "Stable", "classic", "1"]


def test_resetting_shows_first_and_then_does_it(penstock: Command, topic: str, group: str) -> None:
    words = ("group", "reset-offsets", group, "--topic", f"{topic}:0", "--shift-by", "-4")
    shown = penstock(*words)
    assert shown.returncode == 0
    assert shown.stdout.decode().splitlines()[1].split() == [group, topic, "0", "6"]
    assert b"Dry run: no offset was changed" in shown.stderr
    assert offsets(penstock, group)[0] == 10
    done = penstock(*words, "--execute", "--json")
    assert json.loads(done.stdout) == {
        "group": group,
        "executed": True,
        "offsets": [{"topic": topic, "partition": 0, "current_offset": 10, "new_offset": 6}],
    }
    assert offsets(penstock, group)[0] == 6
    again = penstock("consume", topic, "--group", group, "-e")
    assert again.stdout.split() == [b"6", b"7", b"8", b"9"]


@pytest.mark.parametrize(
    ("words", "offset"),
    [
        (("--to-earliest",), 0),
        (("--to-latest",), 10),
        (("--to-current",), 10),
        (("--to-offset", "3"), 3),
        (("--to-datetime", "2000-01-01T00:00:00"), 0),
        (("--by-duration", "PT0S"), 10),
    ],
)
def test_the_scenarios(penstock: Command, topic: str, group: str, words: tuple[str, ...], offset: int) -> None:
    finished = penstock("group", "reset-offsets", group, "--topic", topic, *words, "--execute")
    assert finished.returncode == 0, finished.stderr
    assert offsets(penstock, group) == {0: offset, 1: 0}


def test_a_plan_goes_out_and_in(penstock: Command, topic: str, group: str, tmp_path: Path) -> None:
    exported = penstock("group", "reset-offsets", group, "--all-topics", "--to-offset", "5", "--export")
    assert f'"{topic}",0,5' in exported.stdout.decode().splitlines()
    (tmp_path / "plan.csv").write_bytes(exported.stdout)
    done = penstock("group", "reset-offsets", group, "--from-file", "plan.csv", "--execute")
    assert done.returncode == 0, done.stderr
    assert offsets(penstock, group)[0] == 5


def test_a_group_with_members_is_neither_reset_nor_deleted(
    penstock: Command, topic: str, group: str, broker_under_test: RunningBroker
) -> None:
    with member(broker_under_test, group, topic):
        reset = penstock("group", "reset-offsets", group, "--topic", topic, "--to-earliest", "--execute")
        deleted = penstock("group", "delete", group)
    assert (reset.returncode, deleted.returncode) == (1, 1)
    for refused in (reset, deleted):
        assert only_line(refused.stderr) == busy_with_one_member(group)
    assert offsets(penstock, group)[0] == 10


def test_deleting(penstock: Command, group: str) -> None:
    finished = penstock("group", "delete", group)
    assert (finished.returncode, finished.stdout.decode()) == (0, f"Deleted group {group}.\n")
    assert group not in penstock("group", "list").stdout.decode().splitlines()


def test_a_group_that_is_not_there(penstock: Command, group: str) -> None:
    missing = f"{group}x"
    for words in (("describe", missing), ("delete", missing)):
        finished = penstock("group", *words)
        assert finished.returncode == 4
        assert only_line(finished.stderr) == f"penstock: group '{missing}' does not exist"
    both = penstock("group", "delete", missing, group, "--json")
    assert both.returncode == 4
    assert json.loads(both.stdout) == [{"group": missing, "deleted": False}, {"group": group, "deleted": True}]


def test_a_topic_that_is_not_there(penstock: Command, topic: str, group: str) -> None:
    finished = penstock("group", "reset-offsets", group, "--topic", f"{topic}x", "--to-earliest")
    assert finished.returncode == 4
    assert f"did you mean '{topic}'" in only_line(finished.stderr)
    beyond = penstock("group", "reset-offsets", group, "--topic", f"{topic}:0,7", "--to-earliest")
    assert beyond.returncode == 4
    assert f"partition 7 does not exist; topic '{topic}' has partitions 0 to 1" in only_line(beyond.stderr)


def run_with_store(broker: RunningBroker, group: str, topic: str, database: Path) -> list[str]:
    """The values that one run of a consumer with a store handles."""
    handled: list[str] = []
    config = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "fetch.max.wait.ms": 20,
    }
    with Consumer(config, value_deserializer="string") as consumer:
        consumer.subscribe(topic)
        consumer.run(
            lambda record, _transaction: handled.append(record.value),
            guarantee="exactly_once",
            store=SQLiteStore(database),
            stop_when_idle_s=0.3,
        )
    return handled


def test_positions_in_a_database_are_moved_there(
    penstock: Command, topic: str, broker_under_test: RunningBroker, tmp_path: Path
) -> None:
    group, database = f"stored-{uuid4().hex}", tmp_path / "results.db"
    assert len(run_with_store(broker_under_test, group, topic, database)) == 10
    url = f"sqlite:///{database}"
    command = ["group", "reset-offsets", group, "--topic", f"{topic}:0", "--to-offset", "7", "--execute"]

    refused = penstock(*command)
    assert refused.returncode == 1
    assert only_line(refused.stderr) == (
        f"penstock: group '{group}' keeps its positions in the database {url}, and its committed offsets are a copy: "
        f"moving them has no effect; add --store {url} to move the positions"
    )
    assert offsets(penstock, group)[0] == 10
    assert described(penstock, group)["positions"] == {"kept_in": "store", "at": url}
    assert f"keeps its positions in the database {url}" in penstock("group", "describe", group).stderr.decode()

    with member(broker_under_test, group, topic):
        busy = penstock(*command, "--store", url)
        assert busy.returncode == 1
        assert only_line(busy.stderr) == busy_with_one_member(group)
    wrong = penstock(*command, "--store", f"sqlite:///{tmp_path}/other.db")
    assert wrong.returncode == 2
    moved = penstock(*command, "--store", url)
    assert moved.returncode == 0, moved.stderr
    assert offsets(penstock, group)[0] == 7
    (description,) = json.loads(penstock("group", "describe", group, "--store", url, "--json").stdout)
    assert description["lag"] == 3

    assert run_with_store(broker_under_test, group, topic, database) == ["7", "8", "9"]


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        (MirroredFrom("checkpoint", "/data/c"), "is a pipeline that continues from its checkpoint /data/c"),
        (MirroredFrom("ledger", ""), "records the micro-batches that a pipeline has committed"),
    ],
)
def test_offsets_of_a_pipeline_are_not_moved(
    penstock: Command, topic: str, broker_under_test: RunningBroker, mark: MirroredFrom, message: str
) -> None:
    name = f"pipeline-{uuid4().hex}"
    admin = Admin({"bootstrap.servers": broker_under_test.bootstrap_servers})
    ledger = '{"attempt": "a", "batch": 3, "owner": "o", "query": "q"}'
    metadata = ledger if mark.keeper == "ledger" else mark.to_metadata()
    admin.set_group_offsets(name, {TopicPartition(topic, 0): 5}, metadata=metadata)
    refused = penstock("group", "reset-offsets", name, "--all-topics", "--to-earliest", "--execute")
    assert refused.returncode == 1
    assert message in only_line(refused.stderr)
    assert offsets(penstock, name) == {0: 5}
