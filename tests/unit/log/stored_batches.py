"""Record batches for tests of the log, and helpers to open logs. The records are opaque bytes."""

from __future__ import annotations

from crc32c import crc32c

from penstock.log.config import LogConfig
from penstock.log.damage import Damage
from penstock.log.filesystem import FileSystem
from penstock.log.partition_log import PartitionLog
from penstock.protocol.control_records import TransactionMarker, encode_marker
from penstock.protocol.record_batch import (
    CRC_START,
    HEADER,
    LOG_OVERHEAD,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    parse_header,
)

NOW_MS = 1_700_000_000_000


def make_batch(
    payload: bytes = b"records",
    count: int = 1,
    timestamp: int = NOW_MS,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
) -> tuple[memoryview, BatchHeader]:
    """A batch as a producer sends it: base offset 0, a CRC that holds. `producer` is id, epoch and base sequence."""
    producer_id, epoch, sequence = producer
    length = HEADER.size - LOG_OVERHEAD + len(payload)
    batch = bytearray(HEADER.size + len(payload))
    attributes = TRANSACTIONAL_FLAG * transactional
    fields = (0, length, -1, 2, 0, attributes, count - 1, timestamp, timestamp, producer_id, epoch, sequence, count)
    HEADER.pack_into(batch, 0, *fields)
    batch[HEADER.size :] = payload
    batch[17:21] = crc32c(bytes(batch[CRC_START:])).to_bytes(4, "big")
    return memoryview(batch), parse_header(batch)


def make_marker(
    producer_id: int, epoch: int, *, committed: bool, coordinator_epoch: int = 0
) -> tuple[memoryview, BatchHeader]:
    return encode_marker(producer_id, epoch, TransactionMarker(committed, coordinator_epoch), NOW_MS)


def append(log: PartitionLog, batch: tuple[memoryview, BatchHeader], leader_epoch: int = 0) -> tuple[int, bytes]:
    """Appends one batch; returns its base offset and the bytes that must come back."""
    base_offset = log.stage(batch[0], batch[1], leader_epoch, NOW_MS)
    log.write_staged()
    return base_offset, bytes(batch[0])


def open_log(
    fs: FileSystem,
    directory: str,
    config: LogConfig | None = None,
    *,
    clean: bool = True,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    cleaned_offset: int = 0,
    damage: list[Damage] | None = None,
) -> PartitionLog:
    fs.make_directory(directory)
    return PartitionLog.open(
        directory,
        config or LogConfig(),
        fs,
        clean_shutdown=clean,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        cleaned_offset=cleaned_offset,
        now_ms=NOW_MS,
        report_damage=(damage if damage is not None else []).append,
    )


def read_all(log: PartitionLog, max_bytes: int = 1 << 20) -> list[bytes]:
    """Every whole batch from the log start to the log end, slice by slice as a consumer reads them."""
    batches = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        content = log.read(offset, max_bytes, log.log_end_offset).read()
        whole = split(content)
        assert whole, f"a read at {offset} gave no batch"
        batches += whole
        offset = parse_header(whole[-1]).end_offset
    return batches


def split(content: bytes) -> list[bytes]:
    """The whole batches in the bytes of a slice."""
    batches = []
    at = 0
    while len(content) - at >= HEADER.size:
        size = parse_header(content, at).size
        if size > len(content) - at:
            break
        batches.append(content[at : at + size])
        at += size
    return batches
