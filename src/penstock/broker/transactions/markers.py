"""The ends of a transaction, written into the partitions that it touched.

Owns: one marker for each partition, all in one append round, and telling when every one of them is as durable as its
topic asks. Offsets that were committed in the transaction count, or are forgotten, from that moment on.
Must not know who decided the outcome: the coordinator of this broker, or a WriteTxnMarkers request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.broker.appends import AppendGroup
from penstock.core.ids import ProducerIdentity, TopicPartition
from penstock.metadata.topics import GROUP_OFFSETS_TOPIC
from penstock.protocol.control_records import TransactionMarker
from penstock.protocol.error_codes import BrokerError

if TYPE_CHECKING:
    from penstock.broker.node import Node

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


def write_markers(
    node: Node,
    end: TransactionEnd,
    partitions: Iterable[TopicPartition],
    on_written: OnWritten,
    *,
    timeout_ms: int | None = None,
) -> None:
    """Calls back once all markers are durable or refused; at once if there is nothing to write.

    `timeout_ms` bounds the wait for the replicas, which a caller that tries again does without.
    """
    markers: AppendGroup[TopicPartition] = AppendGroup(node.appends, timeout_ms=timeout_ms)
    failures: Failures = {}
    marker = TransactionMarker(end.committed, end.coordinator_epoch)
    now_ms = node.now_ms()
    for place in partitions:
        try:
            partition = node.topics.partition(*place)
            append = partition.stage_marker(end.producer, marker, now_ms, epoch_must_be_new=end.epoch_must_be_new)
        except BrokerError as error:
            failures[place] = error.to_keep()
            continue
        markers.add(partition, append, place)
    if not markers.appends:
        on_written(failures)
        return

    def durable() -> None:
        for _, append, place in markers.appends:
            error = append.error
            if error is not None:
                failures[place] = error
            elif place.topic == GROUP_OFFSETS_TOPIC:
                node.groups.transaction_ended(end.producer.producer_id, place.partition, end.committed)
        on_written(failures)

    markers.listen(durable)
    node.appends.acknowledge(markers)
    # Within an append round the markers are its next part; outside one this writes them.
    node.appends.write_soon()
