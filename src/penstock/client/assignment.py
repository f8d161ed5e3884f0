"""Which partitions a consumer has, and what happens to them in a rebalance.

Owns the callbacks that librdkafka makes inside a poll, and the offsets at which assigned partitions begin: those of a
store, then those that the user's `on_assign` seeks to, then the group's. It must never know of records.

Invariant: `moved` names every partition that a rebalance touched since it was last cleared.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from penstock.core.ids import TopicPartition

OnPartitions = Callable[[list[TopicPartition]], object]
StartingOffsets = Callable[[Sequence[TopicPartition]], Mapping[TopicPartition, int]]

_SEEK_PATIENCE_S: Final = 10.0
_SEEK_RETRY_S: Final = 0.01
_NOT_FETCHING_YET: Final = -172


def native(partitions: Iterable[TopicPartition] | Mapping[TopicPartition, int]) -> list[Any]:
    """confluent-kafka's class for a partition, which a mapping gives an offset too."""
    from confluent_kafka import TopicPartition as Native

    if isinstance(partitions, Mapping):
        return [Native(topic, partition, offset) for (topic, partition), offset in partitions.items()]
    return [Native(topic, partition) for topic, partition in partitions]


def seek_patiently(client: Any, partition: TopicPartition, offset: int) -> None:
    """librdkafka cannot seek before it has begun to fetch the partition, which is moments after assigning."""
    from confluent_kafka import KafkaException

    (position,) = native({partition: offset})
    deadline = time.monotonic() + _SEEK_PATIENCE_S
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
        self._by_hand = False
        self.partitions: set[TopicPartition] = set()
        self.moved: set[TopicPartition] = set()
        self.settled = False
        """Whether partitions were ever given out to us, be it none of them."""
        self.on_assign: OnPartitions | None = None
        self.on_revoke: OnPartitions | None = None
        self.on_lost: OnPartitions | None = None
        self.starting_offsets: StartingOffsets | None = None
        self._starts: dict[TopicPartition, int] | None = None

    def assign(self, client: Any, partitions: Iterable[TopicPartition] | Mapping[TopicPartition, int]) -> None:
        """By hand, without a group."""
        chosen = [TopicPartition(*partition) for partition in partitions]
        starts = dict(partitions) if isinstance(partitions, Mapping) else {}
        if self.starting_offsets is not None:
            starts = {**self.starting_offsets(chosen), **starts}
        client.assign(native([each for each in chosen if each not in starts]) + native(starts))
        self._by_hand = self.settled = True
        self.partitions = set(chosen)
        self.moved.update(chosen)

    def restart(
        self, client: Any, partition: TopicPartition, offset: int, positions: Mapping[TopicPartition, int]
    ) -> None:
        """Begins with a partition of ours anew. `positions` are those of all, for a protocol that knows only all."""
        if self._cooperative and not self._by_hand:
            client.incremental_unassign(native([partition]))
            client.incremental_assign(native({partition: offset}))
            return
        starts = {each: position for each, position in positions.items() if each in self.partitions}
        starts[partition] = offset
        client.assign(native([each for each in self.partitions if each not in starts]) + native(starts))

    def note_seek(self, partition: TopicPartition, offset: int) -> bool:
        """Whether the seek is taken care of: inside `on_assign` nothing is fetched yet that would have to stop."""
        if self._starts is None:
            return False
        self._starts[partition] = offset
        return True

    def assigned(self, client: Any, partitions: Sequence[Any]) -> None:
        arrived = _ours(partitions)
        self._by_hand = False
        self.settled = True
        self.moved.update(arrived)
        starts = dict(self.starting_offsets(arrived)) if self.starting_offsets is not None else {}
        self._starts = starts
        try:
            if self.on_assign is not None:
                self.on_assign(arrived)
        finally:
            self._starts = None
            self.partitions = self.partitions | set(arrived) if self._cooperative else set(arrived)
        # Where nothing is said about offsets, the binding assigns them itself, as the group left them.
        if starts:
            positions = native([each for each in arrived if each not in starts])
            positions += native({each: offset for each, offset in starts.items() if each in arrived})
            (client.incremental_assign if self._cooperative else client.assign)(positions)

    def revoked(self, _client: Any, partitions: Sequence[Any]) -> None:
        self._take_away(_ours(partitions), self.on_revoke)

    def lost(self, _client: Any, partitions: Sequence[Any]) -> None:
        self._take_away(_ours(partitions), self.on_lost)

    def _take_away(self, gone: list[TopicPartition], callback: OnPartitions | None) -> None:
        self.moved.update(gone)
        try:
            if callback is not None:
                callback(gone)
        finally:
            self.partitions -= set(gone)


def _ours(partitions: Sequence[Any]) -> list[TopicPartition]:
    return sorted(TopicPartition(each.topic, each.partition) for each in partitions)
