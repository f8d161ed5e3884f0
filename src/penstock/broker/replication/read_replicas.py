"""Which replica a consumer should read from (KIP-392): `replica.selector.class`.

The leader answers the fetch of a consumer that is better served by another replica with that replica's id, and no
records. Candidates are live, in sync, and hold the offset that is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.metadata.broker_config_definitions import RACK_AWARE_SELECTOR

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.broker.node import Node
    from penstock.broker.partition import Partition
    from penstock.core.ids import BrokerId

    ReplicaSelector = Callable[[Partition, str, int], BrokerId | None]


def replica_selector(node: Node) -> ReplicaSelector | None:
    """None where every consumer reads from the leader, which is the default."""
    return RackAwareSelector(node) if node.config.replica_selector_class == RACK_AWARE_SELECTOR else None


class RackAwareSelector:
    """A replica in the consumer's rack: the leader if it is there, otherwise the one that has most."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def __call__(self, partition: Partition, rack: str, offset: int) -> BrokerId | None:
        """The replica to read from; None for this broker, the leader."""
        node, leader = self._node, partition.leader
        if leader is None or rack == node.config.broker_rack:
            return None
        brokers = node.image.brokers
        best: BrokerId | None = None
        best_end_offset = -1
        for replica in leader.replicas:
            broker, progress = brokers.get(replica), leader.progress_of(replica)
            if broker is None or progress is None or broker.rack != rack or replica not in leader.in_sync:
                continue
            holds_it = progress.log_start_offset <= offset <= min(progress.end_offset, partition.high_watermark)
            if holds_it and progress.end_offset > best_end_offset:
                best, best_end_offset = replica, progress.end_offset
        return best
