"""The parsed settings of one partition's log. Names are Kafka's topic settings with underscores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NEVER: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class LogConfig:
    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    flush_messages: int = NEVER  # the broker decides when to flush; the log only carries the setting
    flush_ms: int = NEVER
    contiguous_offsets: bool = True  # False if compaction may have removed records
    producer_id_expiration_ms: int = 24 * 3600 * 1000
    deletes: bool = True  # cleanup.policy contains delete
    compacts: bool = False  # cleanup.policy contains compact
    retention_ms: int = -1  # -1: no limit
    retention_bytes: int = -1
    file_delete_delay_ms: int = 60_000
    delete_retention_ms: int = 24 * 3600 * 1000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NEVER
