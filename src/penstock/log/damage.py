"""What the log found wrong on disk, in a form that can be shown to an operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Damage:
    """`length` bytes from `position` of `file` cannot be trusted.

    `removed` is true for a torn tail, which was cut off: those bytes were never flushed, so nobody was promised them.
    Everything else stays on disk as it was found. A file that is derived from the log (an index, a snapshot, a
    checkpoint) is built anew, and its damage costs nothing but the time that took.
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
