"""A clock that tests move by hand and randomness that a seed repeats, in place of `broker/system.py`."""

from __future__ import annotations

import random
import uuid

from penstock.core.ids import uuid_text


class ManualClock:
    """Stands still until `advance` is called."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = 0

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def advance(self, milliseconds: int) -> None:
        self._now_ms += milliseconds
        self._monotonic_ms += milliseconds


class SeededEntropy:
    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)

    def uuid(self) -> bytes:
        while True:
            raw = uuid.UUID(int=self._random.getrandbits(128), version=4).bytes
            if not uuid_text(raw).startswith("-"):
                return raw

    def randrange(self, start: int, stop: int) -> int:
        return self._random.randrange(start, stop)
