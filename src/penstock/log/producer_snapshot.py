"""Producer state as a file, in Kafka's format: `<offset>.snapshot` holds the state before that offset.

Owns: the format, which snapshot to load, and which to keep.

Kafka writes one entry per producer, its last batch. Here a producer has one entry per remembered batch, oldest first: a
producer may have five in flight when the broker stops, and a retry of each must be recognised afterwards. Kafka can
read this, because a later entry replaces an earlier one of the same producer.

Must never know: the rules of sequences.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from crc32c import crc32c

from penstock.log.batches import MAX_OFFSET
from penstock.log.damage import Damage
from penstock.log.log_state import LogState
from penstock.log.producer_state import BATCHES_KEPT, ProducerEntry, ProducerState, WrittenBatch
from penstock.log.segment import SNAPSHOT_SUFFIX, offset_name
from penstock.protocol.record_batch import NO_SEQUENCE, SEQUENCE_MASK

_VERSION: Final = 1
_HEADER: Final = Struct(">hI")
_COUNT: Final = Struct(">i")
# producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, first offset in
# transaction
_ENTRY: Final = Struct(">qhiqiqiq")
_NO_BATCH: Final = WrittenBatch(NO_SEQUENCE, NO_SEQUENCE, -1, -1)


def encode(state: ProducerState) -> bytes:
    parts = [
        _ENTRY.pack(
            producer_id,
            entry.epoch,
            batch.last_sequence,
            batch.last_offset,
            batch.last_offset - batch.base_offset,
            entry.last_seen_ms,
            entry.coordinator_epoch,
            entry.current_transaction_first_offset,
        )
        for producer_id, entry in state.entries.items()
        for batch in entry.batches or (_NO_BATCH,)
    ]
    body = _COUNT.pack(len(parts)) + b"".join(parts)
    return _HEADER.pack(_VERSION, crc32c(body)) + body


def decode(content: bytes) -> ProducerState | None:
    """None if this is not a complete snapshot."""
    if len(content) < _HEADER.size + _COUNT.size:
        return None
    version, crc = _HEADER.unpack_from(content)
    body = content[_HEADER.size :]
    (count,) = _COUNT.unpack_from(body)
    if version != _VERSION or crc32c(body) != crc or len(body) != _COUNT.size + count * _ENTRY.size:
        return None
    entries: dict[int, ProducerEntry] = {}
    for fields in _ENTRY.iter_unpack(body[_COUNT.size :]):
        producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, first_in_transaction = (
            fields
        )
        earlier = entries.get(producer_id)
        batches = earlier.batches if earlier is not None and earlier.epoch == epoch else ()
        if last_sequence != NO_SEQUENCE:
            first_sequence = (last_sequence - delta) & SEQUENCE_MASK
            batch = WrittenBatch(first_sequence, last_sequence, last_offset - delta, last_offset)
            batches = (*batches[1 - BATCHES_KEPT :], batch)
        entries[producer_id] = ProducerEntry(epoch, batches, timestamp, coordinator_epoch, first_in_transaction)
    state = ProducerState()
    state.restore(entries)
    return state


def snapshot_path(directory: str, offset: int) -> str:
    return f"{directory}/{offset_name(offset)}{SNAPSHOT_SUFFIX}"


def load_newest(log: LogState, offsets: list[int]) -> tuple[int, ProducerState]:
    """The offset and state of the newest valid snapshot among `offsets`; otherwise an empty state at the first segment.

    Damaged ones are removed, also from `offsets`, and written again later.
    """
    oldest = log.segments[0].base_offset
    for offset in sorted(offsets, reverse=True):
        if not oldest <= offset <= log.log_end_offset:
            continue
        path = snapshot_path(log.directory, offset)
        try:
            content = log.fs.read_file(path)
            state = decode(content)
            if state is not None:
                return offset, state
            log.report(Damage(path, 0, len(content), "the producer snapshot is damaged and was ignored"))
            log.fs.remove_file(path)
        except FileNotFoundError:
            pass
        offsets.remove(offset)
    return oldest, ProducerState()


def remove_stale(log: LogState, offsets: list[int], newest: int = MAX_OFFSET) -> list[int]:
    """Removes snapshots beyond the end of the log, and all but the newest and those at the start of a segment.

    The replay of a segment begins with the snapshot at its start. Snapshots after `newest` are invalid and removed too.
    Returns the remaining ones.
    """
    usable = sorted(offset for offset in offsets if offset <= min(newest, log.log_end_offset))
    starts = {segment.base_offset for segment in log.segments}
    kept = [offset for offset in usable if offset in starts or offset == usable[-1]]
    for offset in set(offsets) - set(kept):
        try:
            log.fs.remove_file(snapshot_path(log.directory, offset))
        except FileNotFoundError:
            continue
    return kept
