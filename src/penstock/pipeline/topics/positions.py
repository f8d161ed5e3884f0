"""What to read: which partitions, from where, and until where, as the options say it.

Owns the meaning of assign, subscribe and subscribePattern, and of the starting and ending options with their order of
preference: a timestamp for all, timestamps for each partition, offsets. It must never ask a broker;
`resolution.py` does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.core.ids import TopicPartition
from penstock.pipeline.topics.errors import InvalidOption
from penstock.pipeline.topics.offsets import Offsets
from penstock.pipeline.topics.option_values import OptionValues

LATEST: Final = -1
EARLIEST: Final = -2
"""How startingOffsets and endingOffsets spell the two ends of a partition, as Kafka's protocol does."""

SELECTION_NAMES: Final = ("assign", "subscribe", "subscribePattern")


@dataclass(frozen=True, slots=True)
class Assign:
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Subscribe:
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SubscribePattern:
    pattern: re.Pattern[str]


Selection = Assign | Subscribe | SubscribePattern


@dataclass(frozen=True, slots=True)
class Earliest:
    pass


@dataclass(frozen=True, slots=True)
class Latest:
    pass


@dataclass(frozen=True, slots=True)
class AtOffsets:
    offsets: Offsets


@dataclass(frozen=True, slots=True)
class AtTimestamps:
    """The first record of each partition that is not older."""

    timestamps_ms: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    timestamp_ms: int


Position = Earliest | Latest | AtOffsets | AtTimestamps | AtTimestamp


def read_selection(values: OptionValues) -> Selection:
    given = [name for name in SELECTION_NAMES if name in values]
    if not given:
        hint = f" (to read topic {values.text('topic')}, set subscribe to it)" if "topic" in values else ""
        raise InvalidOption(f"one of these options must be set: {', '.join(SELECTION_NAMES)}{hint}")
    if len(given) > 1:
        raise InvalidOption(
            f"only one of these options can be set: {', '.join(SELECTION_NAMES)}; got {', '.join(given)}"
        )
    value = values.text(given[0]) or ""
    if given[0] == "assign":
        return _assigned(values, value)
    if given[0] == "subscribe":
        topics = tuple(dict.fromkeys(name for part in value.split(",") if (name := part.strip())))
        if not topics:
            raise InvalidOption(f"subscribe: no topics to subscribe to in {value!r}")
        return Subscribe(topics)
    if not value:
        raise InvalidOption("subscribePattern: the pattern is empty")
    try:
        return SubscribePattern(re.compile(value))
    except re.error as error:
        raise InvalidOption(f"subscribePattern: {value!r} is not a regular expression of Python's: {error}") from None


def _assigned(values: OptionValues, text: str) -> Assign:
    example = '{"topicA":[0,1],"topicB":[2]}'
    if not text.startswith("{"):
        raise InvalidOption(f"assign: no partitions to assign in {text!r}; expected e.g. {example}")
    topics = values.json_object("assign", example) or {}
    if not all(isinstance(numbers, list) and all(_is_natural(n) for n in numbers) for numbers in topics.values()):
        raise InvalidOption(f"assign: expected e.g. {example}, got {text}")
    partitions = frozenset(TopicPartition(topic, number) for topic, numbers in topics.items() for number in numbers)
    if not partitions:
        raise InvalidOption(f"assign: no partitions to assign in {text!r}")
    return Assign(partitions)


def read_position(values: OptionValues, prefix: str, default: Position) -> Position:
    """`prefix` is "starting" or "ending"."""
    timestamp = values.text(f"{prefix}Timestamp")
    if timestamp is not None:
        try:
            return AtTimestamp(int(timestamp))
        except ValueError:
            raise InvalidOption(
                f"{prefix}Timestamp: expected one whole number of milliseconds, got {timestamp}"
            ) from None
    name = f"{prefix}OffsetsByTimestamp"
    if name in values:
        return AtTimestamps(_per_partition(values, name, '{"topicA":{"0":1700000000000}}', at_least=0))
    name = f"{prefix}Offsets"
    word = values.text(name)
    if word is None:
        return default
    if word.lower() == "latest":
        return Latest()
    if word.lower() == "earliest":
        return Earliest()
    return AtOffsets(_per_partition(values, name, '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}', at_least=EARLIEST))


def _per_partition(values: OptionValues, name: str, example: str, *, at_least: int) -> dict[TopicPartition, int]:
    numbers: dict[TopicPartition, int] = {}
    wrong = InvalidOption(f"{name}: expected e.g. {example}, got {values.text(name)}")
    for topic, partitions in (values.json_object(name, example) or {}).items():
        if not isinstance(partitions, dict):
            raise wrong
        for partition, number in partitions.items():
            if not (partition.isdecimal() and isinstance(number, int) and number >= at_least) or number is True:
                raise wrong
            numbers[TopicPartition(topic, int(partition))] = number
    return numbers


def check_batch_positions(starting: Position, ending: Position) -> None:
    """What a batch cannot be: begin at the end, end at the beginning, or end before it begins."""
    if isinstance(starting, Latest):
        raise InvalidOption("startingOffsets: the starting offset can't be latest for batch queries")
    if isinstance(ending, Earliest):
        raise InvalidOption("endingOffsets: the ending offset can't be earliest for batch queries")
    if isinstance(starting, AtOffsets):
        for partition, offset in starting.offsets.items():
            if offset == LATEST:
                raise InvalidOption(f"startingOffsets: {partition} can't be latest (-1) for batch queries")
    if isinstance(ending, AtOffsets):
        for partition, offset in ending.offsets.items():
            if offset == EARLIEST:
                raise InvalidOption(f"endingOffsets: {partition} can't be earliest (-2) for batch queries")
    if isinstance(starting, AtOffsets) and isinstance(ending, AtOffsets):
        _check_order(starting.offsets, ending.offsets, "Offsets")
    if isinstance(starting, AtTimestamps) and isinstance(ending, AtTimestamps):
        _check_order(starting.timestamps_ms, ending.timestamps_ms, "OffsetsByTimestamp")


def _check_order(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], suffix: str) -> None:
    if start.keys() != end.keys():
        only_one = ", ".join(str(partition) for partition in sorted(start.keys() ^ end.keys()))
        raise InvalidOption(
            f"starting{suffix} and ending{suffix} must name the same partitions; only one has {only_one}"
        )
    for partition, first in start.items():
        if first > end[partition] >= 0:
            raise InvalidOption(
                f"starting{suffix} of {partition} is {first}, behind its ending{suffix} {end[partition]}"
            )


def _is_natural(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
