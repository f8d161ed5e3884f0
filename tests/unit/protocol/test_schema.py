"""Messages in memory: constructors, defaults, equality."""

from __future__ import annotations

import pytest

from penstock.protocol.definitions.fetch import FetchRequest, PartitionData
from penstock.protocol.definitions.fetch_snapshot import ResponsePartitionSnapshot as PartitionSnapshot
from penstock.protocol.definitions.join_group import JoinGroupResponse
from penstock.protocol.definitions.metadata import MetadataRequest
from penstock.protocol.definitions.produce import ProduceRequest, ProduceResponse, TopicProduceData
from penstock.protocol.schema import INT32, STRING, Message, Struct, array_of, wire


class Part(Struct):
    number: int = wire(INT32, default=-1)


class Whole(Message, versions=(2, 4), flexible_since=3):
    title: str = wire(STRING)
    part: Part = wire(Part)
    parts: list[Part] = array_of(Part, since=3)


def test_every_field_has_a_default_of_its_own() -> None:
    first, second = Whole(), Whole()
    assert (first.title, first.part.number, first.parts) == ("", -1, [])
    first.parts.append(Part())
    first.part.number = 7
    assert second.parts == []
    assert second.part.number == -1


def test_equality_is_by_value_and_type() -> None:
    assert Whole(title="a", parts=[Part(number=1)]) == Whole(title="a", parts=[Part(number=1)])
    assert Whole(title="a") != Whole(title="b")
    assert Part() != Whole()


def test_a_message_tells_what_it_holds() -> None:
    assert repr(Whole(title="a")) == "Whole(title='a', part=Part(number=-1), parts=[])"


def test_there_are_no_other_attributes() -> None:
    with pytest.raises(AttributeError):
        Whole().titel = "a"  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        Whole(titel="a")  # type: ignore[call-arg]


def test_messages_cannot_be_hashed_because_they_change() -> None:
    with pytest.raises(TypeError):
        hash(Whole())


def test_defaults_of_the_protocol() -> None:
    assert FetchRequest().max_bytes == 2**31 - 1
    assert FetchRequest().replica_id == -1
    assert TopicProduceData().topic_id == bytes(16)
    assert ProduceRequest().transactional_id is None
    assert ProduceResponse().node_endpoints == []
    assert PartitionData().current_leader is None
    assert PartitionData().records is None
    assert PartitionSnapshot().unaligned_records == b""
    assert MetadataRequest().allow_auto_topic_creation is True


def test_a_field_that_was_not_always_nullable_does_not_default_to_null() -> None:
    """A response is filled in once for all versions, so its defaults must be writable in the oldest one."""
    assert JoinGroupResponse().protocol_name == ""
    assert MetadataRequest().topics == []
