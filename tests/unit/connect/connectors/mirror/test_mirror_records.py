"""Bytes of MirrorMaker 2's records; `tests/connect_differential/mirror` compares them with its own classes."""

from __future__ import annotations

import pytest

from penstock.connect.connectors.mirror.records import Checkpoint, Heartbeat, MalformedRecord, OffsetSync
from penstock.core.ids import TopicPartition


def test_an_offset_sync_has_no_version() -> None:
    sync = OffsetSync(TopicPartition("ab", 3), 5, 7)
    assert sync.encode() == (b"\0\2ab\0\0\0\3", b"\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0\7")
    assert OffsetSync.decode(*sync.encode()) == sync


def test_a_checkpoint_begins_with_its_version_and_ends_with_the_metadata_of_the_commit() -> None:
    checkpoint = Checkpoint("g", TopicPartition("a.t", 1), 2**40, 9, "né")
    key, value = checkpoint.encode()
    assert key == b"\0\1g\0\3a.t\0\0\0\1"
    assert value == b"\0\0" + (2**40).to_bytes(8) + b"\0\0\0\0\0\0\0\x09\0\3n\xc3\xa9"
    assert Checkpoint.decode(key, value) == checkpoint


def test_a_heartbeat_has_both_aliases_as_its_key() -> None:
    heartbeat = Heartbeat("a", "bc", 1)
    assert heartbeat.encode() == (b"\0\1a\0\2bc", b"\0\0\0\0\0\0\0\0\0\1")
    assert Heartbeat.decode(*heartbeat.encode()) == heartbeat


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (b"\0\1a\0\1b", b"\0\1\0\0\0\0\0\0\0\1", "version 1 is unknown"),
        (b"\0\1a\0\5b", b"\0\0\0\0\0\0\0\0\0\1", "too short"),
        (b"\xff\xffa", b"", "too short"),
        (b"\0\1\xff\0\1b", b"\0\0\0\0\0\0\0\0\0\1", "not UTF-8"),
    ],
)
def test_other_bytes_are_refused(key: bytes, value: bytes, why: str) -> None:
    with pytest.raises(MalformedRecord, match=why):
        Heartbeat.decode(key, value)
