"""The mark on the committed offsets of a group whose positions are kept elsewhere.

A consumer with a database store, and a pipeline with its checkpoint, also commit their progress as offsets of a
consumer group, so that tools show lag. These offsets are a copy: changing them has no effect. Kafka keeps a string of
metadata with every committed offset, and there the mark says where the positions are.

Invariant: a mark contains no credentials, and fits into `offset.metadata.max.bytes`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

Keeper = Literal["store", "checkpoint", "ledger"]

_KEEPER: Final = "penstock.positions"
_PLACE: Final = "at"
_PLACE_CHARACTERS_MAX: Final = 1000
_LEDGER_KEYS: Final = frozenset({"owner", "query", "batch", "attempt"})


@dataclass(frozen=True, slots=True)
class MirroredFrom:
    keeper: Keeper
    place: str
    """The URL of a store, or the directory of a checkpoint; empty if it is not known."""

    def to_metadata(self) -> str:
        place = self.place if len(self.place) <= _PLACE_CHARACTERS_MAX else ""
        return json.dumps({_KEEPER: self.keeper, _PLACE: place}, ensure_ascii=False)

    @classmethod
    def from_metadata(cls, metadata: str) -> MirroredFrom | None:
        """None for the offset of a usual group, whatever metadata its clients commit."""
        if not metadata.startswith("{"):
            return None
        try:
            content = json.loads(metadata)
        except ValueError:
            return None
        if content.keys() == _LEDGER_KEYS:
            # `pipeline/topics/batch_ledger.py`: which micro-batch a transaction committed, not a position.
            return cls("ledger", "")
        keeper = content.get(_KEEPER)
        if keeper not in ("store", "checkpoint"):
            return None
        return cls(keeper, str(content.get(_PLACE, "")))


def mirrored_from(metadata: Iterable[str]) -> MirroredFrom | None:
    """The first mark in the metadata of a group's offsets."""
    return next(filter(None, map(MirroredFrom.from_metadata, metadata)), None)
