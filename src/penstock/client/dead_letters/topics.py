"""Reads dead-letter topics: which topics are some, and the letters of one.

Owns the consumer for that. It joins no group and commits nothing; it reads committed records up to the end that a
partition has when the reading starts.

Invariant: finding dead-letter topics takes as many requests for a thousand topics as for one. They share the requests
for offsets and the fetches of one assignment.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from penstock.client.admin import Admin
from penstock.client.assignment import native
from penstock.client.dead_letters.done import Done, done_of
from penstock.client.dead_letters.letter import DeadLetter, is_dead_letter, letter_of
from penstock.client.errors import from_kafka_error, translated
from penstock.client.record_reading import END_OF_PARTITION, partition_of
from penstock.core.errors import BrokerUnreachable, UnknownTopic
from penstock.core.ids import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message

_TIMEOUT_S: Final = 10.0
_STALL_S: Final = 30.0
# When others have long said what they hold. librdkafka tries for ever to read some batches, and says nothing.
_PROBE_STALL_S: Final = 5.0
_POLL_S: Final = 0.5
_PLACES_NAMED: Final = 3
# A record, and the marker of its transaction.
_PROBED_OFFSETS: Final = 2
_PROBE_GROWTH: Final = 16
# So many records that nobody asked for are read rather than one more request made.
_GAP_OFFSETS_MAX: Final = 100


def replay_group(topic: str) -> str:
    """The group whose offsets say which letters were replayed; also the transactional id of a replay."""
    return f"{topic}.replay"


class DeadLetterTopics:
    """`configuration` is librdkafka's. A context manager that closes its consumer.

    `unreadable` are the partitions that `names` could not look at.
    """

    def __init__(self, configuration: Mapping[str, Any]) -> None:
        from confluent_kafka import Consumer

        self.unreadable: list[TopicPartition] = []
        self._admin = Admin.from_librdkafka(configuration, timeout_s=_TIMEOUT_S)
        self._consumer: Consumer = Consumer(
            {
                **configuration,
                "group.id": "penstock-dead-letters",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 10,
            }
        )

    def __enter__(self) -> DeadLetterTopics:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def names(self) -> list[str]:
        """Topics whose newest records are dead letters."""
        topics = translated("the list of topics", lambda: self._consumer.list_topics(timeout=_TIMEOUT_S)).topics
        bounds = self.bounds(
            TopicPartition(topic, partition)
            for topic, metadata in topics.items()
            if not topic.startswith("__")
            for partition in metadata.partitions
        )
        found = set()
        probed = _PROBED_OFFSETS
        undecided = [place for place, (first, end) in bounds.items() if first < end]
        while undecided:
            ranges = {
                place: (max(bounds[place][0], bounds[place][1] - probed), bounds[place][1]) for place in undecided
            }
            newest = self._first_records(ranges)
            found |= {place.topic for place, record in newest.items() if is_dead_letter(record)}
            # Where only aborted records are so near the end, the search goes further back.
            undecided = [
                place
                for place, (first, _) in ranges.items()
                if place not in newest and place not in self.unreadable and first > bounds[place][0]
            ]
            probed *= _PROBE_GROWTH
        return sorted(found)

    def partitions(self, topic: str) -> list[int]:
        """Raises UnknownTopic."""
        found = translated(f"topic '{topic}'", lambda: self._consumer.list_topics(topic, timeout=_TIMEOUT_S))
        metadata = found.topics[topic]
        if metadata.error is not None or not metadata.partitions:
            raise UnknownTopic(f"topic '{topic}' does not exist; `penstock dead-letters list` shows those with letters")
        return sorted(metadata.partitions)

    def done(self, topic: str) -> dict[int, Done]:
        """What was replayed, by partition. A transaction that a replay has left open counts for nothing."""
        committed = self._admin.group_commits(replay_group(topic))
        found = {}
        for partition in self.partitions(topic):
            commit = committed.get(TopicPartition(topic, partition))
            found[partition] = Done() if commit is None else done_of(commit.offset, commit.metadata)
        return found

    def letters(self, topic: str, starts: Mapping[int, int] | None = None) -> Iterator[DeadLetter]:
        """All letters of a topic, partition by partition, from the earliest or from these offsets on."""
        bounds = self.bounds(TopicPartition(topic, partition) for partition in self.partitions(topic))
        for place, (first, end) in bounds.items():
            for record in self.records(place, max(first, (starts or {}).get(place.partition, 0)), end):
                yield letter_of(record)

    def bounds(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """The first offset of each partition, and the end of its committed records. Those that do not exist are left
        out."""
        asked = list(places)
        first = self._admin.offsets(asked, "earliest")
        end = self._admin.offsets(asked, "latest", isolation_level="read_committed")
        return {place: (first[place], end[place]) for place in asked if place in first and place in end}

    def records(self, place: TopicPartition, first: int, end: int) -> Iterator[Message]:
        """Committed records of a range of offsets."""
        if first >= end:
            return
        self._consumer.assign(native({place: first}))
        for message in self._events([place]):
            if message.error() is not None or _offset(message) >= end:
                return
            yield message
            if _offset(message) + 1 >= end:
                return

    def records_at(
        self, offsets: Mapping[TopicPartition, Collection[int]]
    ) -> Iterator[tuple[TopicPartition, int, Message]]:
        """Those of these records that are still there."""
        bounds = self.bounds(offsets)
        for place, (first, end) in bounds.items():
            wanted = {offset for offset in offsets[place] if first <= offset < end}
            for start, stop in _ranges(wanted):
                for record in self.records(place, start, stop):
                    if _offset(record) in wanted:
                        yield place, _offset(record), record

    def _first_records(self, ranges: Mapping[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, Message]:
        """The first committed record in the range of each partition; none where there is none."""
        self._consumer.assign(native({place: first for place, (first, _) in ranges.items()}))
        waiting, found = set(ranges), {}
        deadline = time.monotonic() + _STALL_S
        while waiting:
            message = self._next_event(deadline - time.monotonic())
            if message is None and len(waiting) == len(ranges):
                raise _stalled(ranges)
            if message is None:
                self.unreadable += sorted(waiting)
                break
            place = partition_of(message)
            if place not in waiting:
                continue  # it goes on to send records, or to fail
            waiting.remove(place)
            deadline = time.monotonic() + _PROBE_STALL_S
            if _failure(message) is not None:
                self.unreadable.append(place)
            elif message.error() is None and _offset(message) < ranges[place][1]:
                found[place] = message
        return found

    def _events(self, places: Collection[TopicPartition]) -> Iterator[Message]:
        """Records of the assigned partitions, as they arrive, and the end of each. Raises ClientError."""
        while (message := self._next_event(_STALL_S)) is not None:
            failure = _failure(message)
            if failure is not None:
                raise from_kafka_error(failure, f"topic '{message.topic()}'")
            yield message
        raise _stalled(places)

    def _next_event(self, timeout_s: float) -> Message | None:
        """The next record, end or failure of a partition; None if nothing came for that long. Raises ClientError."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            # One at a time: `consume` waits for its whole timeout unless as many records arrive as it asks for.
            message = self._consumer.poll(_POLL_S)
            if message is None:
                continue
            error = message.error()
            if error is None or error.code() == END_OF_PARTITION or (message.topic() and not error.retriable()):
                return message
            if not error.retriable():
                raise from_kafka_error(error, "reading dead letters")
        return None


def _failure(message: Message) -> KafkaError | None:
    """Why a partition cannot be read; None for a record or the end of a partition."""
    error = message.error()
    return None if error is None or error.code() == END_OF_PARTITION else error


def _stalled(places: Collection[TopicPartition]) -> BrokerUnreachable:
    named = ", ".join(str(place) for place in list(places)[:_PLACES_NAMED])
    return BrokerUnreachable(f"{named}: no record arrived for {_STALL_S:.0f} s")


def _ranges(offsets: Iterable[int]) -> list[tuple[int, int]]:
    """Half-open ranges that contain them; neighbours are together."""
    ranges: list[tuple[int, int]] = []
    for offset in sorted(offsets):
        if ranges and offset - ranges[-1][1] <= _GAP_OFFSETS_MAX:
            ranges[-1] = (ranges[-1][0], offset + 1)
        else:
            ranges.append((offset, offset + 1))
    return ranges


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset
