"""The offset at which each partition is read first: a start as a person writes it, resolved by asking the broker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from penstock.cli.command_error import CommandError
from penstock.cli.start_position import Absolute, AtTime, Beginning, End, Start, Tail
from penstock.client.admin import unknown_topic
from penstock.client.errors import from_kafka_error
from penstock.core.errors import UnknownTopic
from penstock.core.exit_codes import ExitCode

_TIMEOUT_S: Final = 10.0


def partitions_of(consumer: Any, topic: str, chosen: Sequence[int] | None) -> list[int]:
    """All partitions of the topic, or the chosen ones if it has them. Never creates the topic."""
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
                f"partition {partition} of topic '{topic}' does not exist; it has {len(available)}, counted from 0"
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
                asked = [TopicPartition(topic, partition, timestamp_ms) for partition in partitions]
                answers = consumer.offsets_for_times(asked, timeout=_TIMEOUT_S)
                # Where no record is as late as that, the answer is the end.
                return [TopicPartition(topic, answer.partition, answer.offset) for answer in answers]
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
                    "choose among them, or another partition with -p",
                    ExitCode.NOT_FOUND,
                )
    return TopicPartition(topic, partition, offset)
