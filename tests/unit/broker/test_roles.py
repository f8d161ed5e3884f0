"""A node among others: it opens its own replicas, leads some of them, and sends clients to the leader of the rest.

The other brokers exist in the metadata only: changes that name them are committed as another node's would be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.deferred import Deferred
from penstock.broker.node import Node
from penstock.broker.request_context import RequestContext
from penstock.broker.router import BY_API_KEY
from penstock.core.ids import BrokerId, LeaderEpoch, PartitionIndex, TopicName
from penstock.metadata.changes import PartitionChanged, PartitionImage, PartitionsAdded, TopicCreated, TopicImage
from penstock.metadata.topics import GROUP_OFFSETS_TOPIC, NewTopic
from penstock.protocol.definitions.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from penstock.protocol.definitions.describe_log_dirs import DescribeLogDirsRequest
from penstock.protocol.definitions.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.definitions.find_coordinator import FindCoordinatorRequest
from penstock.protocol.definitions.init_producer_id import InitProducerIdRequest
from penstock.protocol.definitions.list_groups import ListGroupsRequest
from penstock.protocol.definitions.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.definitions.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.definitions.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.error_codes import ErrorCode
from tests.clocks import ManualClock
from tests.integration.broker.conversation import Topic, batch_of, values_in
from tests.integration.broker.group_conversation import commit_request, join_request
from tests.unit.broker.handlers.requests import ask
from tests.unit.broker.nodes import FakeConnection, commit_changes, make_topics, node_in
from tests.unit.metadata.images import led_by, registered, topic_id

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
PORT_OF_TWO = registered(2).broker.endpoints["PLAINTEXT"].port
TOPIC = Topic("topic", topic_id(7))
OTHERS, LATEST, ACKS_ALL, ACKS_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1, 1


def replica(
    index: int, leader: BrokerId, *replicas: BrokerId, isr: tuple[BrokerId, ...] | None = None
) -> PartitionImage:
    return PartitionImage(PartitionIndex(index), leader, LeaderEpoch(3), replicas, replicas if isr is None else isr)


LED, ELSEWHERE, FOLLOWED = 0, 1, 2
PARTITIONS = (replica(LED, ONE, ONE), replica(ELSEWHERE, TWO, TWO), replica(FOLLOWED, TWO, TWO, ONE))


def run(
    directory: Path,
    scenario: Callable[[Node], Awaitable[None]],
    *partitions: PartitionImage,
    clock: ManualClock | None = None,
    **settings: str,
) -> None:
    """On a node of a cluster with broker 2. The topic is created once, with these partitions."""

    async def main() -> None:
        # Broker 2 confirms nothing, so the coordinators' topics have one replica.
        named = {"offsets.topic.replication.factor": "1", "transaction.state.log.replication.factor": "1"}
        named |= {name.replace("_", "."): value for name, value in settings.items()}
        with node_in(directory, named, clock=clock) as node:
            commit_changes(node, registered(2))
            if partitions and TOPIC.name not in node.image.topics:
                image = TopicImage(TopicName(TOPIC.name), topic_id(7), partitions)
                commit_changes(node, TopicCreated(image))
            await scenario(node)

    asyncio.run(main())


def produce_request(*indexes: int, acks: int = ACKS_ALL, timeout_ms: int = 30_000) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=memoryview(batch_of(b"value"))) for index in indexes]
    topic = TopicProduceData(name=TOPIC.name, topic_id=TOPIC.topic_id, partition_data=data)
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[topic])


def begin_produce(node: Node, *, acks: int = ACKS_ALL, timeout_ms: int = 30_000) -> Deferred:
    context = RequestContext(node, 13, "test", FakeConnection())
    answer = BY_API_KEY[0].handle(produce_request(0, acks=acks, timeout_ms=timeout_ms), context)
    node.appends.write()
    assert isinstance(answer, Deferred)
    return answer


def code_of(answer: Deferred) -> ErrorCode:
    assert answer.done
    return ErrorCode(answer.response.responses[0].partition_responses[0].error_code)


def fetch_request(*indexes: int, max_wait_ms: int = 0) -> FetchRequest:
    partitions = [FetchPartition(partition=index, partition_max_bytes=1 << 20) for index in indexes]
    topic = FetchTopic(topic=TOPIC.name, topic_id=TOPIC.topic_id, partitions=partitions)
    return FetchRequest(session_epoch=-1, max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, topics=[topic])


def readable(node: Node) -> list[bytes | None]:
    return values_in(ask_fetch(node, 0).responses[0].partitions[0])


def ask_fetch(node: Node, *indexes: int, version: int = 16, offset: int = 0) -> Any:
    request = fetch_request(*indexes)
    for partition in request.topics[0].partitions:
        partition.fetch_offset = offset
    response = BY_API_KEY[1].handle(request, RequestContext(node, version, "test", FakeConnection()))
    for data in response.responses[0].partitions:
        data.records = data.records if isinstance(data.records, bytes) else data.records.read()
    return response


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(30_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    pytest.fail("it never came to pass")


def directories(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir() if entry.is_dir())


def change(node: Node, leader: BrokerId, epoch: int, *isr: BrokerId) -> None:
    before = node.image.topics_by_id[topic_id(7)].partitions[0]
    commit_changes(node, PartitionChanged(topic_id(7), led_by(before, leader, epoch, isr)))


# Whose replica is whose


def test_a_node_opens_its_own_replicas_only(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        assert [str(partition) for partition in node.topics.replicas()] == ["topic-0", "topic-2"]
        assert [str(partition) for partition in node.topics.led()] == ["topic-0"]

    run(tmp_path, scenario, *PARTITIONS)
    assert directories(tmp_path) == ["topic-0", "topic-2"]
    # And from its journal, when it starts again.
    run(tmp_path, scenario)


def test_partitions_that_are_added_are_opened_where_their_replicas_are(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        commit_changes(node, PartitionsAdded(topic_id(7), (replica(3, TWO, TWO), replica(4, ONE, ONE, TWO))))
        assert [str(partition) for partition in node.topics.replicas()] == ["topic-0", "topic-2", "topic-4"]
        assert [str(partition) for partition in node.topics.led()] == ["topic-0", "topic-4"]

    run(tmp_path, scenario, *PARTITIONS)


def test_files_of_a_replica_that_is_another_broker_s_are_set_aside(tmp_path: Path) -> None:
    async def create(node: Node) -> None:
        pass

    run(tmp_path, create, *PARTITIONS)
    (tmp_path / "topic-0").rename(tmp_path / "topic-1")

    async def look(node: Node) -> None:
        assert [str(partition) for partition in node.topics.replicas()] == ["topic-0", "topic-2"]

    run(tmp_path, look)
    assert any(name.startswith("topic-1.") for name in directories(tmp_path))


def test_topics_are_created_over_all_brokers(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        make_topics(node, NewTopic("spread", 4, 1), NewTopic("copied", 1, 2))
        spread = node.image.topics[TopicName("spread")].partitions
        assert sorted(partition.leader for partition in spread) == [1, 1, 2, 2]
        assert sorted(node.image.topics[TopicName("copied")].partitions[0].replicas) == [1, 2]
        own = [partition for partition in node.topics.replicas() if partition.topic_name == "spread"]
        assert [partition.index for partition in own] == [entry.index for entry in spread if entry.leader == ONE]
        assert (tmp_path / "copied-0").is_dir()

    run(tmp_path, scenario)


# Requests of clients


@pytest.mark.parametrize("version", [9, 10, 12, 13])
def test_a_produce_is_sent_to_the_leader(tmp_path: Path, version: int) -> None:
    async def scenario(node: Node) -> None:
        response = ask(node, produce_request(LED, ELSEWHERE, FOLLOWED), version)
        answers = response.responses[0].partition_responses
        assert [answer.error_code for answer in answers] == [ErrorCode.NONE, OTHERS, OTHERS]
        if version >= 10:
            leaders = [(answer.current_leader.leader_id, answer.current_leader.leader_epoch) for answer in answers[1:]]
            assert leaders == [(TWO, 3), (TWO, 3)]
            (endpoint,) = response.node_endpoints
            assert (endpoint.node_id, endpoint.host, endpoint.port) == (TWO, "127.0.0.1", PORT_OF_TWO)

    run(tmp_path, scenario, *PARTITIONS)


@pytest.mark.parametrize("version", [11, 12, 16, 18])
def test_a_fetch_is_sent_to_the_leader(tmp_path: Path, version: int) -> None:
    async def scenario(node: Node) -> None:
        ask(node, produce_request(LED))
        response = ask_fetch(node, LED, ELSEWHERE, FOLLOWED, version=version)
        found, *others = response.responses[0].partitions
        assert values_in(found) == [b"value"]
        assert [data.error_code for data in others] == [OTHERS, OTHERS]
        if version >= 16:
            assert [(data.current_leader.leader_id, data.current_leader.leader_epoch) for data in others] == [
                (TWO, 3),
                (TWO, 3),
            ]
            (endpoint,) = response.node_endpoints
            assert (endpoint.node_id, endpoint.port) == (TWO, PORT_OF_TWO)

    run(tmp_path, scenario, *PARTITIONS)


def test_other_requests_for_records_are_sent_to_the_leader_and_the_metadata_shows_everything(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        wanted = [ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in range(3)]
        offsets = ask(node, ListOffsetsRequest(topics=[ListOffsetsTopic(name="topic", partitions=wanted)]), 7)
        assert [answer.error_code for answer in offsets.topics[0].partitions] == [ErrorCode.NONE, OTHERS, OTHERS]
        (topic,) = ask(node, MetadataRequest(topics=[MetadataRequestTopic(name="topic")])).topics
        shown = [(found.error_code, found.leader_id, found.replica_nodes) for found in topic.partitions]
        assert shown == [(0, 1, [1]), (0, 2, [2]), (0, 2, [2, 1])]
        (directory,) = ask(node, DescribeLogDirsRequest(topics=None)).results
        assert [found.partition_index for found in directory.topics[0].partitions] == [0, 2]

    run(tmp_path, scenario, *PARTITIONS)


# The high watermark


def test_acks_all_waits_for_the_in_sync_replicas_and_acks_1_does_not(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        partition = node.topics.partition("topic", 0)
        everywhere = begin_produce(node)
        assert not everywhere.done
        assert code_of(begin_produce(node, acks=ACKS_LEADER)) == ErrorCode.NONE
        assert (partition.high_watermark, partition.log.log_end_offset) == (0, 2)
        assert readable(node) == []
        partition.follower_fetched(TWO, 1, node.now_ms())
        assert code_of(everywhere) == ErrorCode.NONE
        assert everywhere.response.responses[0].partition_responses[0].base_offset == 0
        assert readable(node) == [b"value"]
        partition.follower_fetched(TWO, 2, node.now_ms())
        assert readable(node) == [b"value", b"value"]

    run(tmp_path, scenario, replica(0, ONE, ONE, TWO))


def test_a_parked_fetch_is_answered_when_the_follower_has_the_records(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        context = RequestContext(node, 16, "test", FakeConnection())
        parked = BY_API_KEY[1].handle(fetch_request(0, max_wait_ms=30_000), context)
        begin_produce(node, acks=ACKS_LEADER)
        assert not parked.done
        node.topics.partition("topic", 0).follower_fetched(TWO, 1, node.now_ms())
        await until(lambda: parked.done)
        assert parked.response.responses[0].partitions[0].high_watermark == 1

    run(tmp_path, scenario, replica(0, ONE, ONE, TWO))


def test_a_reader_that_is_ahead_of_the_high_watermark_waits_for_it(tmp_path: Path) -> None:
    """A new leader learns late how far its predecessor had let consumers read. No record of theirs is lost."""

    async def scenario(node: Node) -> None:
        begin_produce(node, acks=ACKS_LEADER)
        begin_produce(node, acks=ACKS_LEADER)
        assert fetched(node, 1) == (ErrorCode.NONE, 0, b"")
        assert fetched(node, 3)[0] == ErrorCode.OFFSET_OUT_OF_RANGE
        node.topics.partition("topic", 0).follower_fetched(TWO, 2, node.now_ms())
        code, high_watermark, records = fetched(node, 1)
        assert (code, high_watermark) == (ErrorCode.NONE, 2)
        assert records.endswith(b"value\x00")

    def fetched(node: Node, offset: int) -> tuple[int, int, bytes]:
        (data,) = ask_fetch(node, 0, offset=offset).responses[0].partitions
        return data.error_code, data.high_watermark, data.records

    run(tmp_path, scenario, replica(0, ONE, ONE, TWO))


def test_with_an_fsync_and_replicas_acks_all_waits_for_both(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        partition = node.topics.partition("topic", 0)
        partition.follower_fetched(TWO, 0, node.now_ms())
        answer = begin_produce(node)
        partition.follower_fetched(TWO, 1, node.now_ms())
        # The follower may be quicker than our own disk.
        assert partition.high_watermark == 0
        assert not answer.done
        await until(lambda: answer.done)
        assert code_of(answer) == ErrorCode.NONE
        assert partition.high_watermark == partition.log.recovery_point == 1
        second = begin_produce(node)
        await until(lambda: partition.log.recovery_point == 2)
        assert not second.done
        partition.follower_fetched(TWO, 2, node.now_ms())
        assert code_of(second) == ErrorCode.NONE

    run(tmp_path, scenario, replica(0, ONE, ONE, TWO), log_flush_interval_messages="1")


def test_replicas_that_do_not_confirm_in_time_are_a_timeout(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        answer = begin_produce(node, timeout_ms=10)
        await until(lambda: answer.done)
        assert code_of(answer) == ErrorCode.REQUEST_TIMED_OUT
        # Its bytes stay: the replicas may still take them.
        node.topics.partition("topic", 0).follower_fetched(TWO, 1, node.now_ms())
        assert readable(node) == [b"value"]

    run(tmp_path, scenario, replica(0, ONE, ONE, TWO))


def test_a_follower_that_leaves_the_in_sync_replicas_is_waited_for_no_more(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        answer = begin_produce(node)
        assert not answer.done
        change(node, ONE, 3, ONE)
        assert code_of(answer) == ErrorCode.NONE
        assert readable(node) == [b"value"]
        assert code_of(begin_produce(node)) == ErrorCode.NONE

    run(tmp_path, scenario, replica(0, ONE, ONE, TWO))


def test_too_few_in_sync_replicas_refuse_acks_all(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        assert code_of(begin_produce(node)) == ErrorCode.NOT_ENOUGH_REPLICAS
        assert code_of(begin_produce(node, acks=ACKS_LEADER)) == ErrorCode.NONE

    run(tmp_path, scenario, replica(0, ONE, ONE, TWO, isr=(ONE,)), min_insync_replicas="2")


def test_a_leader_that_starts_again_begins_at_the_high_watermark_that_it_knew(tmp_path: Path) -> None:
    async def write(node: Node) -> None:
        begin_produce(node, acks=ACKS_LEADER)
        begin_produce(node, acks=ACKS_LEADER)
        node.topics.partition("topic", 0).follower_fetched(TWO, 1, node.now_ms())

    async def look(node: Node) -> None:
        partition = node.topics.partition("topic", 0)
        assert (partition.high_watermark, partition.log.log_end_offset) == (1, 2)
        partition.follower_fetched(TWO, 2, node.now_ms())
        assert partition.high_watermark == 2

    run(tmp_path, write, replica(0, ONE, ONE, TWO))
    run(tmp_path, look)


# Another leader


def test_a_leader_that_is_replaced_sends_everybody_to_its_successor(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        waiting = begin_produce(node)
        context = RequestContext(node, 16, "test", FakeConnection())
        parked = BY_API_KEY[1].handle(fetch_request(0, max_wait_ms=30_000), context)
        change(node, TWO, 4, ONE, TWO)
        assert code_of(waiting) == OTHERS
        refused = waiting.response.responses[0].partition_responses[0]
        assert (refused.current_leader.leader_id, refused.current_leader.leader_epoch) == (TWO, 4)
        await until(lambda: parked.done)
        for data in (parked.response.responses[0].partitions[0], ask_fetch(node, 0).responses[0].partitions[0]):
            assert (data.error_code, data.current_leader.leader_id, data.current_leader.leader_epoch) == (
                OTHERS,
                TWO,
                4,
            )
        assert code_of(begin_produce(node)) == OTHERS
        # It leads again, in a later epoch, with what it has.
        change(node, ONE, 5, ONE)
        assert code_of(begin_produce(node)) == ErrorCode.NONE
        assert node.topics.partition("topic", 0).leader_epoch == 5
        assert readable(node) == [b"value", b"value"]

    run(tmp_path, scenario, replica(0, ONE, ONE, TWO))


# Coordinators


def key_led_by(node: Node, leader: BrokerId) -> str:
    partitions = node.image.topics[GROUP_OFFSETS_TOPIC].partitions
    return next(
        key
        for key in (f"group-{number}" for number in range(100))
        if partitions[node.groups.log.partition_for(key)].leader == leader
    )


def test_groups_are_coordinated_by_the_leader_of_their_partition(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        ask(node, FindCoordinatorRequest(key="any"), 3)
        ours, theirs = key_led_by(node, ONE), key_led_by(node, TWO)
        for group, broker, code in ((ours, ONE, ErrorCode.NONE), (theirs, TWO, ErrorCode.NOT_COORDINATOR)):
            found = ask(node, FindCoordinatorRequest(key=group), 3)
            assert (found.error_code, found.node_id) == (ErrorCode.NONE, broker)
            # Of every partition of the topic, wherever it is led.
            answer = await told(node, commit_request(group, TOPIC, {LED: 1, ELSEWHERE: 2, FOLLOWED: 3}), 9)
            assert {result.error_code for result in answer.topics[0].partitions} == {code}
        assert (await told(node, join_request(theirs), 9)).error_code == ErrorCode.NOT_COORDINATOR
        assert [group.group_id for group in ask(node, ListGroupsRequest()).groups] == [ours]

    run(tmp_path, scenario, *PARTITIONS)


def test_a_coordinator_whose_partition_gets_another_leader_gives_its_groups_up(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        ask(node, FindCoordinatorRequest(key="any"), 3)
        group = key_led_by(node, ONE)
        index = node.groups.log.partition_for(group)
        member = await told(node, join_request(group), 9)
        assert member.error_code == ErrorCode.MEMBER_ID_REQUIRED
        waiting = BY_API_KEY[11].handle(
            join_request(group, member.member_id), RequestContext(node, 9, "test", FakeConnection())
        )
        assert not waiting.done
        offsets = node.image.topics[GROUP_OFFSETS_TOPIC]
        before = offsets.partitions[index]
        # This broker has the only replica, so nobody can take over; the partition is left without a leader.
        leaderless = led_by(before, -1, 1)
        commit_changes(node, PartitionChanged(offsets.topic_id, leaderless))
        assert (waiting.done, waiting.response.error_code) == (True, ErrorCode.NOT_COORDINATOR)
        answer = await told(node, commit_request(group, TOPIC, {LED: 1}), 9)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        found = ask(node, FindCoordinatorRequest(key=group), 3)
        assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        commit_changes(node, PartitionChanged(offsets.topic_id, led_by(leaderless, ONE, 2)))
        answer = await told(node, commit_request(group, TOPIC, {LED: 1}), 9)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE

    run(tmp_path, scenario, *PARTITIONS)


def test_a_coordinator_waits_for_its_replicas_for_a_bounded_time(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        ask(node, FindCoordinatorRequest(key="any"), 3)
        answer = await told(node, commit_request(key_led_by(node, ONE), TOPIC, {LED: 1}), 9)
        # Broker 2 is in sync and never confirms. The client looks for its coordinator again.
        assert answer.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    run(tmp_path, scenario, *PARTITIONS, offsets_topic_replication_factor="2", offsets_commit_timeout_ms="10")


def test_transactions_are_coordinated_by_the_leader_of_their_partition(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        codes: dict[int, set[int]] = {}
        for number in range(20):
            key = f"id-{number}"
            found = ask(node, FindCoordinatorRequest(key=key, key_type=1), 3)
            request = InitProducerIdRequest(transactional_id=key, transaction_timeout_ms=1000)
            codes.setdefault(found.node_id, set()).add((await told(node, request, 4)).error_code)
        assert codes == {ONE: {ErrorCode.NONE}, TWO: {ErrorCode.NOT_COORDINATOR}}
        # A transaction may reach into partitions that are led elsewhere.
        ours = next(f"id-{n}" for n in range(20) if ask(node, _find(f"id-{n}"), 3).node_id == ONE)
        producer = await told(node, InitProducerIdRequest(transactional_id=ours, transaction_timeout_ms=1000), 4)
        joined = await told(
            node,
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=ours,
                v3_and_below_producer_id=producer.producer_id,
                v3_and_below_producer_epoch=producer.producer_epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name="topic", partitions=[LED, ELSEWHERE, FOLLOWED])],
            ),
            3,
        )
        results = joined.results_by_topic_v3_and_below[0].results_by_partition
        assert {result.partition_error_code for result in results} == {ErrorCode.NONE}

    run(tmp_path, scenario, *PARTITIONS, transaction_state_log_num_partitions="4")


def _find(key: str) -> FindCoordinatorRequest:
    return FindCoordinatorRequest(key=key, key_type=1)


async def told(node: Node, request: Any, version: int) -> Any:
    """The answer, when it is there."""
    answer = BY_API_KEY[request.API_KEY].handle(request, RequestContext(node, version, "test", FakeConnection()))
    node.appends.write()
    if not isinstance(answer, Deferred):
        return answer
    await until(lambda: answer.done)
    return answer.response
