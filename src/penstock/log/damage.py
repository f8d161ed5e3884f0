"""Damage that the log found on disk, as reported to the operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Damage:
    """`length` bytes from `position` of `file` are invalid.

    `removed` is true for a torn tail, which was truncated: its bytes were never flushed, so no durability was promised
    for them. Everything else stays on disk unchanged. Files that are derived from the log (indexes, snapshots,
    checkpoints) are rebuilt, and their damage loses no data.
    """

    file: str
    position: int
    length: int
    reason: str
    removed: bool = False

    def __str__(self) -> str:
        what = "cut off a torn tail" if self.removed else "damage"
        return f"{self.file}: {what} at position {self.position}, {self.length} bytes: {self.reason}"


ReportDamage = Callable[[Damage], None]
