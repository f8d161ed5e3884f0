"""A consumer's assignment, and how rebalances change it.

Owns the rebalance callbacks that librdkafka makes inside a poll, and the starting offsets of assigned partitions: those
of a store first, then those that the user's `on_assign` seeks to, then the group's. It must never know records.

Invariant: `moved` contains every partition that a rebalance assigned or revoked since it was last cleared.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from penstock.core.ids import TopicPartition

OnPartitions = Callable[[list[TopicPartition]], object]
StartingOffsets = Callable[[Sequence[TopicPartition]], Mapping[TopicPartition, int]]

_SEEK_TIMEOUT_S: Final = 10.0
_SEEK_RETRY_S: Final = 0.01
_NOT_FETCHING_YET: Final = -172


def native(
    partitions: Iterable[TopicPartition] | Mapping[TopicPartition, int], metadata: str | None = None
) -> list[Any]:
    """The partitions as confluent-kafka's TopicPartition; a mapping also sets their offsets, with metadata."""
    from confluent_kafka import TopicPartition as Native

    if isinstance(partitions, Mapping):
        kept: dict[str, Any] = {} if metadata is None else {"metadata": metadata}
        return [Native(topic, partition, offset, **kept) for (topic, partition), offset in partitions.items()]
    return [Native(topic, partition) for topic, partition in partitions]


def seek_with_retries(client: Any, partition: TopicPartition, offset: int) -> None:
    """Retries for a while: librdkafka cannot seek until it has started to fetch a newly assigned partition."""
    from confluent_kafka import KafkaException

    (position,) = native({partition: offset})
    deadline = time.monotonic() + _SEEK_TIMEOUT_S
    while True:
        try:
            client.seek(position)
        except KafkaException as failure:
            if failure.args[0].code() != _NOT_FETCHING_YET or time.monotonic() > deadline:
                raise
        else:
            return
        time.sleep(_SEEK_RETRY_S)


class Assignment:
    def __init__(self, *, cooperative: bool) -> None:
        self._cooperative = cooperative
        self._is_manual = False
        self.partitions: set[TopicPartition] = set()
        self.moved: set[TopicPartition] = set()
        self.settled = False
        """Whether the consumer has an assignment now, even an empty one. A rebalance takes it away until it ends."""
        self.on_assign: OnPartitions | None = None
        self.on_revoke: OnPartitions | None = None
        self.on_lost: OnPartitions | None = None
        self.starting_offsets: StartingOffsets | None = None
        self._starts: dict[TopicPartition, int] | None = None

    def assign(self, client: Any, partitions: Iterable[TopicPartition] | Mapping[TopicPartition, int]) -> None:
        """Assigns partitions without a group."""
        chosen = [TopicPartition(*partition) for partition in partitions]
        starts = dict(partitions) if isinstance(partitions, Mapping) else {}
        if self.starting_offsets is not None:
            starts = {**self.starting_offsets(chosen), **starts}
        client.assign(native([each for each in chosen if each not in starts]) + native(starts))
        self._is_manual = self.settled = True
        self.partitions = set(chosen)
        self.moved.update(chosen)

    def restart(
        self, client: Any, partition: TopicPartition, offset: int, positions: Mapping[TopicPartition, int]
    ) -> None:
        """Assigns one partition again. `positions` covers all of them: the eager protocol only assigns all at once."""
        if self._cooperative and not self._is_manual:
            client.incremental_unassign(native([partition]))
            client.incremental_assign(native({partition: offset}))
            return
        starts = {each: position for each, position in positions.items() if each in self.partitions}
        starts[partition] = offset
        client.assign(native([each for each in self.partitions if each not in starts]) + native(starts))

    def note_seek(self, partition: TopicPartition, offset: int) -> bool:
        """Inside `on_assign`, makes the offset a starting offset and returns True; otherwise the caller must seek."""
        if self._starts is None:
            return False
        self._starts[partition] = offset
        return True

    def assigned(self, client: Any, partitions: Sequence[Any]) -> None:
        assigned = _topic_partitions(partitions)
        self._is_manual = False
        self.settled = True
        self.moved.update(assigned)
        starts = dict(self.starting_offsets(assigned)) if self.starting_offsets is not None else {}
        self._starts = starts
        try:
            if self.on_assign is not None:
                self.on_assign(assigned)
        finally:
            self._starts = None
            self.partitions = self.partitions | set(assigned) if self._cooperative else set(assigned)
        # Without starting offsets the binding assigns the partitions itself, at the committed offsets.
        if starts:
            positions = native([each for each in assigned if each not in starts])
            positions += native({each: offset for each, offset in starts.items() if each in assigned})
            (client.incremental_assign if self._cooperative else client.assign)(positions)

    def revoked(self, _client: Any, partitions: Sequence[Any]) -> None:
        if not self._cooperative:
            self.settled = False
        self._remove(_topic_partitions(partitions), self.on_revoke)

    def lost(self, _client: Any, partitions: Sequence[Any]) -> None:
        self.settled = False
        self._remove(_topic_partitions(partitions), self.on_lost)

    def _remove(self, removed: list[TopicPartition], callback: OnPartitions | None) -> None:
        self.moved.update(removed)
        try:
            if callback is not None:
                callback(removed)
        finally:
            self.partitions -= set(removed)


def _topic_partitions(partitions: Sequence[Any]) -> list[TopicPartition]:
    return sorted(TopicPartition(each.topic, each.partition) for each in partitions)
