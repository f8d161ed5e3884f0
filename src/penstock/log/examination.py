"""Examines every byte of a segment: after a crash, and when a read finds an inconsistency.

Owns: telling good batches from damage, and what is derived from the batches (indexes, max timestamp, leader epochs).
Must never know: how damage is handled. `recovery.py` truncates torn tails, because it knows what was flushed.

Invariant: an examination changes no file.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.log.batches import MAX_OFFSET, BatchAnomaly, checked_batches, crc_in_file, headers
from penstock.log.config import LogConfig
from penstock.log.filesystem import File
from penstock.log.index import OffsetIndex, TimeIndex
from penstock.log.leader_epochs import EpochRun, LeaderEpochs
from penstock.log.resumption import Resumption, Stretch, find_resumption
from penstock.log.segment import RELATIVE_OFFSET_MAX, DamagedRegion, Segment
from penstock.protocol.record_batch import HEADER_BYTES, LOG_OVERHEAD, NO_TIMESTAMP, BatchHeader, parse_header


@dataclass(slots=True)
class Examination:
    """The verified content of a segment."""

    end_offset: int  # after the last good batch
    good_end: int = 0  # the position after the last good batch
    offset_index: OffsetIndex = field(default_factory=OffsetIndex)
    time_index: TimeIndex = field(default_factory=TimeIndex)
    bytes_since_index_entry: int = 0
    max_timestamp: int = NO_TIMESTAMP
    max_timestamp_offset: int = 0
    damage: list[DamagedRegion] = field(default_factory=list)
    bad_tail: BatchAnomaly | None = None  # bytes at the end without a good batch after them
    unconfirmed: Resumption | None = None  # a good batch in those bytes, whose offsets are unconfirmed
    runs: list[EpochRun] = field(default_factory=list)


def examine(
    segment: Segment,
    upper_offset: int | None,
    config: LogConfig,
    epochs: LeaderEpochs,
    *,
    may_be_torn_from: int = MAX_OFFSET,
) -> Examination:
    """Verifies the whole segment. `upper_offset` is the base offset of the next segment, None for the last one.

    From the offset `may_be_torn_from` on, a crash may have interrupted a write.
    """
    contiguous = config.contiguous_offsets
    file, limit = segment.file, segment.size
    highest_offset = segment.base_offset + RELATIVE_OFFSET_MAX + 1 if upper_offset is None else upper_offset
    stretch = Stretch(file, limit, highest_offset, contiguous)
    found = Examination(end_offset=segment.base_offset, max_timestamp_offset=segment.base_offset)
    position = 0
    while position < limit:
        try:
            for at, header in checked_batches(file, position, limit, found.end_offset, contiguous):
                if header.end_offset > highest_offset:
                    raise BatchAnomaly(at, f"the batch overlaps the next segment, which begins at {highest_offset}")
                position = at + header.size
                _add_batch(found, segment.base_offset, at, header, config, epochs)
        except BatchAnomaly as anomaly:
            position = anomaly.position
            may_be_torn = found.end_offset >= may_be_torn_from
            following = find_resumption(stretch, position, found.end_offset, may_be_torn=may_be_torn)
            if following is None or not following.confirmed:
                found.bad_tail = anomaly
                found.unconfirmed = following
                break
            resume_offset = following.header.base_offset
            found.damage.append(
                DamagedRegion(position, following.position, found.end_offset, resume_offset, anomaly.reason)
            )
            position, found.end_offset = following.position, resume_offset
    _close_gap_to_next_segment(found, limit, upper_offset, contiguous)
    return found


def adopt(segment: Segment, found: Examination) -> None:
    """Replaces the segment's state by the result of its examination."""
    segment.adopt_indexes(found.offset_index, found.time_index)
    segment.bytes_since_index_entry = found.bytes_since_index_entry
    segment.max_timestamp = found.max_timestamp
    segment.max_timestamp_offset = found.max_timestamp_offset
    segment.max_timestamp_known = True
    segment.damage = found.damage
    segment.examined = True
    segment.unverified_end = 0
    segment.verified.clear()
    segment.reset_tail()


def header_runs(segment: Segment, config: LogConfig, epochs: LeaderEpochs) -> list[EpochRun]:
    """The runs of leader epochs, by headers alone; raises BatchAnomaly if the headers are inconsistent."""
    runs: list[EpochRun] = []
    for at, header in headers(segment.file, 0, segment.size, config.contiguous_offsets):
        _extend_runs(runs, at, header, epochs)
    return runs


def mark_wrong_epochs(found: Examination, epochs: LeaderEpochs) -> None:
    """Marks batches with a wrong leader epoch as damaged; their CRC does not cover it."""
    for run in found.runs:
        if epochs.epoch_at(run.first_offset) != run.epoch:
            reason = f"the leader epoch is {run.epoch} instead of {epochs.epoch_at(run.first_offset)}"
            found.damage.append(DamagedRegion(run.start, run.end, run.first_offset, run.end_offset, reason))
    found.damage.sort(key=lambda region: region.start)


def is_torn(file: File, position: int, limit: int) -> bool:
    """Whether the bytes from `position` are an incomplete batch rather than a damaged one.

    A batch with a damaged length also seems to end beyond the file; then its CRC matches the bytes up to the end.
    """
    if limit - position < HEADER_BYTES:
        return True
    header = parse_header(file.pread(HEADER_BYTES, position))
    if header.size <= limit - position:
        return False
    return not crc_in_file(file, position, header._replace(batch_length=limit - position - LOG_OVERHEAD))


def _add_batch(
    found: Examination, base_offset: int, position: int, header: BatchHeader, config: LogConfig, epochs: LeaderEpochs
) -> None:
    """The bookkeeping of `Segment.note_append`, for an existing batch."""
    last_offset = header.end_offset - 1
    if header.max_timestamp > found.max_timestamp:
        found.max_timestamp = header.max_timestamp
        found.max_timestamp_offset = last_offset
    if found.bytes_since_index_entry > config.index_interval_bytes:
        found.offset_index.append(last_offset - base_offset, position)
        if found.max_timestamp >= 0:
            found.time_index.append_if_newer(found.max_timestamp, found.max_timestamp_offset - base_offset)
        found.bytes_since_index_entry = 0
    found.bytes_since_index_entry += header.size
    found.end_offset = header.end_offset
    found.good_end = position + header.size
    _extend_runs(found.runs, position, header, epochs)


def _extend_runs(runs: list[EpochRun], position: int, header: BatchHeader, epochs: LeaderEpochs) -> None:
    epoch = header.partition_leader_epoch
    checkpoint_epoch = epochs.epoch_at(header.base_offset)
    last = runs[-1] if runs else None
    if last is not None and last.epoch == epoch and last.checkpoint_epoch == checkpoint_epoch and last.end == position:
        last.end = position + header.size
        last.end_offset = header.end_offset
        last.batches += 1
    else:
        runs.append(
            EpochRun(epoch, checkpoint_epoch, header.base_offset, header.end_offset, position, position + header.size)
        )


def _close_gap_to_next_segment(found: Examination, limit: int, upper_offset: int | None, contiguous: bool) -> None:
    """Every offset up to the next segment must be in a batch or in a damaged region."""
    if upper_offset is None or (found.bad_tail is None and (found.end_offset == upper_offset or not contiguous)):
        return
    if found.bad_tail is not None:
        start, reason = found.bad_tail.position, found.bad_tail.reason
        found.bad_tail = None
    else:
        start = limit
        reason = f"the segment ends before offset {found.end_offset}, the next one begins at {upper_offset}"
    found.damage.append(DamagedRegion(start, limit, found.end_offset, upper_offset, reason))
