"""Classic groups over the wire: rebalances by hand, Kafka's code for every mistake, and a coordinator that is killed.

Run with `--broker apache-kafka`, the same tests hold for Apache Kafka, but for those that restart a broker of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from uuid import uuid4

import pytest

from penstock.protocol.definitions.heartbeat import HeartbeatRequest
from penstock.protocol.definitions.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.protocol.definitions.sync_group import SyncGroupRequest
from penstock.protocol.error_codes import ErrorCode
from penstock.testing import Broker
from tests.conftest import BrokerStarter, RunningBroker
from tests.integration.broker.group_conversation import (
    JOIN_VERSION,
    SUBSCRIPTION,
    Member,
    commit,
    committed_offset,
    describe,
    join_request,
    known_topic,
    list_groups,
    wait_for_coordinator,
)
from tests.wire_client import WireClient

QUICK = {"group.initial.rebalance.delay.ms": "50", "group.min.session.timeout.ms": "200"}

Connect = Callable[[], WireClient]


@pytest.fixture(scope="session")
def quick_broker(start_broker: BrokerStarter) -> Iterator[RunningBroker]:
    """Its groups do not wait for more members, and its sessions may be short."""
    with start_broker(QUICK) as broker:
        with WireClient(broker.bootstrap_servers) as client:
            wait_for_coordinator(client)
        yield broker


@pytest.fixture
def connect(quick_broker: RunningBroker) -> Iterator[Connect]:
    """A member needs a connection of its own: an answer that waits would hold up the others'."""
    with ExitStack() as clients:
        yield lambda: clients.enter_context(WireClient(quick_broker.bootstrap_servers))


@pytest.fixture
def client(connect: Connect) -> WireClient:
    return connect()


@pytest.fixture
def group() -> str:
    return f"group-{uuid4().hex}"


def settled_pair(connect: Connect, group: str) -> tuple[Member, Member]:
    """A leader and a follower in one stable generation."""
    leader, follower = Member(connect(), group), Member(connect(), group)
    leader.settle()
    follower.ask_for_id()
    joining = follower.begin_join()
    while leader.heartbeat() != ErrorCode.REBALANCE_IN_PROGRESS:
        pass
    assert leader.join().leader == leader.member_id
    follower.end_join(joining)
    waiting = follower.client.send(follower.sync_request(), 5)
    assert leader.sync({leader.member_id: b"one", follower.member_id: b"two"}).assignment == b"one"
    assert follower.client.receive(14, 5, waiting).assignment == b"two"
    return leader, follower


@pytest.mark.parametrize("version", range(JOIN_VERSION + 1))
def test_every_version_joins(client: WireClient, group: str, version: int) -> None:
    answer = client.ask(join_request(group), version)
    if version >= 4:
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        answer = client.ask(join_request(group, answer.member_id), version)

    assert answer.error_code == ErrorCode.NONE
    assert (answer.generation_id, answer.protocol_name) == (1, "range")
    assert answer.leader == answer.member_id
    assert [member.metadata for member in answer.members] == [SUBSCRIPTION]
    assert answer.member_id.startswith("wire-client-")


@pytest.mark.parametrize("version", range(6))
def test_every_version_syncs_beats_and_leaves(client: WireClient, group: str, version: int) -> None:
    member = Member(client, group)
    member.join()
    answer = client.ask(member.sync_request({member.member_id: b"mine"}), version)
    assert (answer.error_code, answer.assignment) == (ErrorCode.NONE, b"mine")
    beat = HeartbeatRequest(group_id=group, generation_id=1, member_id=member.member_id)
    assert client.ask(beat, min(version, 4)).error_code == ErrorCode.NONE

    identity = MemberIdentity(member_id=member.member_id)
    request = LeaveGroupRequest(group_id=group, member_id=member.member_id, members=[identity])
    answer = client.ask(request, version)
    assert answer.error_code == ErrorCode.NONE
    assert [each.error_code for each in answer.members] == ([ErrorCode.NONE] if version >= 3 else [])
    assert describe(client, group).group_state == "Empty"


def test_members_come_and_go(connect: Connect, group: str) -> None:
    leader, follower = settled_pair(connect, group)
    described = describe(leader.client, group)
    assert (described.group_state, described.protocol_data) == ("Stable", "range")
    assert {each.member_id: each.member_assignment for each in described.members} == {
        leader.member_id: b"one",
        follower.member_id: b"two",
    }
    assert {each.client_id for each in described.members} == {"wire-client"}
    assert {each.client_host for each in described.members} == {"/127.0.0.1"}

    assert [each.error_code for each in follower.leave().members] == [ErrorCode.NONE]
    assert leader.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert describe(leader.client, group).group_state == "PreparingRebalance"
    leader.settle()
    assert leader.generation_id == 3


def test_a_silent_member_is_left_behind(connect: Connect, group: str) -> None:
    leader, silent = Member(connect(), group), Member(connect(), group)
    leader.settle()
    answer = silent.client.ask(join_request(group), JOIN_VERSION)
    silent.member_id = answer.member_id
    joining = silent.client.send(join_request(group, silent.member_id, session_timeout_ms=1500), JOIN_VERSION)
    while leader.heartbeat() != ErrorCode.REBALANCE_IN_PROGRESS:
        pass
    leader.join()
    silent.end_join(joining)
    leader.sync()

    while leader.heartbeat() != ErrorCode.REBALANCE_IN_PROGRESS:
        pass
    leader.settle()
    assert silent.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert len(describe(leader.client, group).members) == 1


def test_mistakes_of_members(client: WireClient, group: str) -> None:
    member = Member(client, group)
    member.settle()

    assert client.ask(join_request("", "m"), 9).error_code == ErrorCode.INVALID_GROUP_ID
    assert client.ask(join_request(group, "stranger"), 9).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert client.ask(join_request(f"no-{group}", "m"), 9).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    too_short = join_request(group, session_timeout_ms=1)
    assert client.ask(too_short, 9).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    for other in (
        join_request(group, protocol_type="connect"),
        join_request(group, protocols=("sticky",)),
        join_request(group, protocols=()),
    ):
        assert client.ask(other, 9).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert f"no-{group}" not in list_groups(client)

    for changed, code in (
        ({"generation_id": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_id": f"no-{group}"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group_instance_id": "nobody's"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        fields = {"group_id": group, "generation_id": 1, "member_id": member.member_id, **changed}
        assert client.ask(HeartbeatRequest(**fields), 4).error_code == code  # type: ignore[arg-type]
        sync = SyncGroupRequest(**fields, protocol_type="consumer", protocol_name="range")  # type: ignore[arg-type]
        assert client.ask(sync, 5).error_code == code
    wrong_protocol = member.sync_request()
    wrong_protocol.protocol_name = "sticky"
    assert client.ask(wrong_protocol, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    strangers = [MemberIdentity(member_id="stranger"), MemberIdentity(group_instance_id="nobody's")]
    for left in (group, f"no-{group}"):
        answer = client.ask(LeaveGroupRequest(group_id=left, members=strangers), 5)
        assert [each.error_code for each in answer.members] == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    assert client.ask(LeaveGroupRequest(group_id=group, member_id="stranger"), 2).error_code == (
        ErrorCode.UNKNOWN_MEMBER_ID
    )
    assert member.heartbeat() == ErrorCode.NONE


def test_a_static_member_comes_back_without_a_rebalance(connect: Connect, group: str) -> None:
    first = Member(connect(), group, instance_id="one")
    first.settle()

    second = Member(connect(), group, instance_id="one")
    assert second.join().generation_id == first.generation_id
    assert second.member_id != first.member_id
    assert second.sync().assignment == b"all of it"
    assert first.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
    topic = known_topic(first.client, f"topic-{uuid4().hex}")
    who = {"member_id": first.member_id, "instance_id": "one"}
    stale = commit(first.client, group, topic, {0: 1}, generation_id=first.generation_id, **who)  # type: ignore[arg-type]
    assert stale == {0: ErrorCode.FENCED_INSTANCE_ID}
    assert [each.error_code for each in first.leave().members] == [ErrorCode.FENCED_INSTANCE_ID]
    assert second.heartbeat() == ErrorCode.NONE

    removed = LeaveGroupRequest(group_id=group, members=[MemberIdentity(group_instance_id="one")])
    assert [each.error_code for each in first.client.ask(removed, 5).members] == [ErrorCode.NONE]
    assert second.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_groups_are_listed_by_state_and_type(connect: Connect, group: str) -> None:
    member = Member(connect(), group)
    member.settle()

    listed = list_groups(member.client)[group]
    assert (listed.protocol_type, listed.group_state, listed.group_type) == ("consumer", "Stable", "classic")
    assert group in list_groups(member.client, states=("stable", "Empty"), types=("Classic",))
    assert group not in list_groups(member.client, states=("Empty",))
    assert group not in list_groups(member.client, types=("consumer",))
    for version in range(4):
        assert group in list_groups(member.client, version=version)


@pytest.mark.parametrize("version", range(7))
def test_a_group_that_is_not_there_is_dead(client: WireClient, group: str, version: int) -> None:
    described = describe(client, group, version)
    code = ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE
    assert (described.group_id, described.group_state, described.error_code) == (group, "Dead", code)
    assert (described.error_message is not None) == (version >= 6)


def test_members_are_still_members_after_a_kill() -> None:
    with Broker(config=QUICK) as broker:
        with ExitStack() as clients:
            leader, follower = settled_pair(
                lambda: clients.enter_context(WireClient(broker.bootstrap_servers)), "survivors"
            )
            before = describe(leader.client, "survivors")
            topic = known_topic(leader.client, "topic")
            who = {"member_id": follower.member_id, "generation_id": follower.generation_id}
            assert commit(follower.client, "survivors", topic, {0: 5}, **who) == {0: ErrorCode.NONE}  # type: ignore[arg-type]
        broker.kill()
        broker.start()
        with WireClient(broker.bootstrap_servers) as client:
            leader.client = follower.client = client
            assert leader.heartbeat() == ErrorCode.NONE
            assert follower.heartbeat() == ErrorCode.NONE
            assert describe(client, "survivors") == before
            assert committed_offset(client, "survivors", topic) == 5
            assert follower.sync().assignment == b"two"
            follower.leave()
            assert leader.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
            leader.settle()
            assert leader.generation_id == 3
            leader.leave()
        broker.kill()
        broker.start()
        with WireClient(broker.bootstrap_servers) as client:
            assert describe(client, "survivors").group_state == "Empty"
