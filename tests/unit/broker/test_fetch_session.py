"""Fetch sessions: epochs in step, positions remembered, a bounded cache."""

from __future__ import annotations

from itertools import count

import pytest

from penstock.broker.fetch_session import FetchPosition, FetchSessionCache, PartitionKey
from penstock.broker.replication.follower_fetch import ReplicaPosition
from penstock.protocol.definitions.fetch import FetchPartition
from penstock.protocol.error_codes import BrokerError, ErrorCode


def position(partition: int, offset: int = 0, topic: str = "t") -> FetchPosition:
    return FetchPosition(PartitionKey(topic, partition), offset, 1 << 20, -1, -1)


def cache(slots: int = 2) -> FetchSessionCache:
    ids = count(1)
    return FetchSessionCache(slots, 1000, lambda: next(ids))


def code_of(sessions: FetchSessionCache, session_id: int, epoch: int, uses_topic_ids: bool = False) -> ErrorCode:
    with pytest.raises(BrokerError) as refusal:
        sessions.resume(session_id, epoch, uses_topic_ids, 0)
    return refusal.value.code


def test_a_session_goes_on_epoch_by_epoch() -> None:
    sessions = cache()
    session = sessions.create(False, [position(0), position(1)], 0)
    assert session is not None
    for epoch in (1, 2, 3):
        assert sessions.resume(session.session_id, epoch, False, 0) is session
    assert code_of(sessions, session.session_id, 3) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert code_of(sessions, session.session_id, 5) == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_the_epoch_wraps_to_one() -> None:
    sessions = cache()
    session = sessions.create(False, [position(0)], 0)
    assert session is not None
    session.next_epoch = (1 << 31) - 1
    sessions.resume(session.session_id, (1 << 31) - 1, False, 0)
    assert session.next_epoch == 1


def test_an_unknown_or_dropped_session_is_not_found() -> None:
    sessions = cache()
    assert code_of(sessions, 77, 1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    session = sessions.create(False, [position(0)], 0)
    assert session is not None
    sessions.drop(session.session_id)
    assert code_of(sessions, session.session_id, 1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_names_and_ids_do_not_mix() -> None:
    sessions = cache()
    session = sessions.create(True, [position(0)], 0)
    assert session is not None
    assert code_of(sessions, session.session_id, 1) == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_changes_and_forgotten_partitions() -> None:
    sessions = cache()
    session = sessions.create(False, [position(0), position(1)], 0)
    assert session is not None
    session.update([position(1, offset=50), position(2)], [PartitionKey("t", 0), PartitionKey("t", 9)])
    assert [(p.key.partition, p.fetch_offset) for p in session] == [(1, 50), (2, 0)]


def test_a_served_partition_goes_to_the_end() -> None:
    sessions = cache()
    session = sessions.create(False, [position(0), position(1), position(2)], 0)
    assert session is not None
    session.serve_last(PartitionKey("t", 0))
    session.serve_last(PartitionKey("t", 99))
    assert [p.key.partition for p in session] == [1, 2, 0]


def test_a_full_cache_evicts_only_what_is_old() -> None:
    sessions = cache(slots=2)
    first = sessions.create(False, [position(0)], now_ms=0)
    second = sessions.create(False, [position(0)], now_ms=0)
    assert first is not None
    assert second is not None
    assert sessions.create(False, [position(0)], now_ms=999) is None
    sessions.resume(first.session_id, 1, False, now_ms=900)
    third = sessions.create(False, [position(0)], now_ms=1000)
    assert third is not None
    assert len(sessions) == 2
    assert code_of(sessions, second.session_id, 1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.resume(first.session_id, 2, False, now_ms=1000) is first


def test_no_partitions_need_no_session() -> None:
    assert cache().create(False, [], 0) is None


def test_a_follower_that_dropped_an_answer_is_told_its_high_watermark_again() -> None:
    """Its leader epoch had changed while the answer was on its way: it knows the high watermark that it asks with."""
    key = PartitionKey(b"topic", 0)
    position = ReplicaPosition(key, FetchPartition(fetch_offset=5, high_watermark=3))
    position.told_high_watermark = 5
    position.take(ReplicaPosition(key, FetchPartition(fetch_offset=5, current_leader_epoch=1, high_watermark=3)))
    assert position.told_high_watermark == 3
