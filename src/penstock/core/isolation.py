"""Kafka's isolation levels: by the names that users set, and the numbers that requests carry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

IsolationLevel = Literal["read_uncommitted", "read_committed"]

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
ISOLATION_LEVELS: Final[Mapping[IsolationLevel, int]] = {
    "read_uncommitted": READ_UNCOMMITTED,
    "read_committed": READ_COMMITTED,
}
