"""Which letters of a partition are done: those below an offset, and ranges above it.

A replay of chosen letters leaves others between them. Both halves are the offset that a replay commits: the offset is
the first letter that is not done, its metadata lists what is done beyond it. Pure.

Invariant: the ranges are sorted, disjoint, not adjacent, and lie above the offset.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

METADATA_CHARACTERS_MAX: Final = 4096
"""Brokers refuse longer metadata (`offset.metadata.max.bytes`)."""


class TooScattered(Exception):
    """The ranges do not fit into the metadata of an offset."""


@dataclass(frozen=True, slots=True)
class Done:
    next_offset: int = 0
    beyond: tuple[tuple[int, int], ...] = ()
    """Half open."""

    def __contains__(self, offset: int) -> bool:
        return offset < self.next_offset or any(start <= offset < end for start, end in self.beyond)

    def with_offsets(self, offsets: Iterable[int]) -> Done:
        """With these, too."""
        ranges = sorted([(0, self.next_offset), *self.beyond, *((offset, offset + 1) for offset in offsets)])
        return self._merged(ranges)

    def with_range(self, start: int, end: int) -> Done:
        """With offsets that hold no letter: control records, records of aborted transactions, removed ones."""
        return self._merged(sorted([(0, self.next_offset), *self.beyond, (start, end)])) if start < end else self

    @staticmethod
    def _merged(ranges: Iterable[tuple[int, int]]) -> Done:
        merged: list[tuple[int, int]] = []
        for start, end in ranges:
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        return Done(merged[0][1], tuple(merged[1:]))

    def metadata(self) -> str:
        """Raises TooScattered."""
        if not self.beyond:
            return ""
        text = json.dumps({"done": self.beyond}, separators=(",", ":"))
        if len(text) > METADATA_CHARACTERS_MAX:
            raise TooScattered(
                f"{len(self.beyond)} separate ranges of letters are done, and an offset holds no more; replay all"
                " letters, without a limit of attempts, or a range of offsets"
            )
        return text


def done_of(offset: int, metadata: str | None) -> Done:
    """From a committed offset; a negative one is none. Metadata that something else has written counts as none."""
    try:
        ranges = tuple((int(start), int(end)) for start, end in json.loads(metadata or "{}").get("done", ()))
    except (ValueError, TypeError, AttributeError):
        ranges = ()
    return Done._merged(sorted([(0, max(0, offset)), *ranges]))
