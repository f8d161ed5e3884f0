"""Committed offsets: fetch, pending transactions, expiration, replay."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.coordinator.offsets import CommittedOffset, ExpiryRule, Offsets
from penstock.coordinator.records.codec import CoordinatorRecord
from penstock.coordinator.records.offset_commit import OFFSET_COMMIT
from penstock.core.ids import TopicPartition

ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)
BILLS_0 = TopicPartition("bills", 0)
HOUR_MS = 3_600_000


def at(offset: int, *, commit_ms: int = 1_000, expire_ms: int = -1, topic_id: bytes = b"i" * 16) -> CommittedOffset:
    leader_epoch, topic_id = (-1, bytes(16)) if expire_ms >= 0 else (7, topic_id)
    return CommittedOffset(offset, leader_epoch, f"at {offset}", commit_ms, topic_id, expire_ms)


def replayed(records: Sequence[CoordinatorRecord]) -> Offsets:
    offsets = Offsets()
    for record in records:
        value = None if record.value is None else OFFSET_COMMIT.read_value(record.value)
        offsets.replay(OFFSET_COMMIT.read_key(record.key), value, None)
    return offsets


def test_a_fetch_finds_the_last_commit_of_its_own_group_only() -> None:
    offsets = Offsets()
    offsets.commit("g", ORDERS_0, at(1))
    offsets.commit("g", ORDERS_0, at(2))
    offsets.commit("other", ORDERS_0, at(9))

    assert offsets.fetch("g", ORDERS_0) == at(2)
    assert offsets.fetch("g", ORDERS_1) is None
    assert offsets.fetch("nobody", ORDERS_0) is None
    assert offsets.fetch_all("g") == {ORDERS_0: at(2)}
    assert offsets.groups() == {"g", "other"}


def test_records_bring_back_what_was_committed() -> None:
    offsets = Offsets()
    records = [
        offsets.commit("g", ORDERS_0, at(1)),
        offsets.commit("g", BILLS_0, at(3, expire_ms=5_000)),
        offsets.commit("g", ORDERS_0, at(2)),
        offsets.commit("g", ORDERS_1, at(4)),
        *offsets.delete("g", [ORDERS_1]),
    ]

    assert (
        replayed(records).fetch_all("g") == offsets.fetch_all("g") == {ORDERS_0: at(2), BILLS_0: at(3, expire_ms=5000)}
    )


def test_a_transactions_offsets_count_from_its_commit_on() -> None:
    offsets = Offsets()
    offsets.commit("g", ORDERS_0, at(1))
    offsets.commit_in_transaction(5, "g", ORDERS_0, at(2))

    assert offsets.fetch("g", ORDERS_0) == at(1)
    assert offsets.is_unstable("g", ORDERS_0)
    assert not offsets.is_unstable("g", ORDERS_1)

    offsets.end_transaction(5, committed=True)
    assert offsets.fetch("g", ORDERS_0) == at(2)
    assert not offsets.is_unstable("g", ORDERS_0)


def test_an_aborted_transaction_leaves_no_trace() -> None:
    offsets = Offsets()
    offsets.commit_in_transaction(5, "g", ORDERS_0, at(2))
    assert offsets.knows("g")

    offsets.end_transaction(5, committed=False)
    assert not offsets.knows("g")
    assert offsets.fetch("g", ORDERS_0) is None


def test_a_commit_after_a_transactions_own_is_not_undone_by_its_marker() -> None:
    offsets = Offsets()
    offsets.commit_in_transaction(5, "g", ORDERS_0, at(2))
    offsets.commit("g", ORDERS_0, at(7))
    offsets.end_transaction(5, committed=True)

    assert offsets.fetch("g", ORDERS_0) == at(7)


def test_the_end_of_one_transaction_leaves_the_others_open() -> None:
    offsets = Offsets()
    offsets.commit_in_transaction(5, "g", ORDERS_0, at(2))
    offsets.commit_in_transaction(6, "g", ORDERS_0, at(3))
    offsets.end_transaction(5, committed=True)
    offsets.end_transaction(99, committed=True)

    assert offsets.fetch("g", ORDERS_0) == at(2)
    assert offsets.is_unstable("g", ORDERS_0)


def test_deleting_a_group_forgets_its_open_transactions_too() -> None:
    offsets = Offsets()
    offsets.commit("g", ORDERS_0, at(1))
    offsets.commit_in_transaction(5, "g", ORDERS_0, at(2))
    offsets.commit_in_transaction(5, "g", BILLS_0, at(2))
    offsets.commit("other", ORDERS_0, at(9))

    records = offsets.delete_group("g")
    assert [OFFSET_COMMIT.read_key(record.key).topic for record in records] == ["orders", "bills"]
    assert all(record.value is None for record in records)
    offsets.end_transaction(5, committed=True)
    assert offsets.groups() == {"other"}


def test_deleting_what_is_not_there_writes_nothing() -> None:
    offsets = Offsets()
    assert offsets.delete("g", [ORDERS_0]) == []
    assert offsets.delete_group("g") == []


def test_offsets_of_a_deleted_topic_are_forgotten_those_of_its_successor_stay() -> None:
    offsets = Offsets()
    offsets.commit("g", ORDERS_0, at(1, topic_id=b"a" * 16))
    offsets.commit("h", ORDERS_0, at(1, topic_id=b"b" * 16))
    offsets.commit_in_transaction(5, "g", ORDERS_1, at(1, topic_id=b"a" * 16))

    records = offsets.delete_where(lambda topic, topic_id: topic == "orders" and topic_id == b"a" * 16)
    assert len(records) == 2
    assert offsets.groups() == {"h"}


def test_offsets_age_from_their_commit() -> None:
    offsets = Offsets()
    offsets.commit("g", ORDERS_0, at(1, commit_ms=0))
    offsets.commit("g", ORDERS_1, at(1, commit_ms=10))

    records = offsets.expire("g", ExpiryRule(), now_ms=HOUR_MS, retention_ms=HOUR_MS)
    assert [OFFSET_COMMIT.read_key(record.key).partition for record in records] == [0]
    assert offsets.fetch_all("g") == {ORDERS_1: at(1, commit_ms=10)}


def test_offsets_of_an_empty_group_age_from_the_moment_its_last_member_left() -> None:
    offsets = Offsets()
    offsets.commit("g", ORDERS_0, at(1, commit_ms=0))

    assert offsets.expire("g", ExpiryRule(empty_since_ms=500), now_ms=HOUR_MS, retention_ms=HOUR_MS) == []
    assert len(offsets.expire("g", ExpiryRule(empty_since_ms=500), now_ms=HOUR_MS + 500, retention_ms=HOUR_MS)) == 1


def test_subscribed_topics_keep_their_offsets() -> None:
    offsets = Offsets()
    offsets.commit("g", ORDERS_0, at(1, commit_ms=0))
    offsets.commit("g", BILLS_0, at(1, commit_ms=0))

    rule = ExpiryRule(is_subscribed=lambda topic: topic == "orders")
    offsets.expire("g", rule, now_ms=HOUR_MS, retention_ms=HOUR_MS)
    assert set(offsets.fetch_all("g")) == {ORDERS_0}


def test_a_retention_that_the_client_named_goes_before_the_brokers() -> None:
    offsets = Offsets()
    offsets.commit("g", ORDERS_0, at(1, commit_ms=0, expire_ms=2_000))

    assert offsets.expire("g", ExpiryRule(), now_ms=1_999, retention_ms=1) == []
    assert len(offsets.expire("g", ExpiryRule(), now_ms=2_000, retention_ms=HOUR_MS)) == 1


def test_what_an_open_transaction_is_about_to_renew_does_not_expire() -> None:
    offsets = Offsets()
    offsets.commit("g", ORDERS_0, at(1, commit_ms=0))
    offsets.commit_in_transaction(5, "g", ORDERS_0, at(2, commit_ms=HOUR_MS))

    assert offsets.expire("g", ExpiryRule(), now_ms=HOUR_MS, retention_ms=HOUR_MS) == []
