"""A fake of the consumer that `delivery/` uses, over records in memory, with a group that may rebalance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.client.assignment import StartingOffsets
from penstock.client.delivery.dead_letters import DeadLetter
from penstock.client.delivery.error_handling import ErrorHandling
from penstock.client.records import Record, SourceRecord, Undecodable
from penstock.core.errors import CommitRefused
from penstock.core.ids import TopicPartition


def record(offset: int, *, partition: int = 0, topic: str = "t") -> Record:
    return Record(topic, partition, offset, 0, None, b"%d" % offset, (), None)


def kept(offset: int, *, partition: int = 0) -> SourceRecord:
    """A record with its bytes."""
    found = SourceRecord("t", partition, offset, 0, None, f"{offset}", (("trace", b"1"),), None)
    found.raw_key, found.raw_value = b"k", b"%d" % offset
    return found


def undecodable(offset: int, *, partition: int = 0) -> Undecodable:
    found = Undecodable("t", partition, offset, 0, b"k", b"\xff", (("trace", b"1"), ("penstock.reason", b"old")), None)
    found.raw_key, found.raw_value, found.reason = b"k", b"\xff", "the value cannot be deserialized (ValueError: no)"
    return found


class FakePublisher:
    def __init__(self) -> None:
        self.published: list[DeadLetter] = []
        self.failure: Exception | None = None

    def publish(self, letters: Sequence[DeadLetter]) -> None:
        if self.failure is not None:
            raise self.failure
        self.published += letters

    def close(self) -> None:
        pass


class FakeConsumer:
    """Reads `records` of each partition in order, `batch_size` at a time, until there are none left."""

    def __init__(self, records: Sequence[Record], *, batch_size: int = 3, group_id: str = "g") -> None:
        self.group_id = group_id
        self.log: dict[TopicPartition, list[Record]] = {}
        for each in records:
            self.log.setdefault(each.topic_partition, []).append(each)
        self.positions = dict.fromkeys(self.log, 0)
        self.offsets_committed: dict[TopicPartition, int] = {}
        self.metadata: dict[TopicPartition, str | None] = {}
        self.refusals = 0
        self.events: list[str] = []
        self._batch_size = batch_size
        self._owned = set(self.log)

    def connection_config(self) -> dict[str, str]:
        return {"bootstrap.servers": "nowhere:1"}

    def begin_run(self, starting_offsets: StartingOffsets | None, errors: ErrorHandling, *, exactly_once: bool) -> None:
        self.errors = errors
        self.exactly_once = exactly_once
        self.was_exactly_once = exactly_once
        if starting_offsets is not None:
            self.rewind(starting_offsets(sorted(self._owned)))

    def end_run(self) -> None:
        self.exactly_once = False

    def stopping(self) -> bool:
        return False

    def settled(self) -> bool:
        return True

    def caught_up(self) -> bool:
        return all(
            not any(each.offset >= self.positions[partition] for each in self.log[partition])
            for partition in self._owned
        )

    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._owned)

    def lose(self, partition: TopicPartition) -> None:
        self._owned.discard(partition)

    def poll(self, _timeout_s: float) -> list[Record]:
        batch: list[Record] = []
        for partition in sorted(self._owned):
            rest = [each for each in self.log[partition] if each.offset >= self.positions[partition]]
            taken = rest[: self._batch_size - len(batch)]
            if taken:
                self.positions[partition] = taken[-1].offset + 1
            batch += taken
        return batch

    def rewind(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.positions.update({each: offset for each, offset in offsets.items() if each in self._owned})

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        if self.refusals:
            self.refusals -= 1
            raise CommitRefused("the group has moved on")
        self.events.append("commit")
        self.offsets_committed.update(offsets)

    def commit_async(self, offsets: Mapping[TopicPartition, int], *, metadata: str | None = None) -> None:
        self.commit(offsets)
        self.metadata.update(dict.fromkeys(offsets, metadata))

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int | None]:
        return {each: self.offsets_committed.get(each) for each in partitions}

    def group_metadata(self) -> str:
        return "membership"
