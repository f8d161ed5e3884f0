"""Groups of the newer protocol (KIP-848) over the wire: the broker assigns, members follow, and epochs fence.

Run with `--broker apache-kafka`, the same tests hold for Apache Kafka, but for those that restart a broker of ours.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from uuid import uuid4

import pytest

from penstock.protocol.definitions.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from penstock.protocol.error_codes import ErrorCode
from penstock.testing import Broker
from tests.conftest import RunningBroker
from tests.integration.broker.conversation import Topic, delete_topic
from tests.integration.broker.group_conversation import (
    ConsumerMember,
    Member,
    commit,
    commit_ok,
    committed,
    committed_offset,
    delete_group,
    delete_offsets,
    describe,
    fetch_offsets_request,
    join_request,
    known_topic,
    list_groups,
    wait_for_coordinator,
)
from tests.wire_client import WireClient


@pytest.fixture
def client(broker_under_test: RunningBroker) -> Iterator[WireClient]:
    with WireClient(broker_under_test.bootstrap_servers) as client:
        wait_for_coordinator(client)
        yield client


@pytest.fixture
def group() -> str:
    return f"group-{uuid4().hex}"


@pytest.fixture
def topic(client: WireClient) -> Topic:
    return known_topic(client, f"topic-{uuid4().hex}", partitions=4)


def member_of(client: WireClient, group: str, *topics: Topic, instance_id: str | None = None) -> ConsumerMember:
    names = tuple(topic.name for topic in topics)
    return ConsumerMember(client, group, names, f"member-{uuid4().hex}", instance_id=instance_id)


def settle(*members: ConsumerMember) -> None:
    """Heartbeats of all until they are at one epoch and share the four partitions evenly.

    Apache Kafka takes its time to assign, so a quiet group need not be a settled one.
    """
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        epochs = {member.beat().member_epoch for member in members}
        if len(epochs) == 1 and {len(member.owned) for member in members} == {4 // len(members)}:
            return
        time.sleep(0.01)
    raise AssertionError("the members do not come to rest")


def described(client: WireClient, group: str) -> DescribedGroup:
    (answer,) = client.ask(ConsumerGroupDescribeRequest(group_ids=[group]), 1).groups
    result: DescribedGroup = answer
    return result


def test_partitions_are_shared_and_handed_on(client: WireClient, group: str, topic: Topic) -> None:
    one, two = member_of(client, group, topic), member_of(client, group, topic)
    answer = one.beat()
    assert answer.member_id == one.member_id
    assert answer.member_epoch > 0
    settle(one)
    assert one.owned == {(topic.topic_id, index) for index in range(4)}

    two.beat()
    assert two.owned == frozenset(), "the other has not given anything up yet"
    settle(one, two)
    assert not one.owned & two.owned

    answer = two.leave()
    assert (answer.error_code, answer.member_epoch) == (ErrorCode.NONE, -1)
    settle(one)


def test_a_group_is_described_and_listed(client: WireClient, group: str, topic: Topic) -> None:
    member = member_of(client, group, topic, instance_id="instance")
    settle(member)

    answer = described(client, group)
    assert (answer.group_state, answer.assignor_name, answer.error_code) == ("Stable", "uniform", ErrorCode.NONE)
    assert answer.group_epoch == answer.assignment_epoch == member.member_epoch
    (only,) = answer.members
    assert (only.member_id, only.instance_id, only.member_epoch) == (member.member_id, "instance", member.member_epoch)
    assert (only.client_id, only.client_host, only.member_type) == ("wire-client", "/127.0.0.1", 1)
    assert only.subscribed_topic_names == [topic.name]
    (assigned,) = only.assignment.topic_partitions
    assert (assigned.topic_name, sorted(assigned.partitions)) == (topic.name, [0, 1, 2, 3])
    assert only.target_assignment == only.assignment

    listed = list_groups(client, types=("CONSUMER",), states=("stable",))[group]
    assert (listed.group_type, listed.protocol_type, listed.group_state) == ("consumer", "consumer", "Stable")
    assert group not in list_groups(client, types=("classic",))
    assert describe(client, group).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert described(client, f"no-{group}").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_mistakes_of_members(client: WireClient, group: str, topic: Topic) -> None:
    member = member_of(client, group, topic)
    settle(member)
    epoch = member.member_epoch

    for changed, code in (
        ({"member_epoch": epoch + 1}, ErrorCode.FENCED_MEMBER_EPOCH),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"group_id": f"no-{group}"}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"server_assignor": "no-such"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"member_id": "new", "member_epoch": 0, "topic_partitions": None}, ErrorCode.INVALID_REQUEST),
        ({"member_id": "new", "member_epoch": 0, "rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"member_id": "stranger", "member_epoch": -1}, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        answer = member.ask(**changed)
        assert (changed, ErrorCode(answer.error_code)) == (changed, code)
        assert answer.error_message
    assert f"no-{group}" not in list_groups(client)
    assert member.beat().member_epoch == epoch


def test_an_instance_id_has_one_owner(client: WireClient, group: str, topic: Topic) -> None:
    first = member_of(client, group, topic, instance_id="one")
    settle(first)
    second = member_of(client, group, topic, instance_id="one")
    assert second.ask().error_code == ErrorCode.UNRELEASED_INSTANCE_ID

    assert first.ask(member_epoch=-2).error_code == ErrorCode.NONE
    settle(second)
    assert second.owned == first.owned
    assert first.ask().error_code == ErrorCode.FENCED_INSTANCE_ID


def test_commits_are_fenced_by_epoch(client: WireClient, group: str, topic: Topic) -> None:
    member = member_of(client, group, topic)
    settle(member)
    who = {"member_id": member.member_id, "generation_id": member.member_epoch}

    for version in (9, 10):
        commit_ok(client, group, topic, {0: version}, version=version, **who)
        found = committed(
            client, group, topic, version=version, member_id=member.member_id, member_epoch=member.member_epoch
        )
        assert found[0].committed_offset == version
    late = commit(client, group, topic, {0: 99}, member_id=member.member_id, generation_id=member.member_epoch + 1)
    assert late == {0: ErrorCode.STALE_MEMBER_EPOCH}
    stranger = commit(client, group, topic, {0: 99}, member_id="stranger", generation_id=1)
    assert stranger == {0: ErrorCode.UNKNOWN_MEMBER_ID}
    old = commit(client, group, topic, {0: 99}, version=8, **who)
    assert old == {0: ErrorCode.UNSUPPORTED_VERSION}
    assert committed_offset(client, group, topic) == 10

    for member_id, member_epoch, code in (
        (member.member_id, member.member_epoch + 1, ErrorCode.STALE_MEMBER_EPOCH),
        ("stranger", 1, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        request = fetch_offsets_request(group, topic, version=9, member_id=member_id, member_epoch=member_epoch)
        assert client.ask(request, 9).groups[0].error_code == code

    assert delete_offsets(client, group, topic, 0) == (ErrorCode.NONE, {0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC})
    assert delete_group(client, group) == ErrorCode.NON_EMPTY_GROUP
    member.leave()
    assert delete_group(client, group) == ErrorCode.NONE
    assert committed_offset(client, group, topic) == -1


def test_an_empty_group_changes_its_kind_and_keeps_its_offsets(client: WireClient, group: str, topic: Topic) -> None:
    commit_ok(client, group, topic, {0: 5})
    newer = member_of(client, group, topic)
    settle(newer)
    assert list_groups(client)[group].group_type == "consumer"
    assert client.ask(join_request(group, protocol_type="connect"), 9).error_code == (
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )
    newer.leave()

    classic = Member(client, group)
    classic.settle()
    assert list_groups(client)[group].group_type == "classic"
    assert committed_offset(client, group, topic) == 5
    assert newer.ask(member_epoch=5).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    classic.leave()

    settle(member_of(client, group, topic))
    assert list_groups(client)[group].group_type == "consumer"
    assert committed_offset(client, group, topic) == 5


def test_topics_that_come_grow_and_go_change_the_assignment(client: WireClient, group: str, topic: Topic) -> None:
    later = f"later-{uuid4().hex}"
    member = ConsumerMember(client, group, (topic.name, later), "member")
    settle(member)

    new = known_topic(client, later, partitions=2)
    while (new.topic_id, 1) not in member.owned:
        member.beat()
    delete_topic(client, topic.name)
    while any(topic_id == topic.topic_id for topic_id, _ in member.owned):
        member.beat()
    assert member.owned == {(new.topic_id, 0), (new.topic_id, 1)}


def test_members_and_their_partitions_survive_a_kill() -> None:
    with Broker() as broker:
        with ExitStack() as clients:
            client = clients.enter_context(WireClient(broker.bootstrap_servers))
            topic = known_topic(client, "topic", partitions=4)
            one, two = member_of(client, "survivors", topic), member_of(client, "survivors", topic, instance_id="two")
            settle(one, two)
            before = described(client, "survivors")
            commit_ok(client, "survivors", topic, {0: 3}, member_id=one.member_id, generation_id=one.member_epoch)
        broker.kill()
        broker.start()
        with WireClient(broker.bootstrap_servers) as client:
            one.client = two.client = client
            assert described(client, "survivors") == before
            assert one.beat().member_epoch == two.beat().member_epoch == before.group_epoch
            assert committed_offset(client, "survivors", topic) == 3
            two.leave()
            settle(one)
            one.leave()
        broker.kill()
        broker.start()
        with WireClient(broker.bootstrap_servers) as client:
            assert described(client, "survivors").group_state == "Empty"
            assert delete_group(client, "survivors") == ErrorCode.NONE
        broker.kill()
        broker.start()
        with WireClient(broker.bootstrap_servers) as client:
            assert list_groups(client) == {}
