"""Whatever is wanted from one fetch to the next, request and session name exactly that."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.fetch_session import FetchPosition, FetchSessionCache, PartitionKey
from penstock.broker.replication.fetch_session_client import FetchSessionClient
from penstock.core.ids import TopicIdPartition
from penstock.protocol.definitions.fetch import FetchPartition, FetchRequest, FetchResponse, ReplicaState

A, B = TopicIdPartition(b"a" * 16, 0), TopicIdPartition(b"b" * 16, 3)
Wanted = dict[TopicIdPartition, FetchPartition]


def at(offset: int, key: TopicIdPartition = A) -> FetchPartition:
    return FetchPartition(partition=key.partition, fetch_offset=offset, partition_max_bytes=100)


def ask(session: FetchSessionClient, wanted: Wanted) -> FetchRequest:
    return session.request(
        wanted, ReplicaState(replica_id=2, replica_epoch=7), max_wait_ms=500, min_bytes=1, max_bytes=1000
    )


def named(request: FetchRequest) -> dict[TopicIdPartition, int]:
    return {
        TopicIdPartition(topic.topic_id, partition.partition): partition.fetch_offset
        for topic in request.topics
        for partition in topic.partitions
    }


def test_only_what_changed_is_sent_again() -> None:
    session = FetchSessionClient()
    first, other = at(0), at(5, B)
    request = ask(session, {A: first, B: other})
    assert (request.session_id, request.session_epoch, named(request)) == (0, 0, {A: 0, B: 5})
    session.answered(FetchResponse(session_id=9))
    assert session.is_incremental
    request = ask(session, {A: at(1), B: other})
    assert (request.session_id, request.session_epoch, named(request)) == (9, 1, {A: 1})
    session.answered(FetchResponse(session_id=9))
    request = ask(session, {B: other})
    assert (request.session_epoch, named(request)) == (2, {})
    assert [(topic.topic_id, topic.partitions) for topic in request.forgotten_topics_data] == [(A.topic_id, [0])]


def test_without_a_session_everything_is_named_every_time() -> None:
    session = FetchSessionClient()
    wanted = {A: at(0)}
    for _ in range(2):
        request = ask(session, wanted)
        assert (request.session_id, request.session_epoch, named(request)) == (0, 0, {A: 0})
        session.answered(FetchResponse(session_id=0))


def test_a_failed_fetch_begins_a_new_session() -> None:
    session = FetchSessionClient()
    wanted = {A: at(0)}
    ask(session, wanted)
    session.answered(FetchResponse(session_id=9))
    session.reset()
    assert not session.is_incremental
    request = ask(session, wanted)
    assert (request.session_id, request.session_epoch, named(request)) == (0, 0, {A: 0})


@given(
    st.lists(
        st.tuples(st.dictionaries(st.sampled_from([A, B]), st.integers(0, 3), min_size=1), st.sampled_from("arl")),
        max_size=12,
    )
)
def test_the_leader_serves_what_is_wanted(history: list[tuple[dict[TopicIdPartition, int], str]]) -> None:
    """Against the leader's own sessions. A request may be answered, refused, or lost on the way to the leader."""
    numbers = iter(range(1, 100))
    sessions = FetchSessionCache(10, 1000, lambda: next(numbers))
    client = FetchSessionClient()
    known: dict[tuple[TopicIdPartition, int], FetchPartition] = {}
    for offsets, fate in history:
        wanted = {key: known.setdefault((key, offset), at(offset, key)) for key, offset in offsets.items()}
        request = ask(client, wanted)
        if fate == "l":
            client.reset()
            continue
        changed = [
            FetchPosition(PartitionKey(key.topic_id, key.partition), offset, 100, -1, -1)
            for key, offset in named(request).items()
        ]
        if request.session_epoch:
            session = sessions.resume(request.session_id, request.session_epoch, True, 0)
            forgotten = [
                PartitionKey(topic.topic_id, index)
                for topic in request.forgotten_topics_data
                for index in topic.partitions
            ]
            sessions.update(session, changed, forgotten)
        else:
            made = sessions.create(True, changed, 0)
            assert made is not None
            session = made
        assert {(each.key.topic, each.key.partition): each.fetch_offset for each in session} == offsets
        if fate == "a":
            client.answered(FetchResponse(session_id=session.session_id))
        else:
            client.reset()
