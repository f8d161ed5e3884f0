"""Records of the coordinators' topics: Kafka's format, and round trips."""

from __future__ import annotations

import pytest

from penstock.coordinator.classic_messages import GroupSnapshot, MemberProtocol, MemberSnapshot
from penstock.coordinator.consumer_group_changes import (
    ClassicProtocols,
    ConsumerGroupChange,
    CurrentAssignment,
    CurrentAssignmentChanged,
    GroupEpoch,
    GroupEpochChanged,
    MemberMetadata,
    MemberMetadataChanged,
    MemberState,
    TargetAssignmentChanged,
    TargetEpoch,
    TargetEpochChanged,
)
from penstock.coordinator.placement import java_string_hash, partition_of
from penstock.coordinator.records.classic_group_records import read_snapshot, snapshot_record, snapshot_tombstone
from penstock.coordinator.records.codec import kind_number
from penstock.coordinator.records.consumer_group_records import CONSUMER_GROUP_KINDS, change_record, read_change
from penstock.coordinator.records.offset_commit import OFFSET_COMMIT, OffsetCommitKey, OffsetCommitValue
from penstock.core.errors import ProtocolError
from penstock.core.ids import TopicIdPartition

ORDERS, BILLS = b"o" * 16, b"b" * 16


@pytest.mark.parametrize(
    ("text", "hashed"),
    [
        ("", 0),
        ("group", 98629247),
        ("negative-group-hash", -1541455820),
        ("polygenelubricants", -(2**31)),  # the one number whose absolute value is none
        ("\U0001f600", 1772899),  # one character, two UTF-16 units
    ],
)
def test_strings_hash_as_in_java(text: str, hashed: int) -> None:
    assert java_string_hash(text) == hashed


def test_a_group_belongs_to_the_partition_that_kafka_gives_it() -> None:
    assert partition_of("group", 50) == 98629247 % 50
    assert partition_of("negative-group-hash", 50) == 1541455820 % 50
    assert partition_of("polygenelubricants", 50) == 0


def test_an_offset_is_written_in_kafkas_bytes() -> None:
    record = OFFSET_COMMIT.record(
        OffsetCommitKey(group="g", topic="t", partition=2),
        OffsetCommitValue(offset=5, leader_epoch=1, metadata="m", commit_timestamp=9),
        version=3,
    )
    assert record.key == bytes.fromhex("000100016700017400000002")
    assert record.value == bytes.fromhex("000300000000000000050000000100016d0000000000000009")
    tagged = OFFSET_COMMIT.record(
        OffsetCommitKey(group="g", topic="t", partition=2),
        OffsetCommitValue(offset=5, leader_epoch=1, metadata="m", commit_timestamp=9, topic_id=ORDERS),
    )
    assert tagged.value == (bytes.fromhex("0004000000000000000500000001026d0000000000000009010010") + ORDERS)


@pytest.mark.parametrize("version", range(5))
def test_offsets_are_read_in_every_version(version: int) -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=2)
    value = OffsetCommitValue(
        offset=5,
        leader_epoch=1 if version >= 3 else -1,
        metadata="m",
        commit_timestamp=9,
        expire_timestamp=11 if version == 1 else -1,
        topic_id=ORDERS if version >= 4 else bytes(16),
    )
    record = OFFSET_COMMIT.record(key, value, version)
    assert record.value is not None
    assert OFFSET_COMMIT.read_key(record.key) == key
    assert OFFSET_COMMIT.read_value(record.value) == value


def test_versions_and_keys_from_elsewhere_are_not_guessed_at() -> None:
    with pytest.raises(ProtocolError):
        OFFSET_COMMIT.read_value(b"\0\x09rest")
    with pytest.raises(ProtocolError):
        OFFSET_COMMIT.read_value(b"\0")
    with pytest.raises(ProtocolError):
        kind_number(b"")
    with pytest.raises(ProtocolError):
        read_change(b"\0\x0a\0\1g", None)


def test_a_classic_group_comes_back() -> None:
    snapshot = GroupSnapshot(
        group_id="g",
        protocol_type="consumer",
        generation_id=4,
        protocol_name="range",
        leader_id="one",
        state_timestamp_ms=123,
        members=(
            MemberSnapshot("one", None, "client", "/127.0.0.1", 300_000, 45_000, b"subscription", b"assignment"),
            MemberSnapshot("two", "instance", "client", "/127.0.0.1", 300_000, 45_000, b"", b""),
        ),
    )
    record = snapshot_record(snapshot)
    assert kind_number(record.key) == 2
    assert read_snapshot(record.key, record.value) == ("g", snapshot)
    assert read_snapshot(*snapshot_tombstone("g")) == ("g", None)
    assert snapshot_tombstone("g").key == record.key


CHANGES: list[ConsumerGroupChange] = [
    GroupEpochChanged(GroupEpoch(3, -12345)),
    MemberMetadataChanged("m", MemberMetadata("m")),
    MemberMetadataChanged(
        "m", MemberMetadata("m", "instance", "rack", "client", "/host", ("a", "b"), "a.*", 5_000, "range")
    ),
    TargetEpochChanged(TargetEpoch(3, 999)),
    TargetAssignmentChanged("m", frozenset()),
    TargetAssignmentChanged("m", frozenset({TopicIdPartition(ORDERS, 0), TopicIdPartition(BILLS, 7)})),
    CurrentAssignmentChanged("m", CurrentAssignment()),
    CurrentAssignmentChanged(
        "m",
        CurrentAssignment(
            5,
            4,
            MemberState.UNREVOKED_PARTITIONS,
            {TopicIdPartition(ORDERS, 0): 2, TopicIdPartition(ORDERS, 1): 5},
            {TopicIdPartition(BILLS, 7): 3},
        ),
    ),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: type(change).__name__)
def test_changes_of_a_group_of_the_newer_protocol_come_back(change: ConsumerGroupChange) -> None:
    record = change_record("g", change)
    assert kind_number(record.key) in CONSUMER_GROUP_KINDS
    assert read_change(record.key, record.value) == ("g", change)


def test_tombstones_have_the_keys_of_what_they_forget() -> None:
    for change, forgotten in (
        (GroupEpochChanged(GroupEpoch(1, 1)), GroupEpochChanged(None)),
        (TargetEpochChanged(TargetEpoch(1, 1)), TargetEpochChanged(None)),
        (MemberMetadataChanged("m", MemberMetadata("m")), MemberMetadataChanged("m", None)),
        (TargetAssignmentChanged("m", frozenset()), TargetAssignmentChanged("m", None)),
        (CurrentAssignmentChanged("m", CurrentAssignment()), CurrentAssignmentChanged("m", None)),
    ):
        record = change_record("g", forgotten)
        assert record == (change_record("g", change).key, None)
        assert read_change(*record) == ("g", forgotten)


def test_a_member_state_that_does_not_exist_is_refused() -> None:
    record = change_record("g", CurrentAssignmentChanged("m", CurrentAssignment()))
    assert record.value is not None
    damaged = bytearray(record.value)
    damaged[10] = 9
    with pytest.raises(ProtocolError):
        read_change(record.key, bytes(damaged))


def test_a_classic_member_of_a_group_of_the_newer_protocol_is_written_in_kafkas_bytes() -> None:
    """A tagged, nullable struct: its tag and size, a byte that says that it is there, and its fields.

    Kafka takes a record without the tag for one of a classic member without protocols: null has to be written.
    """
    classic = ClassicProtocols(6000, (MemberProtocol("range", b"ab"),))
    change = MemberMetadataChanged("member", MemberMetadata("member", classic=classic))
    record = change_record("group", change)
    protocols = b"\x02" + b"\x06range" + b"\x03ab" + b"\x00"
    content = b"\x01" + (6000).to_bytes(4, "big") + protocols + b"\x00"
    assert record.value is not None
    assert record.value.endswith(b"\x01" + b"\x00" + bytes([len(content)]) + content)
    assert read_change(record.key, record.value) == ("group", change)
    newer = change_record("group", MemberMetadataChanged("member", MemberMetadata("member")))
    assert newer.value is not None
    assert newer.value.endswith(b"\x01" + b"\x00" + b"\x01" + b"\x00")
    # As this broker wrote it before there were classic members in such groups.
    untagged = newer.value[:-4] + b"\x00"
    assert read_change(newer.key, untagged) == ("group", MemberMetadataChanged("member", MemberMetadata("member")))
