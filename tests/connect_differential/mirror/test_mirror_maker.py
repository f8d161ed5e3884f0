"""Record formats and names of topics, equal to those of MirrorMaker 2's own classes on random values."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.connect.connectors.mirror.records import Checkpoint, Heartbeat, OffsetSync
from penstock.connect.connectors.mirror.replication_policy import POLICIES
from penstock.core.ids import TopicPartition
from penstock.testing.java import JavaMissingError
from tests.conftest import optional_part_missing
from tests.connect_differential.mirror.mirror_maker import ask, mirror_jars

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1200)]

COUNT = 200
ALPHABET = "abc.-_é€𝄞 09"
PARTS = ("a", "b", "heartbeats", "internal", "checkpoints", "mm2-offset-syncs", "orders", "__x", "", "mm2")


def text(choice: random.Random) -> str:
    return "".join(choice.choices(ALPHABET, k=choice.randint(0, 12)))


def number(choice: random.Random, bits: int = 63) -> int:
    return choice.getrandbits(choice.randint(0, bits))


@pytest.fixture(autouse=True, scope="module")
def _jars() -> None:
    try:
        mirror_jars()
    except JavaMissingError as missing:
        optional_part_missing(str(missing))


def test_records_are_equal_and_each_side_reads_those_of_the_other(tmp_path: Path) -> None:
    choice = random.Random(20)
    records: list[tuple[str, OffsetSync | Checkpoint | Heartbeat, list[object]]] = []
    for _ in range(COUNT):
        topic, index = text(choice), number(choice, 31)
        upstream, downstream, group, metadata = number(choice), number(choice), text(choice), text(choice)
        partition = TopicPartition(topic, index)
        records += [
            ("sync", OffsetSync(partition, upstream, downstream), [topic, index, upstream, downstream]),
            (
                "checkpoint",
                Checkpoint(group, partition, upstream, downstream, metadata),
                [group, topic, index, upstream, downstream, metadata],
            ),
            ("heartbeat", Heartbeat(group, topic, upstream), [group, topic, upstream]),
        ]
    encode: list[Sequence[object]] = [(f"encode {kind}", *fields) for kind, _record, fields in records]
    decode = [(f"decode {kind}", *(each.hex() for each in record.encode())) for kind, record, _fields in records]
    answers = ask([*encode, *decode], tmp_path)
    assert len(answers) == 2 * len(records)
    for (_kind, record, fields), theirs, read in zip(
        records, answers[: len(records)], answers[len(records) :], strict=True
    ):
        assert [each.hex() for each in record.encode()] == theirs
        assert type(record).decode(bytes.fromhex(theirs[0]), bytes.fromhex(theirs[1])) == record
        assert read == [str(field) for field in fields]


def test_names_are_equal(tmp_path: Path) -> None:
    choice = random.Random(21)
    requests = []
    for _ in range(COUNT * 3):
        separator = choice.choice((".", "-", "__"))
        topic = separator.join(choice.choices(PARTS, k=choice.randint(1, 4))) or "t"
        if choice.random() < 0.2:
            topic = ".".join(choice.choices(PARTS, k=choice.randint(1, 4))) or "t"
        flag = choice.choice(("true", "false"))
        requests.append(("names", choice.choice(sorted(POLICIES)), "a", separator, flag, topic))
    for request, theirs in zip(requests, ask(requests, tmp_path), strict=True):
        _names, policy_class, alias, separator, flag, topic = request
        policy = POLICIES[policy_class](alias, separator, flag == "true")
        ours = [
            policy.remote_topic(alias, topic),
            _java(policy.topic_source(topic)),
            _java(policy.upstream_topic(topic)),
            str(policy.is_internal_topic(topic)).lower(),
            str(policy.is_heartbeats_topic(topic)).lower(),
            policy.offset_syncs_topic(alias),
            policy.checkpoints_topic(alias),
        ]
        assert ours == theirs, request


def _java(text: str | None) -> str:
    return "null" if text is None else text
