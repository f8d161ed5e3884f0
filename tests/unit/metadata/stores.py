"""A metadata store that commits at once, so that tests need no event loop's turn between a proposal and its effect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from penstock.core.ids import BrokerId
from penstock.metadata.changes import BrokerChange, Change
from penstock.metadata.store import CommittedChanges, Decide, OnDecided
from penstock.metadata.store_local import LocalJournal
from penstock.protocol.error_codes import BrokerError


class ImmediateStore:
    """A real journal, written inside `propose`. `committed` is what it has told its subscriber."""

    def __init__(self, journal: LocalJournal) -> None:
        self.image = journal.image
        self.committed: list[Change] = []
        self.lease_deadline_ms: int | None = None
        self._journal = journal
        self._position = 0
        self._subscribers: list[Callable[[CommittedChanges], None]] = []

    def subscribe(self, on_committed: Callable[[CommittedChanges], None]) -> None:
        self._subscribers.append(on_committed)

    def propose(self, decide: Decide, on_decided: OnDecided) -> None:
        try:
            changes = tuple(decide(self.image))
            durable = [change for change in changes if not isinstance(change, BrokerChange)]
            if durable:
                self._journal.append(durable)
        except BrokerError as error:
            on_decided(error.to_keep())
            return
        self.commit(changes)
        on_decided(None)

    def commit(self, changes: Sequence[Change]) -> None:
        """As if another node had proposed them: committed, applied and told, and written nowhere."""
        for change in changes:
            self.image.apply(change)
        self.committed.extend(changes)
        self._position += 1
        for subscriber in self._subscribers:
            subscriber(CommittedChanges(self._position, tuple(changes)))

    def close(self) -> None:
        self._journal.close()

    async def leave(self) -> None:
        """There is no other broker."""


def immediate_store(
    directory: Path, new_uuid: Callable[[], bytes], *, node_id: int = 1, cluster_id: str | None = None
) -> ImmediateStore:
    return ImmediateStore(
        LocalJournal.open(directory, node_id=BrokerId(node_id), new_uuid=new_uuid, cluster_id=cluster_id)
    )
