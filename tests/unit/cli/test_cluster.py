"""`penstock cluster`: what it shows, what it asks for, and mistakes that are found before a broker is asked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.cli import cluster, reassign
from penstock.cli.app import run_app
from penstock.cli.command_error import CommandError
from penstock.cli.reassign import spread
from penstock.core.exit_codes import ExitCode
from penstock.core.ids import TopicPartition
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.wire.client import ClusterMetadata, PartitionMetadata, TopicMetadata
from penstock.wire.replicas import BrokerNode, ClusterDescription, ElectionType, PartitionReplicas, Reassignment

ORDERS = [TopicPartition("orders", number) for number in range(3)]


class Brokers:
    """What the commands ask of the wire client: three brokers, the third of which is dead."""

    def __init__(self) -> None:
        self.replicas = {
            ORDERS[0]: PartitionReplicas(1, 4, (1, 2), (1, 2), (), ()),
            ORDERS[1]: PartitionReplicas(2, 4, (2, 3), (2,), (3,), ()),
            ORDERS[2]: PartitionReplicas(-1, 5, (3,), (), (), (3,), (3,)),
        }
        self.in_progress: dict[TopicPartition, Reassignment] = {}
        self.elected: tuple[ElectionType, list[TopicPartition] | None] | None = None
        self.altered: dict[TopicPartition, Sequence[int] | None] = {}
        self.unregistered: list[int] = []

    def describe_cluster(self) -> ClusterDescription:
        racks = {1: "a", 2: "b", 3: None}
        brokers = [BrokerNode(each, "127.0.0.1", 9090 + each, racks[each], each == 3) for each in racks]
        return ClusterDescription("abc", 1, tuple(brokers))

    def describe_replicas(self, topics: Iterable[str] = ()) -> dict[TopicPartition, PartitionReplicas]:
        return self.replicas

    def metadata(self, topics: Iterable[str]) -> ClusterMetadata:
        partitions = {
            each.partition: PartitionMetadata(sets.leader_id, 4, sets.replicas, sets.isr)
            for each, sets in self.replicas.items()
        }
        orders = {"orders": TopicMetadata("orders", b"", False, partitions)}
        return ClusterMetadata(topics={name: orders[name] for name in topics if name in orders})

    def elect_leaders(
        self, kind: ElectionType, partitions: list[TopicPartition] | None
    ) -> dict[TopicPartition, BrokerError | None]:
        self.elected = (kind, partitions)
        needless = BrokerError(ErrorCode.ELECTION_NOT_NEEDED, "leads already")
        failed = BrokerError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "broker 3 is not alive")
        outcomes: dict[TopicPartition, BrokerError | None] = {
            ORDERS[0]: None, ORDERS[1]: needless, ORDERS[2]: failed
        }  # fmt: skip
        return {each: outcomes[each] for each in partitions or ORDERS}

    def list_reassignments(self) -> dict[TopicPartition, Reassignment]:
        return self.in_progress

    def alter_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, BrokerError | None]:
        self.altered = dict(targets)
        unknown = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such partition")
        return {each: None if each in self.replicas else unknown for each in targets}

    def unregister_broker(self, broker_id: int) -> None:
        if broker_id != 3:
            raise BrokerError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {broker_id} is not registered")
        self.unregistered.append(broker_id)


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    brokers = Brokers()

    @contextmanager
    def connected(*_: Any) -> Iterator[Any]:
        yield brokers

    for module in (cluster, reassign):
        monkeypatch.setattr(module, "connected", connected)
        monkeypatch.setattr(module, "wire_connected", connected)
    return brokers


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    file = tmp_path / "plan.json"
    file.write_text(
        json.dumps(
            {
                "version": 1,
                "partitions": [
                    {"topic": "orders", "partition": 0, "replicas": [2, 1]},
                    {"topic": "orders", "partition": 1, "replicas": [2, 3]},
                ],
            }
        )
    )
    return file


def run(*words: str) -> None:
    assert run_app(["cluster", *words]) == ExitCode.OK


def test_describe_shows_brokers_and_partitions_that_are_not_well(
    brokers: Brokers, capsys: pytest.CaptureFixture[str]
) -> None:
    run("describe")
    assert capsys.readouterr().out.splitlines() == [
        "ClusterId: abc\tController: 1\tBrokers: 3\tFenced: 1\tTopics: 1\tPartitions: 3"
        "\tUnderReplicated: 1\tOffline: 1",
        "BROKER  ADDRESS         RACK  STATE   LEADERS  REPLICAS",
        "1       127.0.0.1:9091  a     alive   1        1",
        "2       127.0.0.1:9092  b     alive   1        2",
        "3       127.0.0.1:9093  -     fenced  0        2",
        "Under-replicated partitions:",
        "\tTopic: orders\tPartition: 1\tLeader: 2\tReplicas: 2,3\tIsr: 2\tElr: 3\tLastKnownElr: ",
        "Offline partitions:",
        "\tTopic: orders\tPartition: 2\tLeader: none\tReplicas: 3\tIsr: \tElr: \tLastKnownElr: 3",
    ]


def test_describe_as_json(brokers: Brokers, capsys: pytest.CaptureFixture[str]) -> None:
    run("describe", "--json")
    shown = json.loads(capsys.readouterr().out)
    assert shown["brokers"][2] == {
        "id": 3, "host": "127.0.0.1", "port": 9093, "rack": None, "fenced": True, "leaders": 0, "replicas": 2,
    }  # fmt: skip
    assert [each["partition"] for each in shown["under_replicated_partitions"]] == [1]
    (offline,) = shown["offline_partitions"]
    assert (offline["partition"], offline["leader"], offline["last_known_elr"]) == (2, None, [3])


def test_an_election_says_what_happened_to_each_partition(brokers: Brokers, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CommandError, match="1 of 3 elections failed") as failure:
        run("elect-leaders", "--all-topic-partitions")
    assert failure.value.exit_code == ExitCode.FAILURE
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        "Successfully completed leader election (PREFERRED) for partitions orders-0",
        "Valid replica already elected for partitions orders-1",
    ]
    assert "orders-2: broker 3 is not alive" in printed.err
    assert brokers.elected == (ElectionType.PREFERRED, None)


def test_an_unclean_election_of_one_partition(brokers: Brokers) -> None:
    run("elect-leaders", "--election-type", "unclean", "--topic", "orders", "--partition", "0")
    assert brokers.elected == (ElectionType.UNCLEAN, [ORDERS[0]])


def test_elections_from_a_file(brokers: Brokers, plan: Path) -> None:
    run("elect-leaders", "--path-to-json-file", str(plan))
    assert brokers.elected == (ElectionType.PREFERRED, ORDERS[:2])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["elect-leaders"], "use one of"),
        (["elect-leaders", "--topic", "orders"], "--topic and --partition go together"),
        (["elect-leaders", "--all-topic-partitions", "--election-type", "fair"], "expected preferred or unclean"),
        (["reassign"], "use one of --execute"),
        (["reassign", "--execute", "--list"], "use one of --execute"),
        (["reassign", "--execute"], "no file given"),
        (["reassign", "--execute", "none.json"], "none.json: No such file"),
        (["reassign", "--generate", "--topic", "orders"], "needs --broker-list"),
        (["reassign", "--generate", "--broker-list", "1"], "needs --topic"),
        (["reassign", "--generate", "--topic", "orders", "--broker-list", "a"], "expected broker ids"),
        (["reassign", "--generate", "--topic", "orders", "--broker-list", "1,7"], "no broker 7; it has 1,2,3"),
    ],
)
def test_a_mistake_is_one_line(brokers: Brokers, words: list[str], said: str) -> None:
    with pytest.raises(CommandError, match=said) as failure:
        run(*words)
    assert failure.value.exit_code == ExitCode.USAGE
    assert not brokers.altered


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "not JSON"),
        ("[]", "expected"),
        ('{"partitions": []}', "at least one partition"),
        ('{"partitions": [{"topic": "orders"}]}', 'entry 0 of "partitions" needs'),
        ('{"partitions": [{"topic": "orders", "partition": true}]}', 'entry 0 of "partitions" needs'),
        ('{"partitions": [{"topic": "orders", "partition": 0}]}', 'orders-0 needs "replicas"'),
        ('{"partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 1]}]}', "a broker twice"),
        ('{"partitions": [{"topic": "orders", "partition": 0, "replicas": ["1"]}]}', 'orders-0 needs "replicas"'),
        (
            '{"partitions": [{"topic": "orders", "partition": 0, "replicas": [1], "log_dirs": ["/x"]}]}',
            "chooses its directory",
        ),
        (
            '{"partitions": [{"topic": "a", "partition": 0, "replicas": [1]},'
            ' {"topic": "a", "partition": 0, "replicas": [2]}]}',
            "a-0 is there twice",
        ),
    ],
)
def test_a_bad_plan_is_refused_before_anything_starts(
    brokers: Brokers, tmp_path: Path, content: str, said: str
) -> None:
    file = tmp_path / "bad.json"
    file.write_text(content)
    with pytest.raises(CommandError, match=said) as failure:
        run("reassign", "--execute", str(file))
    assert failure.value.exit_code == ExitCode.USAGE
    assert not brokers.altered


def test_execute_prints_what_was_before(brokers: Brokers, plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("reassign", "--execute", str(plan))
    assert brokers.altered == {ORDERS[0]: [2, 1], ORDERS[1]: [2, 3]}
    printed = capsys.readouterr().out
    before = json.loads(printed.splitlines()[2])
    assert [each["replicas"] for each in before["partitions"]] == [[1, 2], [2, 3]]
    assert "Successfully started partition reassignments for orders-0,orders-1" in printed


def test_verify_tells_the_states_apart(brokers: Brokers, plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    brokers.in_progress = {ORDERS[0]: Reassignment((1, 2), (2,), ())}
    run("reassign", "--verify", str(plan))
    assert capsys.readouterr().out.splitlines() == [
        "Status of partition reassignment:",
        "Reassignment of partition orders-0 is still in progress.",
        "Reassignment of partition orders-1 is completed.",
    ]
    brokers.in_progress = {}
    with pytest.raises(CommandError, match="other replicas"):
        run("reassign", "--verify", "--reassignment-json-file", str(plan))


def test_cancel_asks_for_those_in_progress_only(
    brokers: Brokers, plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("reassign", "--cancel", str(plan))
    assert "None of the specified partition moves are active." in capsys.readouterr().out
    brokers.in_progress = {ORDERS[1]: Reassignment((2, 3, 1), (1,), (3,))}
    run("reassign", "--cancel", str(plan))
    assert brokers.altered == {ORDERS[1]: None}


def test_list_shows_what_is_added_and_removed(brokers: Brokers, capsys: pytest.CaptureFixture[str]) -> None:
    run("reassign", "--list")
    assert capsys.readouterr().out == "No partition reassignments found.\n"
    brokers.in_progress = {ORDERS[1]: Reassignment((2, 3, 1), (1,), (3,))}
    run("reassign", "--list")
    assert capsys.readouterr().out.splitlines() == [
        "Current partition reassignments:",
        "orders-1: replicas: 2,3,1. adding: 1. removing: 3.",
    ]


def test_a_generated_plan_can_be_executed(brokers: Brokers, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("reassign", "--generate", "--topic", "orders", "--broker-list", "1,2")
    file = tmp_path / "generated.json"
    file.write_text(capsys.readouterr().out)
    run("reassign", "--execute", str(file))
    assert brokers.altered == {ORDERS[0]: [1, 2], ORDERS[1]: [2, 1], ORDERS[2]: [1]}


def test_a_plan_spreads_leaders_and_racks() -> None:
    current = {TopicPartition("t", number): (9, 8) for number in range(6)}
    racks = {1: "a", 2: "a", 3: "b"}
    plan = spread(current, [1, 2, 3], racks)
    leaders = [replicas[0] for replicas in plan.values()]
    assert {broker: leaders.count(broker) for broker in racks} == {1: 2, 2: 2, 3: 2}
    assert all(len({racks[each] for each in replicas}) == 2 for replicas in plan.values())


def test_more_replicas_than_brokers_are_refused() -> None:
    with pytest.raises(CommandError, match="t-0 has 3 replicas; --broker-list names 2 brokers"):
        spread({TopicPartition("t", 0): (1, 2, 3)}, [1, 2], {})


def test_unregister(brokers: Brokers, capsys: pytest.CaptureFixture[str]) -> None:
    run("unregister", "--id", "3")
    assert capsys.readouterr().out == "Broker 3 is no longer registered.\n"
    with pytest.raises(CommandError, match="broker 2 is not registered") as failure:
        run("unregister", "--id", "2")
    assert failure.value.exit_code == ExitCode.FAILURE
