"""Producer state as a file, in Kafka's format: `<offset>.snapshot` holds the state before that offset.

Owns: the bytes, which snapshot to believe, and which to keep.

Kafka writes one entry a producer, its last batch. Here a producer has one entry for each batch that is remembered,
oldest first: a producer may have five in flight when the broker stops, and the repeat of every one of them must be
recognised afterwards. Kafka reads that too, because a later entry replaces an earlier one of the same producer.

Must never know: the rules of sequences.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from crc32c import crc32c

from penstock.log.damage import Damage
from penstock.log.log_state import LogState
from penstock.log.producer_state import BATCHES_KEPT, ProducerEntry, ProducerState, WrittenBatch
from penstock.log.segment import SNAPSHOT_SUFFIX, offset_name

SNAPSHOTS_KEPT: Final = 3

_VERSION: Final = 1
_HEADER: Final = Struct(">hI")
_COUNT: Final = Struct(">i")
# producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, first offset in
# transaction
_ENTRY: Final = Struct(">qhiqiqiq")
_NO_SEQUENCE: Final = -1
_SEQUENCE_MASK: Final = 0x7FFFFFFF
_NO_BATCH: Final = WrittenBatch(_NO_SEQUENCE, _NO_SEQUENCE, -1, -1)


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
    """None if these bytes are not a whole snapshot."""
    if len(content) < _HEADER.size + _COUNT.size:
        return None
    version, crc = _HEADER.unpack_from(content)
    body = content[_HEADER.size :]
    (count,) = _COUNT.unpack_from(body)
    if version != _VERSION or crc32c(body) != crc or len(body) != _COUNT.size + count * _ENTRY.size:
        return None
    state = ProducerState()
    for fields in _ENTRY.iter_unpack(body[_COUNT.size :]):
        producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, first_in_transaction = (
            fields
        )
        earlier = state.entries.get(producer_id)
        batches = earlier.batches if earlier is not None and earlier.epoch == epoch else ()
        if last_sequence != _NO_SEQUENCE:
            first_sequence = (last_sequence - delta) & _SEQUENCE_MASK
            batch = WrittenBatch(first_sequence, last_sequence, last_offset - delta, last_offset)
            batches = (*batches[1 - BATCHES_KEPT :], batch)
        state.entries[producer_id] = ProducerEntry(epoch, batches, timestamp, coordinator_epoch, first_in_transaction)
    return state


def snapshot_path(directory: str, offset: int) -> str:
    return f"{directory}/{offset_name(offset)}{SNAPSHOT_SUFFIX}"


def load_newest(log: LogState, offsets: list[int]) -> tuple[int, ProducerState]:
    """The newest usable snapshot of those named by `offsets`, and its offset; an empty state at the log's start."""
    for offset in sorted(offsets, reverse=True):
        if not log.log_start_offset <= offset <= log.log_end_offset:
            continue
        path = snapshot_path(log.directory, offset)
        content = log.fs.read_file(path)
        state = decode(content)
        if state is not None:
            return offset, state
        log.report(Damage(path, 0, len(content), "the producer snapshot is damaged and was not used"))
    return log.log_start_offset, ProducerState()


def remove_stale(log: LogState, offsets: list[int]) -> list[int]:
    """Removes snapshots of a future that was cut off, and all but the newest; returns what is left."""
    usable = sorted(offset for offset in offsets if offset <= log.log_end_offset)
    kept = usable[-SNAPSHOTS_KEPT:]
    for offset in set(offsets) - set(kept):
        try:
            log.fs.remove_file(snapshot_path(log.directory, offset))
        except FileNotFoundError:
            continue
    return kept
