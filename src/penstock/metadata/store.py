"""The interface of a metadata store: decisions go in, an ordered stream of committed changes comes out.

A single node keeps its metadata in a local journal (`broker/local_metadata_store.py` on `store_local.py`). A cluster
keeps it in etcd (`broker/etcd/metadata_store.py` on `key_value_store.py`). A node works with either, because it relies
on nothing but this interface:

- A proposal is a function, not a list of changes. The store runs it when its turn comes, on the newest image, and
  commits what it returns. Two CreateTopics for one name therefore cannot both succeed, however close together they
  arrive. A store that commits by compare-and-swap runs the function again when another node was faster.
- Committed changes arrive in one order, the same on every node, whichever node proposed them. The store applies each to
  its image, then passes it to the subscriber, then answers the proposal.

Invariant: the image holds exactly the committed changes. A change that could not be committed is not applied.
Invariant: everything here is called on the node's event loop, and never from inside `propose` or `subscribe`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.metadata.changes import Change
from penstock.metadata.image import ClusterImage
from penstock.protocol.error_codes import BrokerError

Decide = Callable[[ClusterImage], Sequence[Change]]
"""Returns the changes that the image allows, or raises the BrokerError that refuses them.

The image may be ahead of the store's own: it includes changes that are being written. The function may run more than
once. It must change nothing that it does not set again on the next run.
"""

OnDecided = Callable[[BrokerError | None], None]
"""None: the changes are committed and applied on this node. An error: nothing of the proposal was committed."""


@dataclass(frozen=True, slots=True)
class CommittedChanges:
    """The changes of one proposal, which are committed all together, and `position`, the number of the proposal. The
    end of a session, which no broker proposes, has the position of the proposal before it."""

    position: int
    changes: tuple[Change, ...]


class MetadataStore(Protocol):
    @property
    def image(self) -> ClusterImage:
        """The cluster as the committed changes describe it. Only the store changes it."""
        ...

    def subscribe(self, on_committed: Callable[[CommittedChanges], None]) -> None:
        """Calls the node for every change that is committed from now on. A store has one subscriber."""
        ...

    def propose(self, decide: Decide, on_decided: OnDecided) -> None:
        """Commits what `decide` returns. Calls back exactly once, unless the store is closed before."""
        ...

    @property
    def lease_deadline_ms(self) -> int | None:
        """Until when this broker may act on its own, by the monotonic clock of its node. None: for ever."""
        ...

    def close(self) -> None:
        """Waits for a write that is running. Proposals that were not answered stay unanswered."""
        ...

    async def leave(self) -> None:
        """After `close`: the other brokers learn at once that this one is gone, as far as they can be told."""
        ...
