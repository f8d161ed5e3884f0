"""Recovers producer state and transactions from a snapshot and the batches after it.

Owns: which snapshot to start from, the replay of batches and markers, and the rebuild of the transaction index where
its files are invalid.
Must never know: appending, or how the end of a log is found.

Invariant: the recovered state equals the state after appending the same batches, as far as they still exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from penstock.core.ids import NO_PRODUCER_ID
from penstock.log.batches import MAX_OFFSET, BatchAnomaly, headers
from penstock.log.log_state import LogState
from penstock.log.producer_snapshot import encode, load_newest, remove_stale, snapshot_path
from penstock.log.producer_state import ProducerState
from penstock.log.segment import Segment
from penstock.log.transaction_index_files import files_to_write, load, remove_superfluous
from penstock.protocol.control_records import TransactionMarker, read_marker
from penstock.protocol.record_batch import BatchHeader, crc_holds


def recover_producers(
    state: LogState, names: list[str], snapshots: list[int], derived_end: int, now_ms: int
) -> tuple[ProducerState, list[int]]:
    """Producer state, transactions and snapshots of a log that is being opened.

    Transaction indexes of segments from `derived_end` on, and snapshots after it, are ignored.
    """
    trusted_end = load(state, names, derived_end)
    snapshots = remove_stale(state, snapshots, trusted_end)
    producers = restore_producers(state, snapshots, now_ms)
    if trusted_end < MAX_OFFSET:
        remove_superfluous(state, names)
    if trusted_end < derived_end:
        first = state.segment_number(trusted_end)
        end = len(state.segments) - 1 if derived_end == MAX_OFFSET else state.segment_number(derived_end)
        for path, content in files_to_write(state, first, end):
            _write_derived(state, path, content)
    return producers, snapshots


def restore_producers(state: LogState, snapshots: list[int], now_ms: int) -> ProducerState:
    """Replays the log from the newest snapshot, and writes the missing snapshots of later segments."""
    offset, producers = load_newest(state, snapshots)
    producers.transactions.aborted = state.transaction_index
    if offset >= state.log_end_offset:
        return producers
    for number in range(state.segment_number(offset), len(state.segments)):
        base_offset = state.segments[number].base_offset
        if base_offset > offset and base_offset not in snapshots:
            _write_derived(state, snapshot_path(state.directory, base_offset), encode(producers))
            snapshots.append(base_offset)
        try:
            found = list(_producer_batches(state, number, offset))
        except BatchAnomaly:
            state.examine_segment(number)
            found = list(_producer_batches(state, number, offset))
        for header, marker in found:
            producers.record(header, marker, header.base_offset, now_ms)
    return producers


def _write_derived(state: LogState, path: str, content: bytes) -> None:
    """Ignores a full disk: without this file, the next opening takes longer."""
    with suppress(OSError):
        state.fs.write_file(path, content, sync=False)


def _producer_batches(
    state: LogState, number: int, offset: int
) -> Iterator[tuple[BatchHeader, TransactionMarker | None]]:
    """The batches from `offset` on that have a producer id, without damaged regions."""
    segment = state.segments[number]
    stretches = []
    start = 0
    for region in segment.damage:
        stretches.append((start, region.start))
        start = region.end
    stretches.append((start, segment.size))
    for start, end in stretches:
        for position, header in headers(segment.file, start, end, state.config.contiguous_offsets):
            if header.producer_id != NO_PRODUCER_ID and header.base_offset >= offset:
                yield header, _marker_at(segment, position, header) if header.is_control else None


def _marker_at(segment: Segment, position: int, header: BatchHeader) -> TransactionMarker | None:
    batch = memoryview(segment.file.pread(header.size, position))
    if len(batch) < header.size or not crc_holds(batch, header):
        raise BatchAnomaly(position, "the CRC32C does not match")
    return read_marker(batch, header)
