"""The machine's clock and source of randomness. Only composition roots use this module; see `core/clock.py`."""

from __future__ import annotations

import os
import random
import time

from penstock.core.ids import UUID_BYTES, uuid_text


class SystemClock:
    # Static, because a produce request asks for the time once: no bound method has to be made for the call.
    @staticmethod
    def now_ms() -> int:
        return time.time_ns() // 1_000_000

    @staticmethod
    def monotonic_ms() -> int:
        return time.monotonic_ns() // 1_000_000


class SystemEntropy:
    def uuid(self) -> bytes:
        while True:
            raw = bytearray(os.urandom(UUID_BYTES))
            raw[6] = raw[6] & 0x0F | 0x40
            raw[8] = raw[8] & 0x3F | 0x80
            if not uuid_text(bytes(raw)).startswith("-"):
                return bytes(raw)

    def randrange(self, start: int, stop: int) -> int:
        return random.randrange(start, stop)  # noqa: S311 - fetch session ids and the like, which protect nothing
