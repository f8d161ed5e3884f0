"""Looking at every byte of a segment: after a crash, and when a read met something that cannot be right.

Owns: telling good batches from damage, and everything that is derived from the batches on the way (indexes, newest
timestamp, runs of leader epochs).
Must never know: what is done about damage. A torn tail is cut by `recovery.py`, which knows what had been flushed.

Invariant: nothing in a file is ever changed here.
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
    """What a segment really holds."""

    end_offset: int  # behind the last good batch
    good_end: int = 0  # the position behind the last good batch
    offset_index: OffsetIndex = field(default_factory=OffsetIndex)
    time_index: TimeIndex = field(default_factory=TimeIndex)
    bytes_since_index_entry: int = 0
    max_timestamp: int = NO_TIMESTAMP
    max_timestamp_offset: int = 0
    damage: list[DamagedRegion] = field(default_factory=list)
    bad_tail: BatchAnomaly | None = None  # bytes at the end behind which no good batch follows
    unvouched: Resumption | None = None  # a good batch in those bytes, whose offsets nothing confirms
    runs: list[EpochRun] = field(default_factory=list)


def examine(
    segment: Segment,
    upper_offset: int | None,
    config: LogConfig,
    epochs: LeaderEpochs,
    *,
    may_be_torn_from: int = MAX_OFFSET,
) -> Examination:
    """Verifies the whole segment. `upper_offset` is where the next segment begins, None for the last one.

    From the offset `may_be_torn_from` on, the last process may have died in the middle of a write.
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
                    raise BatchAnomaly(at, f"the batch reaches into the next segment, which begins at {highest_offset}")
                position = at + header.size
                _take_in(found, segment.base_offset, at, header, config, epochs)
        except BatchAnomaly as anomaly:
            position = anomaly.position
            may_be_torn = found.end_offset >= may_be_torn_from
            following = find_resumption(stretch, position, found.end_offset, may_be_torn=may_be_torn)
            if following is None or not following.vouched:
                found.bad_tail = anomaly
                found.unvouched = following
                break
            resume_offset = following.header.base_offset
            found.damage.append(
                DamagedRegion(position, following.position, found.end_offset, resume_offset, anomaly.reason)
            )
            position, found.end_offset = following.position, resume_offset
    _close_gap_to_next_segment(found, limit, upper_offset, contiguous)
    return found


def adopt(segment: Segment, found: Examination) -> None:
    """Makes the segment believe the examination rather than its files."""
    segment.adopt_indexes(found.offset_index, found.time_index)
    segment.bytes_since_index_entry = found.bytes_since_index_entry
    segment.max_timestamp = found.max_timestamp
    segment.max_timestamp_offset = found.max_timestamp_offset
    segment.max_timestamp_known = True
    segment.damage = found.damage
    segment.examined = True
    segment.unverified_end = 0
    segment.verified.clear()
    segment.forget_tail()


def header_runs(segment: Segment, config: LogConfig, epochs: LeaderEpochs) -> list[EpochRun]:
    """The runs of leader epochs by headers alone; BatchAnomaly if they cannot be followed to the end."""
    runs: list[EpochRun] = []
    for at, header in headers(segment.file, 0, segment.size, config.contiguous_offsets):
        _extend_runs(runs, at, header, epochs)
    return runs


def mark_wrong_epochs(found: Examination, epochs: LeaderEpochs) -> None:
    """Batches whose epoch is not the one of their time are damaged, although their CRC cannot tell."""
    for run in found.runs:
        if epochs.epoch_at(run.first_offset) != run.epoch:
            reason = f"the leader epoch is {run.epoch} where {epochs.epoch_at(run.first_offset)} was leading"
            found.damage.append(DamagedRegion(run.start, run.end, run.first_offset, run.end_offset, reason))
    found.damage.sort(key=lambda region: region.start)


def is_torn(file: File, position: int, limit: int) -> bool:
    """Whether the bytes from `position` are the beginning of a batch whose end is missing, rather than a damaged batch.

    A batch whose length was damaged also seems to end behind the file; its CRC tells, taken up to the end of the file.
    """
    if limit - position < HEADER_BYTES:
        return True
    header = parse_header(file.pread(HEADER_BYTES, position))
    if header.size <= limit - position:
        return False
    return not crc_in_file(file, position, header._replace(batch_length=limit - position - LOG_OVERHEAD))


def _take_in(
    found: Examination, base_offset: int, position: int, header: BatchHeader, config: LogConfig, epochs: LeaderEpochs
) -> None:
    """The bookkeeping of `Segment.note_append`, for a batch that was there already."""
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
    """Every offset up to the next segment must be accounted for: by batches, or as damage."""
    if upper_offset is None or (found.bad_tail is None and (found.end_offset == upper_offset or not contiguous)):
        return
    if found.bad_tail is not None:
        start, reason = found.bad_tail.position, found.bad_tail.reason
        found.bad_tail = None
    else:
        start = limit
        reason = f"the segment ends before offset {found.end_offset}, the next one begins at {upper_offset}"
    found.damage.append(DamagedRegion(start, limit, found.end_offset, upper_offset, reason))
