"""Where `penstock group reset-offsets` moves a group to: the words of kafka-consumer-groups.sh, read and carried out.

Owns the reading of the scenario options and of its CSV, and the new offset of each partition. What is asked of the
broker is `client/admin.py`; how the answer is shown is `group_layout.py`.

Invariant: a new offset lies between the first one that is kept and the end.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from penstock.cli.command_error import usage_error
from penstock.client.admin import Admin, unknown_topic
from penstock.core.errors import UnknownTopic
from penstock.core.ids import TopicPartition

_DURATION: Final = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?", re.ASCII
)
_UNIT_MS: Final = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}


@dataclass(frozen=True, slots=True)
class ToEdge:
    edge: Literal["earliest", "latest"]


@dataclass(frozen=True, slots=True)
class ToCurrent:
    """Where the group is, as far as that is still there."""


@dataclass(frozen=True, slots=True)
class ToOffset:
    offset: int


@dataclass(frozen=True, slots=True)
class ShiftBy:
    records: int


@dataclass(frozen=True, slots=True)
class ToTimestamp:
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class FromPlan:
    """What `--export` wrote."""

    offsets: Mapping[TopicPartition, int]


Scenario = ToEdge | ToCurrent | ToOffset | ShiftBy | ToTimestamp | FromPlan


def parse_datetime(text: str) -> int:
    """Milliseconds since 1970; a time without a zone is UTC, as Kafka's tool has it."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise usage_error(f"--to-datetime {text}: expected YYYY-MM-DDTHH:MM:SS.sss") from None
    return round((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def before_now(duration: str) -> ToTimestamp:
    return ToTimestamp(round(time.time() * 1000) - parse_duration_ms(duration))


def parse_duration_ms(text: str) -> int:
    """`P1DT2H30M`: a day, two hours and a half."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        raise usage_error(f"--by-duration {text}: expected PnDTnHnMnS, as in P7D or PT1H30M")
    return round(sum(float(amount) * _UNIT_MS[unit] for unit, amount in match.groupdict().items() if amount))


def parse_topic_choice(text: str) -> tuple[str, list[int] | None]:
    """`orders`, or `orders:0,2` for some of its partitions."""
    topic, colon, numbers = text.partition(":")
    if not topic:
        raise usage_error(f"--topic {text}: expected TOPIC or TOPIC:0,1,2")
    if not colon:
        return topic, None
    try:
        return topic, [int(number) for number in numbers.split(",")]
    except ValueError:
        raise usage_error(f"--topic {text}: expected TOPIC or TOPIC:0,1,2") from None


def parse_plan(text: str, place: str) -> FromPlan:
    """Lines of topic,partition,offset, each field with or without quotes."""
    import csv

    offsets: dict[TopicPartition, int] = {}
    for number, row in enumerate(csv.reader(text.splitlines()), start=1):
        if not row:
            continue
        try:
            topic, partition, offset = row
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise usage_error(f"--from-file {place} line {number}: expected topic,partition,offset") from None
    if not offsets:
        raise usage_error(f"--from-file {place}: no offsets in it")
    return FromPlan(offsets)


def chosen_partitions(admin: Admin, choices: Sequence[tuple[str, list[int] | None]]) -> list[TopicPartition]:
    """The partitions that `--topic` names; each has to exist."""
    known = admin.list_topics()
    chosen: list[TopicPartition] = []
    for topic, numbers in choices:
        if topic not in known:
            raise unknown_topic(topic, known)
        count = len(admin.describe_topic(topic).partitions)
        for number in range(count) if numbers is None else numbers:
            if not 0 <= number < count:
                raise UnknownTopic(f"{TopicPartition(topic, number)} does not exist: it has 0 to {count - 1}")
            chosen.append(TopicPartition(topic, number))
    return sorted(set(chosen))


def new_offsets(
    admin: Admin,
    scenario: Scenario,
    partitions: Sequence[TopicPartition],
    current: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """`current` is where the group is."""
    earliest = admin.offsets(partitions, "earliest")
    latest = admin.offsets(partitions, "latest")
    for partition in partitions:
        if partition not in latest:
            raise UnknownTopic(f"{partition} does not exist")
    match scenario:
        case ToEdge(edge):
            wanted = dict(earliest if edge == "earliest" else latest)
        case ToCurrent():
            wanted = {each: current.get(each, latest[each]) for each in partitions}
        case ToOffset(offset):
            wanted = dict.fromkeys(partitions, offset)
        case ShiftBy(records):
            lacking = next((each for each in partitions if each not in current), None)
            if lacking is not None:
                raise usage_error(f"--shift-by: the group has no offset of {lacking} to shift")
            wanted = {each: current[each] + records for each in partitions}
        case ToTimestamp(timestamp_ms):
            wanted = admin.offsets(partitions, timestamp_ms)
        case FromPlan(offsets):
            wanted = {each: offsets[each] for each in partitions}
    return {each: min(max(wanted[each], earliest[each]), latest[each]) for each in partitions}
