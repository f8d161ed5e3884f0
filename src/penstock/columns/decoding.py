"""Decodes the record batches of one partition, from fetch responses, into Arrow batches of bounded size.

Owns: which records a reader sees. It splits the bytes into batches, verifies their CRC, and skips control batches,
aborted transactions (like Kafka's consumer) and records outside the wanted offsets.
Must never know: connections, Spark, and single records; kernels decode those (`decoding_kernels.py`).

Invariant: each offset becomes a row at most once, and rows are in log order.
Invariant: `next_offset` advances past every batch that was read, with or without rows.
Invariant: invalid bytes raise ProtocolError; the reader cannot be used afterwards.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from penstock.columns.arrow_rows import FIELDS, ArrowRows, RecordSpan, repeated_number, repeated_text
from penstock.columns.decoding_kernels import SMALLEST_RECORD_BYTES
from penstock.core.errors import ProtocolError
from penstock.core.ids import NO_PRODUCER_ID
from penstock.core.limits import DECOMPRESSED_BATCH_BYTES_MAX
from penstock.protocol.compression import Compression, decompress
from penstock.protocol.control_records import read_marker
from penstock.protocol.record_batch import (
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
    BatchHeader,
    crc_holds,
    parse_header,
)

COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
COLUMNS_WITH_HEADERS: Final = (*COLUMNS, "headers")

_OFFSET_END: Final = 2**63 - 1
_ARROW_BYTES_MAX: Final = 1 << 30  # half of the range of the 32-bit offsets of a binary column

Bytes: TypeAlias = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class ColumnLimits:
    """The maximum size of an Arrow batch, and of a decompressed record batch.

    A single record that is larger than `bytes_max` gets its own Arrow batch.
    """

    rows_max: int = 64 * 1024
    bytes_max: int = 64 * 1024 * 1024
    decompressed_bytes_max: int = DECOMPRESSED_BATCH_BYTES_MAX

    def __post_init__(self) -> None:
        if self.rows_max < 1 or not 1 <= self.bytes_max <= _ARROW_BYTES_MAX:
            raise ValueError(f"an Arrow batch must allow at least one row and at most {_ARROW_BYTES_MAX} bytes")
        if not 1 <= self.decompressed_bytes_max <= _ARROW_BYTES_MAX:
            raise ValueError(f"a record batch must decompress to at most {_ARROW_BYTES_MAX} bytes")


class RecordColumns:
    """Converts the record bytes of fetch responses into Arrow batches.

    `feed` yields full batches and keeps the rest, so that many small fetches give few batches; `flush` yields the rest.
    Fed bytes must not change until then: flush before a buffer is reused.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        start_offset: int,
        end_offset: int | None = None,
        *,
        columns: Sequence[str] = COLUMNS,
        limits: ColumnLimits | None = None,
    ) -> None:
        unknown = [column for column in columns if column not in FIELDS]
        if unknown:
            raise ValueError(f"records have no column {unknown[0]!r}; available are {', '.join(FIELDS)}")
        self._topic = topic
        self._partition = partition
        self._next_offset = start_offset
        self._end_offset = _OFFSET_END if end_offset is None else end_offset
        self._columns = tuple(columns)
        self._limits = limits or ColumnLimits()
        self._waiting: deque[RecordSpan] = deque()
        self._waiting_records = 0
        self._waiting_bytes = 0
        self._truncated_batch_bytes = 0
        self._topic_column = repeated_text(topic, 0)
        self._partition_column = repeated_number(partition, 0)

    @property
    def next_offset(self) -> int:
        """The offset of the next fetch; advances while the iterator of `feed` is consumed."""
        return self._next_offset

    @property
    def is_complete(self) -> bool:
        """Whether everything before the end offset has been read."""
        return self._next_offset >= self._end_offset

    @property
    def truncated_batch_bytes(self) -> int:
        """The size of a truncated last batch of the last feed; 0 if it was complete.

        The next fetch starts with this batch. If the first batch of a fetch is truncated, fetch this many bytes.
        """
        return self._truncated_batch_bytes

    def feed(self, records: Bytes, aborted: Iterable[tuple[int, int]] = ()) -> Iterator[Any]:
        """Decodes the records of one fetch response, and yields each pyarrow RecordBatch as soon as it is full.

        `aborted` is the response's list of aborted transactions (producer id, first offset); it is empty under
        `read_uncommitted`.
        """
        for span in self._spans(memoryview(records).toreadonly(), _AbortedProducers(aborted)):
            self._waiting.append(span)
            self._waiting_records += span.records_count
            self._waiting_bytes += span.end - span.position
            while (
                self._waiting_records >= self._limits.rows_max or self._waiting_bytes >= self._limits.bytes_max
            ) and self._waiting:
                yield from self._build()

    def flush(self) -> Iterator[Any]:
        """Yields the rows that `feed` has kept."""
        while self._waiting:
            yield from self._build()

    def _spans(self, records: memoryview, aborted: _AbortedProducers) -> Iterator[RecordSpan]:
        """The payloads of the batches with records for this reader."""
        plain = np.frombuffer(records, np.uint8)
        position = 0
        self._truncated_batch_bytes = 0
        while position < len(records) and not self.is_complete:
            header = _header_at(records, position)
            if header is None or position + header.size > len(records):
                self._truncated_batch_bytes = header.size if header else HEADER_BYTES
                return
            if header.base_offset >= self._end_offset:
                self._next_offset = self._end_offset
                return
            start, position = position, position + header.size
            batch = records[start:position]
            if not crc_holds(batch, header):
                raise ProtocolError(f"the CRC of the batch at offset {header.base_offset} does not match")
            is_visible = aborted.accepts(batch, header) and not header.is_control
            offset_min = self._next_offset
            self._next_offset = max(offset_min, min(header.end_offset, self._end_offset))
            if not is_visible or header.end_offset <= offset_min:
                continue
            if header.records_count == 0 and header.size == HEADER_BYTES:
                continue  # compaction keeps an empty batch for its producer's sequence
            payload, payload_start, payload_end = plain, start + HEADER_BYTES, position
            if header.compression != Compression.NONE:
                unfolded = decompress(header.compression, batch[HEADER_BYTES:], self._limits.decompressed_bytes_max)
                payload = np.frombuffer(unfolded, np.uint8)
                payload_start, payload_end = 0, len(payload)
            if not 0 <= header.records_count <= (payload_end - payload_start) // SMALLEST_RECORD_BYTES:
                raise ProtocolError(
                    f"the batch at offset {header.base_offset} declares {header.records_count} records"
                    f" in {payload_end - payload_start} bytes"
                )
            yield RecordSpan(
                payload=payload,
                position=payload_start,
                end=payload_end,
                records_count=header.records_count,
                base_offset=header.base_offset,
                last_offset_delta=header.last_offset_delta,
                base_timestamp=header.max_timestamp if header.uses_log_append_time else header.base_timestamp,
                uses_log_append_time=header.uses_log_append_time,
                offset_min=offset_min,
                offset_end=self._end_offset,
            )

    def _build(self) -> Iterator[Any]:
        """Builds one Arrow batch of the pending records, or none if all of them are outside the wanted offsets."""
        limits = self._limits
        rows_max = min(limits.rows_max, max(self._waiting_records, 1))
        rows = ArrowRows(self._columns, rows_max, min(limits.bytes_max, self._waiting_bytes))
        while self._waiting:
            span = self._waiting.popleft()
            rest = rows.append(span, limits.bytes_max)
            self._waiting_records -= span.records_count - (rest.records_count if rest else 0)
            self._waiting_bytes -= (rest.position if rest else span.end) - span.position
            if rest is not None:
                self._waiting.appendleft(rest)
                if rows.rows:
                    break
                # A single record exceeds the limit: the rest of its own batch is large enough.
                rows = ArrowRows(self._columns, 1, rest.end - rest.position)
        if rows.rows:
            yield rows.finish(*self._constant_columns(rows.rows))

    def _constant_columns(self, rows: int) -> tuple[Any, Any]:
        """Topic and partition columns with at least this many rows, cached for the largest batch so far."""
        if len(self._topic_column) < rows:
            self._topic_column = repeated_text(self._topic, rows)
            self._partition_column = repeated_number(self._partition, rows)
        return self._topic_column, self._partition_column


class _AbortedProducers:
    """The producers with an aborted transaction at the current position of a fetch response."""

    def __init__(self, transactions: Iterable[tuple[int, int]]) -> None:
        self._ahead = deque(sorted(transactions, key=lambda transaction: transaction[1]))
        self._aborting: set[int] = set()

    def accepts(self, batch: memoryview, header: BatchHeader) -> bool:
        """False for a batch of an aborted transaction; batches must be passed in log order."""
        if header.producer_id == NO_PRODUCER_ID:
            return True
        while self._ahead and self._ahead[0][1] < header.end_offset:
            self._aborting.add(self._ahead.popleft()[0])
        if header.producer_id not in self._aborting or not header.is_transactional:
            return True
        if header.is_control:
            marker = read_marker(batch, header)
            if marker is not None and not marker.committed:
                self._aborting.discard(header.producer_id)
        return False


def _header_at(records: memoryview, position: int) -> BatchHeader | None:
    """The header of the batch at `position`; None if the records end inside it."""
    if position + MAGIC_AT < len(records):
        magic = records[position + MAGIC_AT]
        if magic < MAGIC_V2:
            raise ProtocolError(
                f"these records are in message format v{magic}, from before Kafka 0.11, which Kafka 4 no longer serves;"
                " only v2 can be read"
            )
        if magic > MAGIC_V2:
            raise ProtocolError(f"these records are in the unknown message format v{magic}")
    if position + HEADER_BYTES > len(records):
        return None
    header = parse_header(records, position)
    if header.batch_length < HEADER_BYTES - LOG_OVERHEAD:
        raise ProtocolError(f"a batch of {header.batch_length} bytes is shorter than its header")
    if header.base_offset < 0 or header.last_offset_delta < 0 or header.end_offset > _OFFSET_END:
        raise ProtocolError(
            f"a batch has the invalid offsets {header.base_offset} to {header.base_offset} + {header.last_offset_delta}"
        )
    return header
