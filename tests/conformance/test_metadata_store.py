"""What every metadata store must do: one order, decisions on the newest image, and an answer after the effect.

A store gets the whole suite by being one of `open_store`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from penstock.broker.etcd.broker_directory import BrokerDirectory
from penstock.broker.etcd.gateway import EtcdGateway
from penstock.broker.etcd.http_connection import Member
from penstock.broker.etcd.start import ClusterSettings, open_metadata_store
from penstock.broker.local_metadata_store import LocalMetadataStore
from penstock.broker.system import SystemClock, SystemEntropy
from penstock.core.ids import BrokerId, ProducerId
from penstock.metadata.changes import (
    BrokerConfigChanged,
    Change,
    ProducerIdsAllocated,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
)
from penstock.metadata.image import ClusterImage
from penstock.metadata.store import CommittedChanges, Decide, MetadataStore
from penstock.metadata.store_local import LocalJournal
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.testing.etcd import Etcd
from tests.clocks import SeededEntropy
from tests.unit.metadata.images import created, registered, topic_id

OpenStore = Callable[[Path], Awaitable[MetadataStore]]


async def open_local(directory: Path) -> MetadataStore:
    journal = LocalJournal.open(directory, node_id=1, new_uuid=SeededEntropy().uuid)
    return LocalMetadataStore(journal, asyncio.get_running_loop())


def opens_in(etcd: Etcd) -> OpenStore:
    """A broker's store in an etcd, under a prefix of the test's own."""

    async def open_etcd(directory: Path) -> MetadataStore:
        gateway = EtcdGateway([Member("127.0.0.1", etcd.port)])
        settings = ClusterSettings(
            prefix=f"/{directory.name}/",
            broker_id=BrokerId(1),
            session_timeout_ms=9000,
            heartbeat_interval_ms=2000,
            request_timeout_ms=30_000,
        )
        return await open_metadata_store(
            gateway,
            settings,
            BrokerDirectory(directory, node_id=1),
            clock=SystemClock(),
            entropy=SystemEntropy(),
            on_fatal=pytest.fail,
        )

    return open_etcd


@pytest.fixture(params=["local journal", "etcd"])
def open_store(request: pytest.FixtureRequest) -> OpenStore:
    return open_local if request.param == "local journal" else opens_in(request.getfixturevalue("etcd"))


@dataclass
class Node:
    """A subscriber, and what it saw. `events` has commits and answers in the order in which they were told."""

    store: MetadataStore
    committed: list[CommittedChanges] = field(default_factory=list)
    events: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store.subscribe(self._on_committed)

    def _on_committed(self, committed: CommittedChanges) -> None:
        self.committed.append(committed)
        self.events.append(f"committed {committed.position}")

    def propose(self, decide: Decide, name: str = "proposal") -> asyncio.Future[BrokerError | None]:
        told: asyncio.Future[BrokerError | None] = asyncio.get_running_loop().create_future()

        def decided(error: BrokerError | None) -> None:
            self.events.append(f"answered {name}")
            told.set_result(error)

        before = list(self.events)
        self.store.propose(decide, decided)
        assert self.events == before, "nothing happens inside propose"
        return told

    @property
    def changes(self) -> list[Change]:
        return [change for committed in self.committed for change in committed.changes]


def run(directory: Path, open_store: OpenStore, scenario: Callable[[Node], Awaitable[None]]) -> None:
    async def main() -> None:
        node = Node(await open_store(directory))
        try:
            await asyncio.wait_for(scenario(node), 30)
        finally:
            node.store.close()
            await node.store.leave()

    asyncio.run(main())


def unless_it_exists(change: TopicCreated) -> Decide:
    def decide(image: ClusterImage) -> list[Change]:
        if change.topic.name in image.topics:
            raise BrokerError(ErrorCode.TOPIC_ALREADY_EXISTS)
        return [change]

    return decide


def test_a_change_is_applied_and_told_before_its_proposal_is_answered(tmp_path: Path, open_store: OpenStore) -> None:
    async def scenario(node: Node) -> None:
        answer = node.propose(lambda image: [created("orders", 1), created("bills", 2)])
        assert node.store.image.topics == {}
        assert await answer is None
        assert node.events == [f"committed {node.committed[0].position}", "answered proposal"]
        assert node.changes == [created("orders", 1), created("bills", 2)]
        assert sorted(node.store.image.topics) == ["bills", "orders"]

    run(tmp_path, open_store, scenario)


def test_of_two_proposals_for_one_name_one_succeeds(tmp_path: Path, open_store: OpenStore) -> None:
    async def scenario(node: Node) -> None:
        answers = [node.propose(unless_it_exists(created("orders", number))) for number in (1, 2, 3)]
        # And one that arrives while the others are being committed.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        answers.append(node.propose(unless_it_exists(created("orders", 4))))
        outcomes = await asyncio.gather(*answers)
        assert [error and error.code for error in outcomes] == [None] + 3 * [ErrorCode.TOPIC_ALREADY_EXISTS]
        assert node.changes == [created("orders", 1)]

    run(tmp_path, open_store, scenario)


def test_a_decision_sees_the_changes_of_those_before_it(tmp_path: Path, open_store: OpenStore) -> None:
    async def scenario(node: Node) -> None:
        def next_block(image: ClusterImage) -> list[Change]:
            return [ProducerIdsAllocated(ProducerId(image.next_producer_id + 10))]

        def delete(image: ClusterImage) -> list[Change]:
            return [TopicDeleted(topic.topic_id) for topic in image.topics.values()]

        proposals: list[Decide] = [
            next_block,
            unless_it_exists(created("orders", 1)),
            next_block,
            delete,
            unless_it_exists(created("orders", 2)),
            next_block,
        ]
        assert await asyncio.gather(*(node.propose(decide) for decide in proposals)) == [None] * len(proposals)
        assert node.store.image.next_producer_id == 30
        assert [topic.topic_id for topic in node.store.image.topics.values()] == [topic_id(2)]

    run(tmp_path, open_store, scenario)


def test_commits_and_answers_keep_the_order_of_the_proposals(tmp_path: Path, open_store: OpenStore) -> None:
    async def scenario(node: Node) -> None:
        answers = []
        for number in range(40):
            change = BrokerConfigChanged(None, {"message.max.bytes": str(number)})
            answers.append(node.propose(lambda image, change=change: [change], str(number)))  # type: ignore[misc]
            if number % 7 == 0:
                await asyncio.sleep(0.001)
        await asyncio.gather(*answers)
        positions = [committed.position for committed in node.committed]
        assert positions == sorted(set(positions))
        texts = [change.configs["message.max.bytes"] for change in node.changes]  # type: ignore[union-attr]
        assert texts == [str(number) for number in range(40)]
        assert [event for event in node.events if event.startswith("answered")] == [f"answered {n}" for n in range(40)]

    run(tmp_path, open_store, scenario)


def test_a_refused_proposal_commits_nothing(tmp_path: Path, open_store: OpenStore) -> None:
    async def scenario(node: Node) -> None:
        def refuse(image: ClusterImage) -> list[Change]:
            raise BrokerError(ErrorCode.POLICY_VIOLATION, "No.")

        refusal, nothing, good = await asyncio.gather(
            node.propose(refuse), node.propose(lambda image: []), node.propose(lambda image: [created("orders", 1)])
        )
        assert refusal is not None
        assert (refusal.code, refusal.message) == (ErrorCode.POLICY_VIOLATION, "No.")
        assert nothing is good is None
        assert node.changes == [created("orders", 1)]

    run(tmp_path, open_store, scenario)


@pytest.mark.parametrize("bad", [[created("bills", 9), TopicConfigChanged(topic_id(7), {})], None])
def test_a_bug_in_a_decision_is_refused_whole_and_harms_no_other(
    tmp_path: Path, open_store: OpenStore, bad: list[Change] | None, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(node: Node) -> None:
        def decide(image: ClusterImage) -> list[Change]:
            return list(bad)  # type: ignore[arg-type]

        before, refusal, after = await asyncio.gather(
            node.propose(lambda image: [created("orders", 1)]),
            node.propose(decide),
            node.propose(unless_it_exists(created("bills", 2))),
        )
        assert before is after is None
        assert refusal is not None
        assert refusal.code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert node.changes == [created("orders", 1), created("bills", 2)]

    run(tmp_path, open_store, scenario)
    assert "a decision about the cluster's metadata failed" in caplog.text


def test_committed_changes_are_there_when_the_store_is_opened_again(tmp_path: Path, open_store: OpenStore) -> None:
    async def write(node: Node) -> None:
        await node.propose(lambda image: [created("orders", 1, 2, {"retention.ms": "5"}), created("bills", 2)])
        await node.propose(lambda image: [TopicDeleted(topic_id(2))])

    async def read(node: Node) -> None:
        assert list(node.store.image.topics.values()) == [created("orders", 1, 2, {"retention.ms": "5"}).topic]
        assert await node.propose(unless_it_exists(created("bills", 3))) is None

    run(tmp_path, open_store, write)
    run(tmp_path, open_store, read)


def test_a_registration_is_a_change_that_ends_with_its_broker(tmp_path: Path, open_store: OpenStore) -> None:
    async def register(node: Node) -> None:
        assert await node.propose(lambda image: [registered(1)]) is None
        assert node.changes == [registered(1)]
        assert list(node.store.image.brokers) == [BrokerId(1)]
        await node.propose(lambda image: [created("orders", 1)])

    async def find_none(node: Node) -> None:
        assert node.store.image.brokers == {}
        assert list(node.store.image.topics) == ["orders"]

    run(tmp_path, open_store, register)
    run(tmp_path, open_store, find_none)
