"""Logs with keys, for tests of compaction: writes batches of records, compacts as a broker does, reads all back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.log.cleaning.cleaner import CleaningResult, clean
from penstock.log.config import LogConfig
from penstock.log.filesystem import FileSystem
from penstock.log.partition_log import PartitionLog
from penstock.protocol.compression import Compression
from penstock.protocol.record_batch import TRANSACTIONAL_FLAG, BatchHeader, parse_header
from penstock.protocol.records import read_records
from tests.record_batches import Record, encode_batch
from tests.unit.log.stored_batches import NOW_MS, read_all

DIRECTORY = "data/topic-0"
DAY_MS = 24 * 3600 * 1000


def compacting(**changed: object) -> LogConfig:
    """Small segments, each of a few batches."""
    settings: dict[str, object] = {
        "segment_bytes": 400,
        "index_interval_bytes": 100,
        "compacts": True,
        "deletes": False,
        "contiguous_offsets": False,
        "file_delete_delay_ms": 1000,
    }
    return LogConfig(**(settings | changed))  # type: ignore[arg-type]


class StoredRecord(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int = NOW_MS


def put(
    log: PartitionLog,
    *pairs: tuple[str | None, str | None],
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
    compression: Compression = Compression.NONE,
    timestamp: int = NOW_MS,
    leader_epoch: int = 0,
) -> int:
    """Appends one batch of keys and values, and returns its base offset."""
    records = [Record(_bytes(value), _bytes(key), timestamp + index) for index, (key, value) in enumerate(pairs)]
    batch = encode_batch(
        records, compression=compression, producer=producer, attributes=TRANSACTIONAL_FLAG * transactional
    )
    base_offset = log.stage(memoryview(batch), parse_header(batch), leader_epoch, timestamp)
    log.write_staged()
    return base_offset


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def seal(log: PartitionLog) -> None:
    """Rolls and flushes, so that everything written so far can be cleaned."""
    log._appender.roll()
    log.flush()


def clean_log(log: PartitionLog, fs: FileSystem, now_ms: int = NOW_MS, keys_max: int = 1000) -> CleaningResult | None:
    """One cleaning; writes the new segments, but does not put them in place."""
    cleanable = log.lifecycle.cleanable(
        last_stable_offset=log.last_stable_offset(log.log_end_offset), recovery_point=log.recovery_point, now_ms=now_ms
    )
    if cleanable is None:
        return None
    return clean(log.lifecycle.cleaning_order(cleanable, keys_max=keys_max, now_ms=now_ms), fs)


def compact(log: PartitionLog, fs: FileSystem, now_ms: int = NOW_MS, keys_max: int = 1000) -> bool:
    """One cleaning and its swap; False if there was nothing to clean."""
    result = clean_log(log, fs, now_ms, keys_max)
    if result is None:
        return False
    assert log.lifecycle.begin_swap(result, now_ms)
    log.lifecycle.complete_swap()
    return True


def headers_of(log: PartitionLog) -> list[BatchHeader]:
    return [parse_header(batch) for batch in batches_of(log)]


def batches_of(log: PartitionLog) -> list[bytes]:
    """As `read_all`, but the end of a compacted log may have no batch."""
    if log.log_start_offset == log.log_end_offset or len(log.read(log.log_start_offset, 1, log.log_end_offset)) == 0:
        return []
    return read_all(log)


def records_of(log: PartitionLog) -> list[StoredRecord]:
    """All records of data, in the order of a reader."""
    found = []
    for batch in batches_of(log):
        header = parse_header(batch)
        if not header.is_control:
            found += [
                StoredRecord(record.offset, record.key, record.value, record.timestamp)
                for record in read_records(memoryview(batch), header, 1 << 20)
            ]
    return found


def contents(log: PartitionLog) -> Sequence[tuple[int, str, str | None]]:
    return [
        (record.offset, (record.key or b"").decode(), None if record.value is None else record.value.decode())
        for record in records_of(log)
    ]
