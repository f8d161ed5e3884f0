"""Waiting for what a broker has promised but need not have done yet."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(holds: Callable[[], bool], within_s: float = 60) -> bool:
    """Whether it holds in time. A broker answers an administrator before every node has heard of the change."""
    deadline = time.monotonic() + within_s
    while not (held := holds()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return held
