"""The new offsets of `penstock group reset-offsets`, for the scenarios of kafka-consumer-groups.sh.

Owns the parsing of scenarios and of the CSV file, and the new offset of each partition. `client/admin.py` makes the
requests; `group_layout.py` formats the output.

Invariant: a new offset is clamped to the range from the earliest offset to the end of the log.
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
    """The group's current offset, clamped to the log."""


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
    """Offsets from a file that `--export` wrote."""

    offsets: Mapping[TopicPartition, int]


Scenario = ToEdge | ToCurrent | ToOffset | ShiftBy | ToTimestamp | FromPlan


def parse_datetime(text: str) -> int:
    """Milliseconds since 1970; a time without a zone is UTC, as in Kafka's tool."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise usage_error(f"--to-datetime {text}: expected YYYY-MM-DDTHH:MM:SS.sss") from None
    return round((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def before_now(duration: str) -> ToTimestamp:
    return ToTimestamp(round(time.time() * 1000) - parse_duration_ms(duration))


def parse_duration_ms(text: str) -> int:
    """`P1DT2H30M`: one day, two hours and thirty minutes."""
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
        raise usage_error(f"--from-file {place}: the file contains no offsets")
    return FromPlan(offsets)


def chosen_partitions(admin: Admin, choices: Sequence[tuple[str, list[int] | None]]) -> list[TopicPartition]:
    """The partitions that `--topic` names, all of which must exist."""
    known = admin.list_topics()
    chosen: list[TopicPartition] = []
    for topic, numbers in choices:
        if topic not in known:
            raise unknown_topic(topic, known)
        count = len(admin.describe_topic(topic).partitions)
        for number in range(count) if numbers is None else numbers:
            if not 0 <= number < count:
                raise UnknownTopic(
                    f"{TopicPartition(topic, number)} does not exist; topic '{topic}' has partitions 0 to {count - 1}"
                )
            chosen.append(TopicPartition(topic, number))
    return sorted(set(chosen))


def new_offsets(
    admin: Admin,
    scenario: Scenario,
    partitions: Sequence[TopicPartition],
    current: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """`current` holds the group's committed offsets."""
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
                raise usage_error(f"--shift-by: the group has no committed offset for {lacking}")
            wanted = {each: current[each] + records for each in partitions}
        case ToTimestamp(timestamp_ms):
            wanted = admin.offsets(partitions, timestamp_ms)
        case FromPlan(offsets):
            wanted = {each: offsets[each] for each in partitions}
    return {each: min(max(wanted[each], earliest[each]), latest[each]) for each in partitions}
