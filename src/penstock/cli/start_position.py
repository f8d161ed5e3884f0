"""Where `penstock consume` starts and stops: kcat's `-o`, parsed, and resolved to an offset for each partition.

Invariant: resolving never creates a topic, and an offset outside the log is an error, not a reset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.cli.command_error import CommandError, usage_error
from penstock.client.admin import unknown_topic
from penstock.client.errors import from_kafka_error
from penstock.core.errors import UnknownTopic
from penstock.core.exit_codes import ExitCode

_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Beginning:
    """The earliest offset."""


@dataclass(frozen=True, slots=True)
class End:
    """The end of the log: only records that arrive after the command has started."""


@dataclass(frozen=True, slots=True)
class Absolute:
    offset: int


@dataclass(frozen=True, slots=True)
class Tail:
    """The last `count` records of each partition."""

    count: int


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record with this timestamp or a later one."""

    timestamp_ms: int


Start = Beginning | End | Absolute | Tail | AtTime


@dataclass(frozen=True, slots=True)
class Range:
    start: Start
    stop_timestamp_ms: int | None = None
    """Stops before records with this timestamp or a later one (`e@`)."""


def parse_range(words: Sequence[str], *, from_beginning: bool) -> Range:
    """Without a start in `words`: the end of the log, as in kafka-console-consumer.sh, or `from_beginning`."""
    start: Start | None = Beginning() if from_beginning else None
    stop = None
    for word in words:
        if word.startswith("e@"):
            stop = _number(word[2:], word)
            continue
        if start is not None:
            raise usage_error(
                f"-o {word}: a start is given already" + (" (--from-beginning)" if from_beginning else "")
            )
        start = _start(word)
    return Range(start if start is not None else End(), stop)


def _start(word: str) -> Start:
    if word in ("beginning", "earliest"):
        return Beginning()
    if word in ("end", "latest"):
        return End()
    if word.startswith("s@"):
        return AtTime(_number(word[2:], word))
    if word.startswith("-"):
        return Tail(_number(word[1:], word))
    return Absolute(_number(word, word))


def _number(digits: str, word: str) -> int:
    if not (digits.isascii() and digits.isdecimal()) or int(digits) >= 1 << 63:
        raise usage_error(
            f"-o {word}: expected beginning, end, OFFSET, -N, s@TIMESTAMP or e@TIMESTAMP (milliseconds since 1970)"
        )
    return int(digits)


def partitions_of(consumer: Any, topic: str, chosen: Sequence[int] | None) -> list[int]:
    """The chosen partitions, all of which must exist, or all partitions of the topic."""
    from confluent_kafka import KafkaException

    try:
        topics = consumer.list_topics(timeout=_TIMEOUT_S).topics
    except KafkaException as failure:
        raise from_kafka_error(failure.args[0], f"topic '{topic}'") from failure
    if topic not in topics:
        raise unknown_topic(topic, topics)
    available = sorted(topics[topic].partitions)
    for partition in chosen or ():
        if partition not in available:
            raise UnknownTopic(
                f"partition {partition} of topic '{topic}' does not exist; "
                f"the topic has {len(available)}, numbered from 0"
            )
    return sorted(set(chosen)) if chosen else available


def start_offsets(consumer: Any, topic: str, partitions: Sequence[int], start: Start) -> list[Any]:
    """One confluent_kafka.TopicPartition for each partition, with its offset."""
    from confluent_kafka import OFFSET_BEGINNING, KafkaException, TopicPartition

    try:
        match start:
            case Beginning():
                return [TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions]
            case AtTime(timestamp_ms):
                requested = [TopicPartition(topic, partition, timestamp_ms) for partition in partitions]
                found = consumer.offsets_for_times(requested, timeout=_TIMEOUT_S)
                # For a partition whose records are all older, librdkafka returns the end.
                return [TopicPartition(topic, each.partition, each.offset) for each in found]
            case Absolute() | Tail() | End():
                return [_resolved(consumer, topic, partition, start) for partition in partitions]
    except KafkaException as failure:
        raise from_kafka_error(failure.args[0], f"the offsets of topic '{topic}'") from failure


def _resolved(consumer: Any, topic: str, partition: int, start: Absolute | Tail | End) -> Any:
    from confluent_kafka import TopicPartition

    earliest, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_TIMEOUT_S, cached=False)
    match start:
        case End():
            offset = end
        case Tail(count):
            offset = max(earliest, end - count)
        case Absolute(offset):
            if not earliest <= offset <= end:
                raise CommandError(
                    f"-o {offset}: partition {partition} of topic '{topic}' has offsets {earliest} to {end}; "
                    "choose one of these, or another partition with -p",
                    ExitCode.NOT_FOUND,
                )
    return TopicPartition(topic, partition, offset)
