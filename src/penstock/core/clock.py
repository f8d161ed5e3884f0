"""Time and randomness as a node sees them: two protocols that the composition root fills in.

Everything that needs the time, a timer's origin or an id takes one of these as an argument. A broker gets the machine's
own (`broker/system.py`); a test or a simulation passes a clock that it moves by hand and a seeded generator, so that a
run can be repeated exactly. Nothing here reads a clock.
"""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Unix time in milliseconds, as records and clients carry it. It jumps when the machine's time is set."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds since an arbitrary point. It never goes back: use it for timeouts and durations."""
        ...


class Entropy(Protocol):
    def uuid(self) -> bytes:
        """A version 4 UUID, as 16 bytes. As in Kafka, its text (`uuid_text`) never begins with '-', which command
        lines would take for an option."""
        ...

    def randrange(self, start: int, stop: int) -> int:
        """An integer from `start` up to, not including, `stop`. Not for secrets."""
        ...
