"""Replication between three brokers in virtual time: what followers do, what leaders wait for, who takes over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from penstock.broker.partition import Partition
from penstock.core.ids import BrokerId, TopicName
from penstock.metadata.broker_config_definitions import RACK_AWARE_SELECTOR
from penstock.metadata.changes import PartitionChanged, PartitionImage
from penstock.metadata.image import ClusterImage
from penstock.metadata.reassignment import decide_reassignment
from penstock.protocol.definitions.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from penstock.protocol.definitions.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.protocol.definitions.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.definitions.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.definitions.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.record_encoding import NewRecord, encode_batch
from tests.simulation.cluster import process
from tests.simulation.cluster.broker import Broker
from tests.simulation.cluster.client import Client
from tests.simulation.cluster.cluster import Cluster
from tests.simulation.cluster.etcd import HOST as ETCD
from tests.simulation.cluster.world import EPOCH_MS

TOPIC = "records"
ACKS_ALL, ACKS_LEADER = -1, 1
LATEST = -1
SESSION_S = process.SESSION_TIMEOUT_MS / 1000


class Scenario:
    """A cluster with one topic, whose one partition has broker 1 as its preferred leader, and a client."""

    def __init__(self, *replicas: int, min_insync_replicas: int = 2) -> None:
        self.cluster = Cluster(1)
        self.world = self.cluster.world
        self.network = self.cluster.network
        self.check: Callable[..., None] = self.cluster.check
        for broker in self.cluster.brokers:
            broker.start()
        self.until(lambda: all(broker.is_serving for broker in self.cluster.brokers))
        self.client = self.cluster.client("client")
        self.create(replicas or (1, 2, 3), min_insync_replicas)

    def until(self, is_over: Callable[[], bool], within_s: float = 30.0) -> None:
        assert self.world.run_until(is_over, self.world.now_s + within_s, self.check)

    def pass_time(self, seconds: float) -> None:
        self.world.run_until(lambda: False, self.world.now_s + seconds, self.check)

    def begin(self, work: Any, client: Client | None = None) -> Any:
        return (client or self.client).loop.create_task(work)

    def ask(self, broker: int, request: Any, version: int) -> Any:
        asked = self.begin(self.client.ask(broker, request, version))
        self.until(asked.done)
        return asked.result()

    # The topic

    def create(self, replicas: tuple[int, ...], min_insync_replicas: int) -> None:
        topic = CreatableTopic(
            name=TOPIC,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))],
            configs=[CreatableTopicConfig(name="min.insync.replicas", value=str(min_insync_replicas))],
        )
        answer = self.ask(1, CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7)
        assert answer.topics[0].error_code == ErrorCode.NONE
        self.until(lambda: all(self.replica(replica) is not None for replica in replicas))
        self.until(lambda: self.partition(self.image.leader).is_leader)

    @property
    def image(self) -> PartitionImage:
        return self.cluster.truth.image.topics[TopicName(TOPIC)].partitions[0]

    def broker(self, broker_id: int) -> Broker:
        return self.cluster.brokers[broker_id - 1]

    def replica(self, broker_id: int) -> Partition | None:
        return next((each for each in self.broker(broker_id).replicas() if each.topic_name == TOPIC), None)

    def partition(self, broker_id: int) -> Partition:
        partition = self.replica(broker_id)
        assert partition is not None
        return partition

    def leader_is(self, broker_id: int) -> Callable[[], bool]:
        return lambda: self.image.leader == broker_id and self.partition(broker_id).is_leader

    def in_sync(self, *broker_ids: int) -> Callable[[], bool]:
        return lambda: set(self.image.isr) == set(broker_ids)

    def are_equal(self, *broker_ids: int) -> Callable[[], bool]:
        def equal() -> bool:
            ends = {
                (partition.log.log_end_offset, partition.high_watermark)
                for partition in map(self.partition, broker_ids)
            }
            return len(ends) == 1 and all(end == high_watermark for end, high_watermark in ends)

        return equal

    # Records

    def begin_produce(self, broker: int, value: bytes, acks: int, timeout_ms: int = 20_000) -> Any:
        batch, _ = encode_batch([NewRecord(None, value, EPOCH_MS)])
        data = PartitionProduceData(index=0, records=batch)
        request = ProduceRequest(
            acks=acks, timeout_ms=timeout_ms, topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])]
        )
        # A client of its own: the broker answers requests of one connection in their order.
        client = self.cluster.client(f"producer {len(self.cluster.clients)}")
        return self.begin(client.ask(broker, request, 11, timeout_s=60), client)

    def produce(self, broker: int, value: bytes, acks: int = ACKS_ALL) -> ErrorCode:
        asked = self.begin_produce(broker, value, acks)
        self.until(asked.done)
        return produce_error(asked.result())

    def fetch(self, broker: int, offset: int = 0, *, rack: str = "", version: int = 12) -> Any:
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=[FetchTopic(topic=TOPIC, partitions=[wanted])],
            rack_id=rack,
        )
        return self.ask(broker, request, version).responses[0].partitions[0]

    def reassign(self, *replicas: int) -> None:
        node = self.broker(1).process.node  # type: ignore[union-attr]
        outcomes: list[object] = []

        def decide(image: ClusterImage) -> list[PartitionChanged]:
            change = decide_reassignment(image, TopicName(TOPIC), 0, replicas, node.inherited_topic_config)
            return [] if change is None else [change]

        node.loop.call_soon(node.propose, decide, outcomes.append)
        self.until(lambda: bool(outcomes))
        assert outcomes == [None]


def produce_error(answer: Any) -> ErrorCode:
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


@contextmanager
def scenario(*replicas: int, min_insync_replicas: int = 2) -> Iterator[Scenario]:
    made = Scenario(*replicas, min_insync_replicas=min_insync_replicas)
    try:
        yield made
    finally:
        made.cluster.close()


def test_acks_all_waits_for_every_in_sync_replica_and_acks_1_does_not() -> None:
    with scenario() as it:
        it.network.cut("broker2", "broker1")
        waiting = it.begin_produce(1, b"all", ACKS_ALL)
        assert it.produce(1, b"leader", ACKS_LEADER) == ErrorCode.NONE
        assert not waiting.done()
        it.network.heal()
        it.until(waiting.done)
        assert produce_error(waiting.result()) == ErrorCode.NONE
        it.until(it.are_equal(1, 2, 3))


def test_a_follower_that_lags_leaves_the_in_sync_replicas_and_comes_back() -> None:
    with scenario() as it:
        it.network.cut("broker2", "broker1")
        waiting = it.begin_produce(1, b"value", ACKS_ALL)
        it.until(it.in_sync(1, 3))
        it.until(waiting.done)
        assert produce_error(waiting.result()) == ErrorCode.NONE
        it.network.heal()
        it.until(it.in_sync(1, 2, 3))
        it.until(it.are_equal(1, 2, 3))


def test_below_the_minimum_acks_all_is_refused_before_and_after_the_append() -> None:
    with scenario() as it:
        it.network.cut("broker2", "broker1")
        it.network.cut("broker3", "broker1")
        waiting = it.begin_produce(1, b"after", ACKS_ALL)
        it.until(it.in_sync(1))
        it.until(waiting.done)
        assert produce_error(waiting.result()) == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        assert it.produce(1, b"before") == ErrorCode.NOT_ENOUGH_REPLICAS
        assert it.produce(1, b"leader", ACKS_LEADER) == ErrorCode.NONE
        assert it.partition(1).high_watermark == 0
        it.network.heal()
        it.until(it.in_sync(1, 2, 3))
        it.until(it.are_equal(1, 2, 3))
        assert it.partition(1).high_watermark == 2


def test_acks_all_times_out_where_a_replica_does_not_confirm_in_time() -> None:
    with scenario() as it:
        it.network.cut("broker2", "broker1")
        waiting = it.begin_produce(1, b"value", ACKS_ALL, timeout_ms=100)
        it.until(waiting.done)
        assert produce_error(waiting.result()) == ErrorCode.REQUEST_TIMED_OUT


def test_a_leader_that_lost_its_session_answers_nothing_and_is_replaced() -> None:
    with scenario() as it:
        assert it.produce(1, b"first") == ErrorCode.NONE
        it.network.cut("broker1", ETCD)
        it.pass_time(SESSION_S)
        assert it.produce(1, b"second", ACKS_LEADER) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert it.fetch(1).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        asked = ListOffsetsRequest(
            topics=[
                ListOffsetsTopic(name=TOPIC, partitions=[ListOffsetsPartition(partition_index=0, timestamp=LATEST)])
            ]
        )
        assert it.ask(1, asked, 7).topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        it.until(lambda: it.image.leader not in (1, -1))


def test_records_of_a_leader_that_was_replaced_unseen_are_truncated() -> None:
    with scenario() as it:
        assert it.produce(1, b"committed") == ErrorCode.NONE
        for peer in ("broker2", "broker3", ETCD):
            it.network.cut("broker1", peer)
            it.network.cut(peer, "broker1")
        # It does not know yet that its followers are gone; nobody will ever read this.
        it.produce(1, b"lost", ACKS_LEADER)
        it.produce(1, b"lost too", ACKS_LEADER)
        assert it.partition(1).log.log_end_offset == 3
        it.until(lambda: it.image.leader in (2, 3))
        leader = it.image.leader
        it.until(lambda: it.partition(leader).is_leader)
        assert it.produce(leader, b"other") == ErrorCode.NONE
        it.network.heal()
        it.until(it.in_sync(1, 2, 3))
        it.until(it.are_equal(1, 2, 3))
        assert b"other" in it.partition(1).log.read(1, 1 << 20, 2).read()
        assert it.partition(1).log.leader_epochs.entries == it.partition(leader).log.leader_epochs.entries


def test_a_broker_that_stops_hands_over_what_it_leads_and_starts_clean() -> None:
    with scenario() as it:
        assert it.produce(1, b"first") == ErrorCode.NONE
        broker = it.broker(1)
        broker.stop()
        it.until(lambda: it.image.leader in (2, 3))
        assert broker.is_up
        it.until(lambda: not broker.is_up)
        assert 1 not in it.image.isr
        leader = it.image.leader
        assert it.produce(leader, b"second") == ErrorCode.NONE
        broker.start()
        it.until(it.in_sync(1, 2, 3))
        it.until(it.are_equal(1, 2, 3))


def test_replicas_move_to_another_broker() -> None:
    with scenario(1, 2) as it:
        assert it.produce(1, b"first") == ErrorCode.NONE
        it.reassign(3, 2)
        it.until(lambda: it.image.replicas == (3, 2) and not it.image.adding)
        it.until(lambda: it.replica(1) is None and it.image.leader in (2, 3))
        leader = it.image.leader
        it.until(lambda: it.partition(leader).is_leader)
        assert it.produce(leader, b"second") == ErrorCode.NONE
        it.until(it.are_equal(2, 3))
        it.until(lambda: not any(name.startswith(f"{TOPIC}-0") for name in it.broker(1).disk.list_directory("/data")))
        assert it.produce(1, b"third") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or it.replica(1) is None


def test_a_new_replica_begins_where_the_leaders_log_begins() -> None:
    with scenario(1, 2) as it:
        it.check = lambda *touched: None  # the invariants compare logs from offset 0 on
        for number in range(5):
            assert it.produce(1, b"value %d" % number) == ErrorCode.NONE
        partition = DeleteRecordsPartition(partition_index=0, offset=3)
        deletion = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=TOPIC, partitions=[partition])], timeout_ms=5000
        )
        assert it.ask(1, deletion, 2).topics[0].partitions[0].error_code == ErrorCode.NONE
        it.reassign(1, 2, 3)
        it.until(it.in_sync(1, 2, 3))
        it.until(it.are_equal(1, 2, 3))
        it.until(lambda: [it.partition(each).log.log_start_offset for each in (1, 2, 3)] == [3, 3, 3])


def test_a_consumer_reads_in_its_own_rack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(process.SETTINGS, "replica.selector.class", RACK_AWARE_SELECTOR)
    process.config_of.cache_clear()
    try:
        with scenario() as it:
            assert it.produce(1, b"value") == ErrorCode.NONE
            it.until(it.are_equal(1, 2, 3))
            assert it.fetch(1, rack="rack1").preferred_read_replica == -1
            assert it.fetch(1, rack="elsewhere").preferred_read_replica == -1
            preferred = it.fetch(1, rack="rack2")
            assert preferred.preferred_read_replica == 2
            assert not preferred.records
            # An old client is not asked to go elsewhere, and is not served by a follower.
            assert b"value" in bytes(it.fetch(1, version=10).records)
            assert it.fetch(2, version=10).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert b"value" in bytes(it.fetch(2, rack="rack2").records)
            # What the follower does not have yet is waited for; what it cannot have is another error than the leader's.
            assert it.fetch(2, 1).error_code == ErrorCode.NONE
            assert it.fetch(2, 2).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
            it.broker(2).kill()
            it.until(lambda: 2 not in it.image.isr)
            it.until(lambda: it.fetch(1, rack="rack2").preferred_read_replica == -1)
    finally:
        process.config_of.cache_clear()


def test_the_only_broker_that_was_in_sync_comes_back_and_leads_again() -> None:
    with scenario(min_insync_replicas=1) as it:
        for follower in ("broker2", "broker3"):
            it.network.cut(follower, "broker1")
        it.until(it.in_sync(1))
        assert it.produce(1, b"alone") == ErrorCode.NONE
        it.broker(1).stop()
        it.until(lambda: not it.broker(1).is_up)
        it.network.heal()
        it.until(lambda: it.image.leader == -1)
        it.pass_time(3)
        assert it.image.leader == BrokerId(-1)
        it.broker(1).start()
        it.until(it.leader_is(1))
        it.until(it.in_sync(1, 2, 3))
        assert it.partition(2).log.log_end_offset == 1
