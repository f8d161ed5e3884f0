"""The positions of a group, wherever they are kept: in the group, or in the database of a store.

Owns the decision whether `penstock group` may move a group's committed offsets. A group that is only a copy of
positions in a store or a checkpoint is refused, with the way that works.

Invariant: what `current` returns is where the next run continues, and what `move` sets is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from penstock.client.admin import Admin
from penstock.client.delivery.database_store import DatabaseStore
from penstock.core.errors import OffsetsMirrored, UnknownGroup
from penstock.core.ids import TopicPartition
from penstock.core.mirrored_offsets import MirroredFrom, mirrored_from


class Positions(Protocol):
    def current(self) -> Mapping[TopicPartition, int]: ...

    def move(self, offsets: Mapping[TopicPartition, int]) -> None: ...


class CommittedPositions:
    """The usual group: its committed offsets are its positions."""

    def __init__(self, admin: Admin, group: str) -> None:
        self._admin = admin
        self._group = group

    def current(self) -> Mapping[TopicPartition, int]:
        return self._admin.group_offsets(self._group)

    def move(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._admin.set_group_offsets(self._group, offsets)


class StoredPositions:
    """The positions are in a database; the group's offsets follow, so that lag shows them."""

    def __init__(self, admin: Admin, group: str, store: DatabaseStore) -> None:
        self._admin = admin
        self._group = group
        self._store = store

    def current(self) -> Mapping[TopicPartition, int]:
        stored = self._store.positions(self._group)
        return {partition: offset for partition, offset in stored.items() if offset is not None}

    def move(self, offsets: Mapping[TopicPartition, int]) -> None:
        mark = self._store.move(self._group, offsets)
        self._admin.set_group_offsets(self._group, offsets, metadata=mark.to_metadata())


def keeper_of(admin: Admin, group: str) -> MirroredFrom | None:
    """Where the positions of the group are kept; None if its committed offsets are its positions."""
    return mirrored_from(committed.metadata for committed in admin.group_commits(group).values())


@contextmanager
def positions_of(admin: Admin, group: str, store_url: str | None) -> Iterator[Positions]:
    """Raises OffsetsMirrored if the positions are kept elsewhere than the command says."""
    keeper = keeper_of(admin, group)
    if store_url is None:
        if keeper is not None:
            raise OffsetsMirrored(refusal(group, keeper))
        yield CommittedPositions(admin, group)
        return
    if keeper is not None and keeper.keeper != "store":
        raise OffsetsMirrored(refusal(group, keeper))
    with store_of(group, store_url) as store:
        yield StoredPositions(admin, group, store)


@contextmanager
def store_of(group: str, url: str) -> Iterator[DatabaseStore]:
    """The store, which must know the group: another one is the wrong file or database."""
    from penstock.client.delivery.store_url import store_at

    store = store_at(url)
    try:
        if not store.positions(group):
            raise UnknownGroup(f"{url} holds no positions of group '{group}'; check --store and the name of the group")
        yield store
    finally:
        store.close()


def refusal(group: str, keeper: MirroredFrom) -> str:
    match keeper.keeper:
        case "store":
            url = keeper.place or "sqlite:///FILE"
            return (
                f"group '{group}' keeps its positions in the database {url}, and its committed offsets are a copy: "
                f"moving them has no effect; add --store {url} to move the positions"
            )
        case "checkpoint":
            at = f" {keeper.place}" if keeper.place else ""
            return (
                f"group '{group}' is a pipeline that continues from its checkpoint{at}, and its committed offsets are "
                "a copy: moving them has no effect; to read from other offsets, set starting_offsets in the pipeline "
                "and run it with another --checkpoint"
            )
        case "ledger":
            return (
                f"group '{group}' records the micro-batches that a pipeline has committed, not offsets of records: "
                "moving it would repeat or lose rows"
            )


def copy_note(group: str, keeper: MirroredFrom) -> str:
    """One line for a person who reads the offsets of such a group."""
    match keeper.keeper:
        case "store":
            return f"group '{group}' keeps its positions in the database {keeper.place}; the group's offsets are a copy"
        case "checkpoint":
            return f"group '{group}' is a pipeline with the checkpoint {keeper.place}; the group's offsets are a copy"
        case "ledger":
            return f"group '{group}' counts the micro-batches that a pipeline has committed; it has no lag"
