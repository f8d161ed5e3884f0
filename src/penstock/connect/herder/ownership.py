"""Which connectors a worker may run: the interface between a herder and the group of workers.

Owns the rule by which a connector belongs to a partition, and the ownership of a worker that is alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from penstock.connect.storage.offset_records import partition_of_key

_FOREVER: Final = float("inf")


def partition_of_connector(name: str, partition_count: int) -> int:
    return partition_of_key(name.encode(), partition_count)


class Ownership(Protocol):
    """Times are those of `time.monotonic`."""

    def start(self, is_released: Callable[[frozenset[int]], bool], on_change: Callable[[], None]) -> None:
        """`is_released` says whether nothing runs any more of the connectors of these partitions.

        `on_change` is called when partitions were assigned, revoked or lost.
        """
        ...

    def stop(self) -> None:
        """Nothing may run any more when it is called."""
        ...

    def wake(self) -> None:
        """Something ended: `is_released` may answer differently."""
        ...

    def owns(self, name: str, now: float) -> bool:
        """Whether this worker may run the connector, until `lease_until`."""
        ...

    def partition_of(self, name: str) -> int: ...

    @property
    def lease_until(self) -> float:
        """When everything has to stop, unless the group confirms the membership before."""
        ...

    @property
    def generation(self) -> int: ...

    @property
    def is_leader(self) -> bool: ...

    @property
    def is_rebalancing(self) -> bool: ...


class SoleOwnership:
    """Of a standalone worker: everything, always."""

    generation = 0
    is_leader = True
    is_rebalancing = False
    lease_until = _FOREVER

    def start(self, is_released: Callable[[frozenset[int]], bool], on_change: Callable[[], None]) -> None:
        on_change()

    def stop(self) -> None:
        pass

    def wake(self) -> None:
        pass

    def owns(self, name: str, now: float) -> bool:
        return True

    def partition_of(self, name: str) -> int:
        return 0
