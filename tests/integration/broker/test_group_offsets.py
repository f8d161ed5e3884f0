"""Committed offsets over the wire: every version, every refusal, and a broker that is killed in between.

Run with `--broker apache-kafka`, the same tests hold for Apache Kafka, but for those that restart a broker of ours, and
for the offsets of a deleted topic, which Kafka forgets a moment later.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from penstock.protocol.definitions.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from penstock.protocol.error_codes import ErrorCode
from penstock.testing import Broker
from tests.conftest import RunningBroker
from tests.integration.broker.conversation import Topic, create_topic, delete_topic
from tests.integration.broker.group_conversation import (
    NOTHING_COMMITTED,
    Member,
    commit,
    commit_ok,
    commit_request,
    committed,
    committed_offset,
    delete_group,
    delete_offsets,
    describe,
    fetch_offsets_request,
    known_topic,
    list_groups,
    subscription,
    wait_for_coordinator,
)
from tests.wire_client import WireClient

NO_SUCH_TOPIC = Topic("no-such-topic", b"n" * 16)


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
    return known_topic(client, f"topic-{uuid4().hex}", partitions=3)


@pytest.mark.parametrize("version", range(2, 11))
def test_every_version_commits(client: WireClient, group: str, topic: Topic, version: int) -> None:
    commit_ok(client, group, topic, {0: 5, 2: 7}, version=version)

    found = committed(client, group, topic, (0, 1, 2))
    assert [found[index].committed_offset for index in range(3)] == [5, NOTHING_COMMITTED, 7]
    assert [found[index].metadata for index in range(3)] == ["note", "", "note"]
    leader_epoch = 3 if version >= 6 else -1
    assert [found[index].committed_leader_epoch for index in range(3)] == [leader_epoch, -1, leader_epoch]


@pytest.mark.parametrize("version", range(1, 11))
def test_every_version_fetches(client: WireClient, group: str, topic: Topic, version: int) -> None:
    commit_ok(client, group, topic, {0: 5, 2: 7})

    found = committed(client, group, topic, (0, 1), version=version)
    assert {index: each.committed_offset for index, each in found.items()} == {0: 5, 1: NOTHING_COMMITTED}
    assert {each.error_code for each in found.values()} == {ErrorCode.NONE}
    if version >= 2:
        everything = committed(client, group, None, version=version)
        assert {index: each.committed_offset for index, each in everything.items()} == {0: 5, 2: 7}


@pytest.mark.parametrize("version", range(1, 11))
def test_an_unknown_group_has_committed_nothing_and_that_is_no_error(
    client: WireClient, group: str, topic: Topic, version: int
) -> None:
    found = committed(client, group, topic, (0, 1), version=version)
    assert {(each.committed_offset, each.error_code) for each in found.values()} == {(-1, ErrorCode.NONE)}
    if version >= 2:
        assert committed(client, group, None, version=version) == {}
    assert group not in list_groups(client)


def test_several_groups_are_fetched_at_once(client: WireClient, topic: Topic) -> None:
    groups = [f"group-{uuid4().hex}" for _ in range(5)]
    for number, group in enumerate(groups):
        commit_ok(client, group, topic, {0: number})

    wanted = [OffsetFetchRequestTopics(name=topic.name, partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=wanted) for group in groups])
    answers = client.ask(request, 9).groups
    assert [answer.group_id for answer in answers] == groups
    assert [answer.topics[0].partitions[0].committed_offset for answer in answers] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("version", "code"), [(9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (10, ErrorCode.UNKNOWN_TOPIC_ID)]
)
def test_an_unknown_topic_is_refused_by_itself(
    client: WireClient, group: str, topic: Topic, version: int, code: ErrorCode
) -> None:
    assert commit(client, group, NO_SUCH_TOPIC, {0: 1}, version=version) == {0: code}
    assert commit(client, group, topic, {0: 1, 3: 1}, version=version) == {
        0: ErrorCode.NONE,
        3: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_a_fetch_by_an_unknown_topic_id_says_so(client: WireClient, group: str) -> None:
    found = committed(client, group, NO_SUCH_TOPIC, (0,), version=10)
    assert (found[0].error_code, found[0].committed_offset) == (ErrorCode.UNKNOWN_TOPIC_ID, NOTHING_COMMITTED)


def test_metadata_that_is_too_long_is_refused_and_the_rest_committed(
    client: WireClient, group: str, topic: Topic
) -> None:
    request = commit_request(group, topic, {0: 1, 1: 1})
    request.topics[0].partitions[1].committed_metadata = "x" * 4097

    (answer,) = client.ask(request, 9).topics
    assert [each.error_code for each in answer.partitions] == [ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert committed_offset(client, group, topic, 0) == 1
    assert committed_offset(client, group, topic, 1) == NOTHING_COMMITTED


@pytest.mark.parametrize(("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_generation_of_a_group_that_is_not_there(
    client: WireClient, group: str, topic: Topic, version: int, code: ErrorCode
) -> None:
    assert commit(client, group, topic, {0: 1}, version=version, member_id="m", generation_id=1) == {0: code}


def test_only_members_of_the_generation_commit_while_there_are_any(
    client: WireClient, group: str, topic: Topic
) -> None:
    member = Member(client, group)
    member.settle()

    who: dict[str, Any] = {"member_id": member.member_id, "generation_id": member.generation_id}
    commit_ok(client, group, topic, {0: 4}, **who)
    for changed, code in (
        ({"generation_id": member.generation_id - 1}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "somebody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "", "generation_id": -1}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"instance_id": "nobody's"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        assert commit(client, group, topic, {0: 9}, **(who | changed)) == {0: code}
    assert committed_offset(client, group, topic) == 4

    member.leave()
    commit_ok(client, group, topic, {0: 9})


def test_a_group_that_was_only_committed_to_is_listed_described_and_deleted(
    client: WireClient, group: str, topic: Topic
) -> None:
    commit_ok(client, group, topic, {0: 1})

    listed = list_groups(client)[group]
    assert (listed.group_state, listed.protocol_type, listed.group_type) == ("Empty", "", "classic")
    assert describe(client, group).group_state == "Empty"
    assert delete_group(client, group) == ErrorCode.NONE
    assert committed_offset(client, group, topic) == NOTHING_COMMITTED
    assert delete_group(client, group) == ErrorCode.GROUP_ID_NOT_FOUND
    assert group not in list_groups(client)


@pytest.mark.parametrize("version", range(3))
def test_a_group_with_members_is_not_deleted(client: WireClient, group: str, version: int) -> None:
    member = Member(client, group)
    member.settle()
    assert delete_group(client, group, version) == ErrorCode.NON_EMPTY_GROUP
    member.leave()
    assert delete_group(client, group, version) == ErrorCode.NONE


def test_offsets_are_deleted_unless_the_group_reads_the_topic(client: WireClient, group: str, topic: Topic) -> None:
    other = known_topic(client, f"topic-{uuid4().hex}")
    commit_ok(client, group, topic, {0: 1, 1: 2})
    commit_ok(client, group, other, {0: 3})

    assert delete_offsets(client, "no-such-group", topic, 0)[0] == ErrorCode.GROUP_ID_NOT_FOUND
    codes = {1: ErrorCode.NONE, 2: ErrorCode.NONE, 9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert delete_offsets(client, group, topic, 1, 2, 9) == (ErrorCode.NONE, codes)
    assert committed_offset(client, group, topic, 0) == 1
    assert committed_offset(client, group, topic, 1) == NOTHING_COMMITTED

    member = Member(client, group, metadata=subscription(topic.name))
    member.settle()
    assert delete_offsets(client, group, topic, 0) == (ErrorCode.NONE, {0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC})
    assert delete_offsets(client, group, other, 0) == (ErrorCode.NONE, {0: ErrorCode.NONE})
    assert committed_offset(client, group, topic, 0) == 1
    assert committed_offset(client, group, other, 0) == NOTHING_COMMITTED


def test_a_commit_and_a_fetch_in_one_breath(client: WireClient, group: str, topic: Topic) -> None:
    sent = [client.send(commit_request(group, topic, {0: number}), 9) for number in range(20)]
    fetch = client.send(fetch_offsets_request(group, topic, version=9), 9)
    for correlation_id in sent:
        client.receive(8, 9, correlation_id)
    answer = client.receive(9, 9, fetch)
    assert answer.groups[0].topics[0].partitions[0].committed_offset == 19


def test_a_deleted_topic_takes_its_offsets_along(client: WireClient, group: str) -> None:
    name = f"topic-{uuid4().hex}"
    topic = known_topic(client, name)
    commit_ok(client, group, topic, {0: 5})
    delete_topic(client, name)

    again = known_topic(client, name)
    assert committed_offset(client, group, again) == NOTHING_COMMITTED


@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize("flush", ["1", "9223372036854775807"])
def test_commits_are_there_after_a_restart(end: str, flush: str) -> None:
    with Broker(config={"log.flush.interval.messages": flush}) as broker:
        with WireClient(broker.bootstrap_servers) as client:
            topic = create_topic(client, "kept", partitions=2)
            gone = create_topic(client, "gone")
            for number in range(30):
                commit_ok(client, f"group-{number}", topic, {0: number, 1: 100 + number})
                commit_ok(client, f"group-{number}", gone, {0: number})
            commit_ok(client, "group-3", topic, {0: 77})
            assert delete_group(client, "group-4") == ErrorCode.NONE
        getattr(broker, end)()
        broker.start()
        with WireClient(broker.bootstrap_servers) as client:
            # Before any group was looked at: what nobody has loaded yet must be forgotten all the same.
            delete_topic(client, "gone")
            gone = create_topic(client, "gone")
            found = [committed_offset(client, f"group-{number}", topic) for number in range(30)]
            assert found == [{3: 77, 4: NOTHING_COMMITTED}.get(number, number) for number in range(30)]
            assert committed_offset(client, "group-29", topic, 1) == 129
            assert {committed_offset(client, f"group-{number}", gone) for number in range(30)} == {NOTHING_COMMITTED}
            assert len(list_groups(client)) == 29


def test_offsets_expire_and_groups_without_any_are_forgotten() -> None:
    """A retention time of the client's own counts in milliseconds, and so lets a test see it."""
    with (
        Broker(config={"offsets.retention.check.interval.ms": "50"}) as broker,
        WireClient(broker.bootstrap_servers) as client,
    ):
        topic = create_topic(client, "kept")
        commit_ok(client, "stays", topic, {0: 1})
        request = commit_request("goes", topic, {0: 1})
        request.retention_time_ms = 100
        client.ask(request, 4)
        assert set(list_groups(client)) == {"stays", "goes"}

        while "goes" in list_groups(client):
            pass
        assert committed_offset(client, "goes", topic) == NOTHING_COMMITTED
        assert committed_offset(client, "stays", topic) == 1


def test_a_client_may_ask_for_the_longest_retention_there_is() -> None:
    with Broker() as broker:
        with WireClient(broker.bootstrap_servers) as client:
            topic = create_topic(client, "kept")
            request = commit_request("for-ever", topic, {0: 7})
            request.retention_time_ms = 2**63 - 1
            (answered,) = client.ask(request, 4).topics
            assert answered.partitions[0].error_code == ErrorCode.NONE
            assert committed_offset(client, "for-ever", topic) == 7
        broker.kill()
        broker.start()
        with WireClient(broker.bootstrap_servers) as client:
            assert committed_offset(client, "for-ever", topic) == 7
