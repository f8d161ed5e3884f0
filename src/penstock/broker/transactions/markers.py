"""The ends of a transaction, written into the partitions that it touched.

Owns: one marker for each partition, all in one append round, and telling when every one of them is as durable as its
topic asks. Offsets that were committed in the transaction count, or are forgotten, from that moment on.
Must never know who decided the outcome: the coordinator of this broker, or a WriteTxnMarkers request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.core.ids import ProducerIdentity, TopicPartition
from penstock.metadata.topics import GROUP_OFFSETS_TOPIC
from penstock.protocol.control_records import TransactionMarker
from penstock.protocol.error_codes import BrokerError, ErrorCode

if TYPE_CHECKING:
    from penstock.broker.node import Node
    from penstock.broker.partition import Append, Partition

# Which partitions have no marker, and why.
Failures = dict[TopicPartition, BrokerError]
OnWritten = Callable[[Failures], None]


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """What every marker of one transaction says."""

    producer: ProducerIdentity
    committed: bool
    coordinator_epoch: int
    # The epoch was bumped for this end (KIP-890), so a marker that carries the current one is a late one.
    epoch_must_be_new: bool


def write_markers(node: Node, end: TransactionEnd, partitions: Iterable[TopicPartition], on_written: OnWritten) -> None:
    """Calls back once all markers are durable or refused; at once if there is nothing to write."""
    _PendingMarkers(node, end, on_written).stage(partitions)


class _PendingMarkers:
    __slots__ = ("_appends", "_end", "_failures", "_flushes", "_node", "_on_written")

    def __init__(self, node: Node, end: TransactionEnd, on_written: OnWritten) -> None:
        self._node = node
        self._end = end
        self._on_written = on_written
        self._appends: list[tuple[TopicPartition, Partition, Append]] = []
        self._failures: Failures = {}
        self._flushes = 0

    def stage(self, partitions: Iterable[TopicPartition]) -> None:
        node, end = self._node, self._end
        marker = TransactionMarker(end.committed, end.coordinator_epoch)
        now_ms = node.now_ms()
        for place in partitions:
            try:
                partition = node.topics.partition(*place)
                append = partition.stage_marker(end.producer, marker, now_ms, epoch_must_be_new=end.epoch_must_be_new)
            except BrokerError as error:
                self._failures[place] = error.to_keep()
                continue
            node.appends.add(partition)
            self._appends.append((place, partition, append))
        if self._appends:
            node.appends.acknowledge(self)
            # Within an append round the markers are its next part; otherwise nobody else would write them.
            node.loop.call_soon(node.appends.write)
        else:
            self._on_written(self._failures)

    def written(self) -> None:
        for place, partition, append in self._appends:
            if append.code:
                self._failures[place] = BrokerError(append.code, append.message or "")
            elif partition.must_flush:
                self._flushes += 1
                self._node.flusher.request(partition, self._flushed)
        if not self._flushes:
            self._finish()

    def _flushed(self, failure: OSError | None) -> None:
        if failure is not None:
            error = BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, f"fsync failed: {failure.strerror}.")
            self._failures = {place: error for place, _, _ in self._appends}
        self._flushes -= 1
        if not self._flushes:
            self._finish()

    def _finish(self) -> None:
        for place, _, _ in self._appends:
            if place.topic == GROUP_OFFSETS_TOPIC and place not in self._failures:
                self._node.groups.transaction_ended(
                    self._end.producer.producer_id, place.partition, self._end.committed
                )
        self._on_written(self._failures)
