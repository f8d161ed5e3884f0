"""Replays dead letters: writes the records again to the topic that they were read from.

Owns the transaction of that. A chunk of records and what is done by then, as the offsets of the group `TOPIC.replay`,
are committed together. A replay that is killed leaves an open transaction, which the next one ends before it asks what
is done.

Invariants:
- A letter is replayed once, however often a replay is started or killed, and never by two at a time: they share a
  transactional id, and the later one fences the earlier.
- A letter that is left out by a filter, or that was replayed too often, stays to be replayed.
- A replayed record says in a header which attempt it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from penstock.client.assignment import native
from penstock.client.commit_metadata import metadata_of
from penstock.client.dead_letters.done import Done, TooScattered, done_of
from penstock.client.dead_letters.letter import DeadLetter, is_dead_letter, letter_of
from penstock.client.dead_letters.originals import completed
from penstock.client.dead_letters.topics import DeadLetterTopics, replay_group
from penstock.client.errors import from_kafka_error, translated
from penstock.core.dead_letters import REPLAY_ATTEMPT, REPLAY_ATTEMPTS_MAX
from penstock.core.errors import ClientError
from penstock.core.ids import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer

CHUNK_LETTERS: Final = 500
_TIMEOUT_S: Final = 30.0
_TRANSACTION_TIMEOUT_MS: Final = 60_000

Choice = Callable[[DeadLetter], bool]


@dataclass(slots=True)
class Replayed:
    """What a replay has committed so far. `unreplayable` are letters that no topic is known for, `quarantined` those
    that were replayed too often before."""

    letters: int = 0
    unreplayable: int = 0
    quarantined: int = 0
    by_target: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Chunk:
    """Letters of one partition, and what is done when they are written."""

    partition: int
    done: Done
    letters: list[DeadLetter] = field(default_factory=list)

    def settle(self, originals: DeadLetterTopics, max_attempts: int, replayed: Replayed) -> None:
        """Leaves letters alone that were replayed too often; the others are done when they are written."""
        kept = [letter for letter in completed(originals, self.letters) if not is_quarantined(letter, max_attempts)]
        replayed.quarantined += len(self.letters) - len(kept)
        self.letters = kept
        self.done = self.done.with_offsets(letter.offset for letter in kept)


def is_quarantined(letter: DeadLetter, max_attempts: int) -> bool:
    """0 attempts are no limit."""
    return 0 < max_attempts <= letter.attempt


def waiting_letters(
    topics: DeadLetterTopics, topic: str, choose: Choice, done: Mapping[int, Done] | None = None
) -> Iterator[DeadLetter]:
    """Letters that were not replayed yet."""
    known = topics.done(topic) if done is None else done
    starts = {partition: its.next_offset for partition, its in known.items()}
    for letter in topics.letters(topic, starts):
        if letter.offset not in known.get(letter.partition, Done()) and choose(letter):
            yield letter


def replay(
    configuration: Mapping[str, Any],
    topics: DeadLetterTopics,
    topic: str,
    *,
    choose: Choice,
    target: str | None = None,
    max_attempts: int = REPLAY_ATTEMPTS_MAX,
    committed: Callable[[Replayed], None] = lambda _: None,
    chunk_letters: int = CHUNK_LETTERS,
) -> Replayed:
    """Writes each chosen letter to `target`, or to the partition that it was read from, unless it was replayed
    `max_attempts` times before (0: no limit). Calls `committed` after each transaction. Raises ClientError; what was
    committed before stays so."""
    partitions = topics.partitions(topic)  # raises UnknownTopic before anything is fenced
    # A consumer of their own for the records that letters are of: the other one is in the middle of the letters.
    with DeadLetterTopics(configuration) as originals, _transactions(configuration, topic) as transactions:
        replayed = Replayed()
        done = transactions.done(partitions)
        for place, bounds in topics.bounds(TopicPartition(topic, partition) for partition in partitions).items():
            its_done = done[place.partition]
            for chunk in _chunks(topics, place, bounds, its_done, choose, target, replayed, chunk_letters):
                chunk.settle(originals, max_attempts, replayed)
                if not chunk.letters:
                    continue
                records = [(letter, target or str(letter.source_topic)) for letter in chunk.letters]
                transactions.write(chunk, records, keep_partition=target is None)
                replayed.letters += len(records)
                for _, written in records:
                    replayed.by_target[written] = replayed.by_target.get(written, 0) + 1
                committed(replayed)
        return replayed


def _chunks(
    topics: DeadLetterTopics,
    place: TopicPartition,
    bounds: tuple[int, int],
    done: Done,
    choose: Choice,
    target: str | None,
    replayed: Replayed,
    chunk_letters: int,
) -> Iterator[_Chunk]:
    first, end = bounds
    chunk = _Chunk(place.partition, done.with_range(0, first))
    behind = max(first, done.next_offset)
    for message in topics.records(place, behind, end):
        offset = message.offset()
        assert offset is not None
        chunk.done = chunk.done.with_range(behind, offset)
        behind = offset + 1
        if offset in chunk.done or not is_dead_letter(message):
            continue
        letter = letter_of(message)
        if not choose(letter):
            continue
        if target is None and letter.source_offset is None:
            replayed.unreplayable += 1
            continue
        chunk.letters.append(letter)
        if len(chunk.letters) >= chunk_letters:
            yield chunk  # which is settled meanwhile
            chunk = _Chunk(place.partition, chunk.done)
    if chunk.letters:
        yield chunk


class _Transactions:
    def __init__(self, producer: Producer, member: Consumer, topic: str) -> None:
        self._producer = producer
        self._member = member
        self._group = member.consumer_group_metadata()
        self._topic = topic
        self._failed: list[Any] = []

    def done(self, partitions: Iterable[int]) -> dict[int, Done]:
        """What was replayed, by partition. Waits until the outcome of an earlier transaction is known everywhere."""
        places = native(TopicPartition(self._topic, partition) for partition in partitions)
        committed = translated(
            f"group '{replay_group(self._topic)}'", lambda: self._member.committed(places, timeout=_TIMEOUT_S)
        )
        return {place.partition: done_of(place.offset, metadata_of(place)) for place in committed}

    def write(self, chunk: _Chunk, records: list[tuple[DeadLetter, str]], *, keep_partition: bool) -> None:
        from confluent_kafka import KafkaException

        try:
            metadata = chunk.done.metadata()
        except TooScattered as refusal:
            raise ClientError(f"topic '{self._topic}': {refusal}") from refusal
        try:
            self._producer.begin_transaction()
            for letter, target in records:
                headers: Any = [*letter.headers, (REPLAY_ATTEMPT, str(letter.attempt + 1).encode())]
                place: dict[str, Any] = {"partition": letter.source_partition} if keep_partition else {}
                self._producer.produce(
                    target, value=letter.value, key=letter.key, headers=headers, on_delivery=self._seen, **place
                )
            self._producer.flush(_TIMEOUT_S)
            if self._failed:
                raise KafkaException(self._failed[0])
            offsets = native({TopicPartition(self._topic, chunk.partition): chunk.done.next_offset}, metadata)
            self._producer.send_offsets_to_transaction(offsets, self._group, _TIMEOUT_S)
            self._producer.commit_transaction(_TIMEOUT_S)
        except KafkaException as failure:
            self._producer.abort_transaction(_TIMEOUT_S)
            raise from_kafka_error(failure.args[0], f"replay of topic '{self._topic}'") from failure

    def _seen(self, error: Any, _message: Any) -> None:
        if error is not None:
            self._failed.append(error)


@contextmanager
def _transactions(configuration: Mapping[str, Any], topic: str) -> Iterator[_Transactions]:
    from confluent_kafka import Consumer, Producer

    name = replay_group(topic)
    # Read committed: offsets of a transaction that is being ended are waited for (KIP-447).
    committed = {"isolation.level": "read_committed", "enable.auto.commit": False}
    member = Consumer({**configuration, **committed, "group.id": name})
    try:
        producer = Producer(
            {**configuration, "transactional.id": name, "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS}
        )
        # Ends the transaction of a replay that was killed, so that what is done is known.
        translated(f"replay of topic '{topic}'", lambda: producer.init_transactions(_TIMEOUT_S))
        yield _Transactions(producer, member, topic)
    finally:
        member.close()
