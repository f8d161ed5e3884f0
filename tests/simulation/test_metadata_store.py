"""The cluster's metadata store when etcd is away, slow or compacted, and when brokers lose their sessions."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace

import pytest

from penstock.core.ids import BrokerId, ProducerId
from penstock.metadata.changes import (
    BrokerConfigChanged,
    BrokerGone,
    BrokerRegistered,
    BrokerUnregistered,
    Change,
    ControllerElected,
    ProducerIdsAllocated,
    TopicDeleted,
)
from penstock.metadata.image import ClusterImage
from penstock.metadata.key_value_store import Delete, Revision, WatchedChanges
from penstock.metadata.store import Decide
from penstock.protocol.error_codes import BrokerError, ErrorCode
from tests.simulation.cluster.etcd import HOST
from tests.simulation.metadata_stores import KEYS, SESSION_TIMEOUT_MS, Cluster, StoreProcess
from tests.unit.metadata.images import created, topic_id

NewCluster = Callable[[int], Cluster]


@pytest.fixture
def new_cluster() -> Iterator[NewCluster]:
    with ExitStack() as clusters:
        yield lambda seed: clusters.enter_context(closing(Cluster(seed)))


@pytest.fixture
def cluster(new_cluster: NewCluster) -> Cluster:
    return new_cluster(1)


def unless_it_exists(name: str, number: int) -> Decide:
    def decide(image: ClusterImage) -> Sequence[Change]:
        if image.colliding_topic(created(name, number).topic.name) is not None:
            raise BrokerError(ErrorCode.TOPIC_ALREADY_EXISTS)
        return [created(name, number)]

    return decide


def ten_producer_ids(image: ClusterImage) -> Sequence[Change]:
    return [ProducerIdsAllocated(ProducerId(image.next_producer_id + 10))]


def contents(image: ClusterImage) -> object:
    changes: list[Change] = [*image.live_broker_changes(), *image.live_changes()]
    return image.last_broker_epoch, sorted(map(repr, changes))


def assert_equal_images(cluster: Cluster) -> None:
    """Once everything was delivered."""
    cluster.run_for(15)
    assert len({repr(contents(broker.image)) for broker in cluster.brokers}) == 1


def test_of_two_brokers_that_create_one_topic_one_succeeds(cluster: Cluster) -> None:
    one, two = cluster.broker(1), cluster.broker(2)
    answers = [
        (broker, broker.propose(unless_it_exists(f"t{number}", number + 100 * broker.broker_id)))
        for number in range(20)
        for broker in (one, two)
    ]
    outcomes = [broker.run(answer) for broker, answer in answers]
    for first, second in zip(outcomes[::2], outcomes[1::2], strict=True):
        assert {first and first.code, second and second.code} == {None, ErrorCode.TOPIC_ALREADY_EXISTS}
    assert_equal_images(cluster)
    shared = [change for change in two.changes if change not in one.changes]
    assert shared == []
    assert [change for change in one.changes if change in two.changes] == two.changes, "in the same order"


def test_proposals_wait_until_etcd_is_back_and_count_once(cluster: Cluster) -> None:
    one, two = cluster.broker(1), cluster.broker(2)
    cluster.etcd.go_away()
    answers = [(broker, broker.propose(ten_producer_ids)) for broker in (one, two, one)]
    cluster.run_for(10)
    assert not any(answer.done() for _, answer in answers)
    cluster.etcd.come_back()
    assert [broker.run(answer) for broker, answer in answers] == [None, None, None]
    assert_equal_images(cluster)
    assert one.image.next_producer_id == 30


def test_proposals_time_out_when_etcd_stays_away(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    one = cluster.broker(1)
    cluster.etcd.go_away()
    answers = [one.propose(ten_producer_ids) for _ in range(3)]
    for answer in answers:
        error = one.run(answer)
        assert error is not None
        assert error.code is ErrorCode.REQUEST_TIMED_OUT
    assert not one.acts_on_its_own
    cluster.etcd.come_back()
    assert one.run(one.propose(ten_producer_ids)) is None
    assert one.image.next_producer_id in (10, 40), "all of the first three or none, as their transaction was one"
    said = [record.message for record in caplog.records]
    assert sum("does not answer" in line for line in said) == 1
    assert sum("time out" in line for line in said) == 1
    assert sum("serves no client until" in line for line in said) == 1
    assert sum("store answers again, after" in line for line in said) == 1


def test_a_commit_whose_answer_was_lost_counts_once(cluster: Cluster) -> None:
    one, two = cluster.broker(1), cluster.broker(2)
    cluster.partition(one, there=False, back=True)
    answer = one.propose(ten_producer_ids)
    cluster.run_for(4)
    assert two.image.next_producer_id == 10
    cluster.heal(one)
    assert one.run(answer) is None
    assert_equal_images(cluster)
    assert one.image.next_producer_id == 10


def test_a_commit_that_arrives_late_does_not_undo_what_was_decided_since(cluster: Cluster) -> None:
    one, two = cluster.broker(1), cluster.broker(2)
    for _ in range(10):
        cluster.partition(one, there=True, back=False)
        answer = one.propose(ten_producer_ids)
        cluster.run_for(3)
        assert two.run(two.propose(ten_producer_ids)) is None
        cluster.heal(one)
        assert one.run(answer) is None
    assert_equal_images(cluster)
    assert one.image.next_producer_id == 200


def test_a_broker_that_missed_compacted_history_is_told_the_difference(cluster: Cluster) -> None:
    one, two = cluster.broker(1), cluster.broker(2)
    assert one.run(one.propose(unless_it_exists("kept", 1))) is None
    assert one.run(one.propose(unless_it_exists("deleted", 2))) is None
    cluster.run_for(3)
    cluster.partition(two)
    assert one.run(one.propose(unless_it_exists("new", 3))) is None
    assert one.run(one.propose(lambda image: [TopicDeleted(topic_id(2))])) is None
    assert one.run(one.propose(unless_it_exists("short-lived", 4))) is None
    assert one.run(one.propose(lambda image: [TopicDeleted(topic_id(4))])) is None
    cluster.run_for(SESSION_TIMEOUT_MS / 1000 + 2)  # the watch of the second broker breaks meanwhile
    cluster.etcd.compact()
    told = len(two.changes)
    cluster.heal(two)
    assert_equal_images(cluster)
    assert [change for change in two.changes[told:] if not isinstance(change, BrokerRegistered | BrokerGone)] == [
        TopicDeleted(topic_id(2)),
        created("new", 3),
    ]
    assert two.acts_on_its_own, "it registered again"
    assert two.image.brokers[two.broker_id].incarnation == b"2"


def test_a_broker_that_was_paused_is_fenced_and_registers_again(cluster: Cluster) -> None:
    one, two = cluster.broker(1), cluster.broker(2)
    epoch = two.image.brokers[two.broker_id].epoch
    two.loop.pause()
    cluster.run_until(lambda: two.broker_id not in one.image.brokers, SESSION_TIMEOUT_MS / 1000 + 2)
    assert BrokerGone(two.broker_id, epoch) in one.changes
    cluster.run_for(30)
    assert not two.acts_on_its_own, "by its own clock, before it ran again"
    two.loop.resume()
    cluster.run_until(lambda: two.acts_on_its_own)
    assert one.image.brokers[two.broker_id].epoch > epoch
    assert_equal_images(cluster)
    assert one.image.brokers[two.broker_id].incarnation == b"2"
    assert not two.fatal


def test_a_short_absence_of_etcd_costs_no_session(cluster: Cluster) -> None:
    one = cluster.broker(1)
    for _ in range(20):
        cluster.etcd.go_away()
        cluster.run_for(5)
        assert one.acts_on_its_own
        cluster.etcd.come_back()
        cluster.run_for(5)
        assert one.acts_on_its_own
    assert len(one.leases) == 1


def test_a_slow_etcd_costs_no_session(cluster: Cluster) -> None:
    one, two = cluster.broker(1), cluster.broker(2)
    for broker in (one, two):
        cluster.network.slow(broker.loop.name, HOST, 0.7)
        cluster.network.slow(HOST, broker.loop.name, 0.7)
    answers = [(broker, broker.propose(ten_producer_ids)) for _ in range(3) for broker in (one, two)]
    assert [broker.run(answer) for broker, answer in answers] == [None] * 6
    cluster.run_for(60)
    assert one.acts_on_its_own
    assert two.acts_on_its_own
    assert len(one.leases) == len(two.leases) == 1
    assert_equal_images(cluster)
    assert one.image.next_producer_id == 60


def test_a_stopped_broker_is_gone_at_once(cluster: Cluster) -> None:
    one, two = cluster.broker(1), cluster.broker(2)
    two.store.close()
    two.run(two.store.leave())
    cluster.run_until(lambda: two.broker_id not in one.image.brokers, 1)
    cluster.run_for(30)
    assert list(one.image.brokers) == [one.broker_id]


def test_a_second_process_with_the_same_node_id_ends_the_loser(cluster: Cluster) -> None:
    first = cluster.broker(1)
    first.loop.pause()
    cluster.run_for(SESSION_TIMEOUT_MS / 1000 + 2)
    twin = StoreProcess(cluster, 1, 1.0, 500)

    def register(image: ClusterImage) -> Sequence[Change]:
        (change,) = StoreProcess._register(twin, image)
        assert isinstance(change, BrokerRegistered)
        return [BrokerRegistered(replace(change.broker, incarnation=b"twin"))]

    twin._register = register  # type: ignore[method-assign]
    twin.run(twin.open())
    first.loop.resume()
    cluster.run_until(lambda: bool(first.fatal))
    assert "node.id=1 is in use by another broker" in first.fatal[0]
    assert twin.acts_on_its_own


def test_snapshots_keep_the_log_short_and_hold_everything(cluster: Cluster) -> None:
    one, two = cluster.broker(1, snapshot_entries=10), cluster.broker(2, snapshot_entries=10)
    for number in range(60):
        broker = (one, two)[number % 2]
        assert broker.run(broker.propose(unless_it_exists(f"t{number}", number + 1))) is None
    assert one.run(one.propose(lambda image: [BrokerConfigChanged(None, {"message.max.bytes": "7"})])) is None
    cluster.run_for(1)
    assert len(cluster.stored(KEYS.log)) < 25
    assert len({key.split("/")[3] for key in cluster.stored(KEYS.snapshots)}) == 1
    cluster.broker(3)
    assert_equal_images(cluster)
    assert len(one.image.topics) == 60


def test_the_last_broker_epoch_survives_a_snapshot_without_its_broker(cluster: Cluster) -> None:
    one, two = cluster.broker(1, snapshot_entries=5), cluster.broker(2)
    epoch = one.image.last_broker_epoch
    two.store.close()
    two.run(two.store.leave())
    cluster.run_until(lambda: two.broker_id not in one.image.brokers)
    cluster.brokers.remove(two)
    assert one.run(one.propose(lambda image: [BrokerUnregistered(two.broker_id)])) is None
    for number in range(6):
        assert one.run(one.propose(unless_it_exists(f"t{number}", number + 1))) is None
    cluster.run_for(1)
    assert cluster.stored(KEYS.snapshots)
    three = cluster.broker(3)
    assert three.image.brokers[three.broker_id].epoch == epoch + 1


def test_a_broker_whose_session_ended_is_not_elected(cluster: Cluster) -> None:
    """No entry of the log tells that it ended: the transaction compares the registration."""
    one, two = cluster.broker(1), cluster.broker(2)
    cluster.partition(one, there=False, back=True)  # it is told nothing, and can commit
    two.kill()
    cluster.run_until(lambda: KEYS.broker(two.broker_id) not in cluster.stored(), 15)

    def elect(image: ClusterImage) -> Sequence[Change]:
        if two.broker_id not in image.brokers:
            raise BrokerError(ErrorCode.BROKER_NOT_AVAILABLE)
        return [ControllerElected(two.broker_id, image.controller_epoch + 1)]

    answer = one.propose(elect)
    cluster.run_for(2)
    assert not answer.done()
    cluster.heal(one)
    error = one.run(answer)
    assert error is not None
    assert error.code is ErrorCode.BROKER_NOT_AVAILABLE
    assert not one.fatal


def test_a_change_that_is_too_large_is_refused_and_harms_no_other(cluster: Cluster) -> None:
    one = cluster.broker(1)
    noise = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=2_000_000))
    before = one.propose(ten_producer_ids)
    large = one.propose(lambda image: [BrokerConfigChanged(None, {"listeners": noise})])
    after = one.propose(ten_producer_ids)
    refusal = one.run(large)
    assert refusal is not None
    assert refusal.code is ErrorCode.POLICY_VIOLATION
    assert one.run(before) is one.run(after) is None
    assert one.image.next_producer_id == 20


def test_a_watch_that_hangs_is_noticed(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    one, two = cluster.broker(1), cluster.broker(2)
    watch = two.client.watch

    async def hangs(prefix: str, *, after: Revision) -> AsyncGenerator[WatchedChanges, None]:
        async for changes in watch(prefix, after=after):
            if "hangs" in caplog.text:
                yield changes

    two.client.watch = hangs  # type: ignore[method-assign]
    two.store._log._watching.cancel()  # type: ignore[union-attr]
    cluster.run_for(1)
    assert one.run(one.propose(unless_it_exists("orders", 1))) is None
    assert_equal_images(cluster)
    assert caplog.text.count("hangs") == 1


def test_deleted_metadata_stops_the_broker_with_one_line(cluster: Cluster) -> None:
    one = cluster.broker(1)
    cluster.etcd.commit([], [Delete(KEYS.prefix, "/penstock0")])
    cluster.run_until(lambda: bool(one.fatal))
    assert one.fatal[0].startswith("the metadata of the cluster at /penstock/ was deleted; restore")


@pytest.mark.parametrize("seed", range(6))
def test_no_broker_trusts_a_session_that_has_ended(new_cluster: NewCluster, seed: int) -> None:
    """Clocks at different speeds, pauses, cuts in one or both directions, and times without etcd."""
    cluster = new_cluster(seed)
    chance = cluster.world.random
    brokers = [cluster.broker(number, rate=chance.uniform(0.97, 1.03), snapshot_entries=20) for number in (1, 2, 3)]

    def check() -> None:
        for broker in brokers:
            if broker.acts_on_its_own:
                entry = cluster.etcd.entry(KEYS.broker(broker.broker_id), cluster.etcd.revision)
                assert entry is not None, f"{broker.loop.name} acts without a registration"
                assert entry.lease_id == broker.store.session.lease_id

    cluster.after_event = check
    allocated = []
    for _ in range(25):
        broker = chance.choice(brokers)
        match chance.randrange(4):
            case 0:
                broker.loop.pause()
            case 1:
                cluster.partition(broker, there=chance.random() < 0.6, back=chance.random() < 0.6)
            case 2:
                cluster.etcd.go_away()
            case 3 if chance.random() < 0.3:
                cluster.etcd.compact()
        allocated += [each.propose(ten_producer_ids) for each in brokers if not each.loop.is_paused]
        cluster.run_for(chance.uniform(0, 14))
        broker.loop.resume()
        cluster.heal(broker)
        cluster.etcd.come_back()
        cluster.run_for(chance.uniform(0, 4))
    cluster.run_until(lambda: all(answer.done() for answer in allocated), 120)
    cluster.run_until(lambda: all(broker.acts_on_its_own for broker in brokers), 60)
    assert_equal_images(cluster)
    assert [broker.fatal for broker in brokers] == [[], [], []]
    succeeded = sum(answer.result() is None for answer in allocated)
    unknown = len(allocated) - succeeded
    assert succeeded * 10 <= brokers[0].image.next_producer_id <= (succeeded + unknown) * 10
    assert set(brokers[0].image.brokers) == {BrokerId(1), BrokerId(2), BrokerId(3)}
