"""Opens a log: finds its segments and its end, and repairs what a crash left behind.

Owns: the distinction between a torn tail, which is truncated, and damage, which is reported and kept.
Must never know: appending to or reading from an open log.

Invariants: after a clean shutdown no file is scanned and none is changed, except that an incomplete last batch is
truncated. Bytes below the recovery point were flushed, so no complete batch below it is ever truncated, even if it is
damaged.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.ids import LeaderEpoch
from penstock.log.batches import MAX_OFFSET, BatchAnomaly, headers
from penstock.log.cleaning.swap import complete_swaps
from penstock.log.damage import Damage
from penstock.log.examination import Examination, adopt, examine, is_torn
from penstock.log.filesystem import TEMPORARY_SUFFIX
from penstock.log.leader_epochs import CHECKPOINT_NAME, LeaderEpochs
from penstock.log.log_state import LogState
from penstock.log.producer_recovery import recover_producers
from penstock.log.producer_state import ProducerState
from penstock.log.segment import LOG_SUFFIX, SNAPSHOT_SUFFIX, DamagedRegion, Segment, offset_name
from penstock.protocol.record_batch import BatchHeader

_NAME_DIGITS = 20


@dataclass(slots=True)
class Recovered:
    producers: ProducerState
    snapshots: list[int]
    recovery_point: int
    epochs_on_disk: bool
    directory_changed: bool
    must_roll: bool  # the active segment ends in damage, which is kept; the next batch begins a new segment


def recover(
    state: LogState,
    *,
    clean_shutdown: bool,
    recovery_point: int,
    log_start_offset: int,
    newest_epoch: int,
    now_ms: int,
) -> Recovered:
    """Fills an empty state from the directory."""
    names = complete_swaps(state.fs, state.directory, state.fs.list_directory(state.directory))
    is_new = _find_segments(state, names, log_start_offset)
    checkpoint = _load_epochs(state, names)
    state.epochs = checkpoint or LeaderEpochs()
    state.unflushed_from = MAX_OFFSET if clean_shutdown else recovery_point
    state.newest_epoch = LeaderEpoch(newest_epoch)
    must_roll = False
    derived_end = MAX_OFFSET  # from here on, derived files of segments may be older than their batches
    if not clean_shutdown or not _learn_end(state, recovery_point):
        examined = _examine_tail(state, clean_shutdown, recovery_point)
        must_roll = _repair_end(state, examined[len(state.segments) - 1], clean_shutdown, recovery_point)
        if checkpoint is None:
            state.check_epochs(None, examined, trust_single_batches=CHECKPOINT_NAME not in names)
        _adopt(state, examined)
        # The segment before the examined ones may have been flushed only before it was sealed.
        number = min(*examined, state.segment_number(max(0, recovery_point - 1)))
        derived_end = state.segments[number].base_offset
        clean_shutdown = False
    elif checkpoint is None and len(state.segments) > 1:
        state.check_epochs(None, {}, trust_single_batches=CHECKPOINT_NAME not in names)
    state.epochs.truncate(state.log_end_offset + 1)
    _repair_start(state)
    producers, snapshots = recover_producers(state, names, _offsets(names, SNAPSHOT_SUFFIX), derived_end, now_ms)
    return Recovered(
        producers,
        snapshots,
        recovery_point=state.log_end_offset if clean_shutdown else min(recovery_point, state.log_end_offset),
        epochs_on_disk=state.epochs.entries == (checkpoint.entries if checkpoint else []),
        directory_changed=is_new or not clean_shutdown,
        must_roll=must_roll,
    )


def _offsets(names: list[str], suffix: str) -> list[int]:
    stems = [name[: -len(suffix)] for name in names if name.endswith(suffix)]
    return sorted(int(stem) for stem in stems if len(stem) == _NAME_DIGITS and stem.isdecimal())


def _find_segments(state: LogState, names: list[str], log_start_offset: int) -> bool:
    """Lists the segments, or creates the first one; returns whether it did."""
    for name in names:
        if name.endswith(TEMPORARY_SUFFIX):
            state.fs.remove_file(f"{state.directory}/{name}")
    bases = _offsets(names, LOG_SUFFIX)
    for base_offset in bases:
        size = state.fs.size(f"{state.directory}/{offset_name(base_offset)}{LOG_SUFFIX}")
        state.add_segment(Segment(state.fs, state.caches, state.directory, base_offset, size))
    if not bases:
        state.add_segment(Segment.create(state.fs, state.caches, state.directory, log_start_offset))
    for number, segment in enumerate(state.segments[:-1]):
        segment.unverified_end_offset = state.end_offset_of(number)
    state.log_start_offset = max(log_start_offset, state.segments[0].base_offset)
    return not bases


def _load_epochs(state: LogState, names: list[str]) -> LeaderEpochs | None:
    """None if there is no valid checkpoint."""
    if CHECKPOINT_NAME not in names:
        return None
    content = state.fs.read_file(state.epoch_checkpoint_path)
    epochs = LeaderEpochs.decode(content)
    if epochs is None:
        state.report(Damage(state.epoch_checkpoint_path, 0, len(content), "it is not a leader epoch checkpoint"))
    return epochs


def _learn_end(state: LogState, recovery_point: int) -> bool:
    """After a clean shutdown: finds the log end offset from the last few headers. False if anything is inconsistent."""
    segment = state.active
    end_offset = segment.base_offset
    try:
        last = _last_header(segment, state.config.contiguous_offsets) if segment.size else None
    except BatchAnomaly:
        return False
    if last is not None:
        end_offset = last.end_offset
        if last.partition_leader_epoch != state.epochs.epoch_at(last.base_offset):
            return False
    if end_offset < recovery_point:
        return False
    state.log_end_offset = end_offset
    segment.unverified_end_offset = end_offset
    return True


def _last_header(segment: Segment, contiguous: bool) -> BatchHeader:
    entry = segment.last_index_entry()
    position = 0 if entry is None else entry[1]
    last = None
    for _, header in headers(segment.file, position, segment.size, contiguous):
        if last is None:
            if entry is not None and header.end_offset - 1 != entry[0]:
                raise BatchAnomaly(position, "the index has another offset")
            if entry is None and contiguous and header.base_offset != segment.base_offset:
                raise BatchAnomaly(position, "the segment begins with another offset")
        last = header
        segment.bytes_since_index_entry += header.size
    if last is None:
        raise BatchAnomaly(position, "the index points beyond the log")
    return last


def _examine_tail(state: LogState, clean_shutdown: bool, recovery_point: int) -> dict[int, Examination]:
    """Examines every segment that may have a torn tail, by number; always includes the last one."""
    first = len(state.segments) - 1 if clean_shutdown else state.segment_number(recovery_point)
    may_be_torn_from = MAX_OFFSET if clean_shutdown else recovery_point
    examined = {
        number: examine(
            state.segments[number],
            state.upper_offset(number),
            state.config,
            state.epochs,
            may_be_torn_from=may_be_torn_from,
        )
        for number in range(first, len(state.segments))
    }
    if not clean_shutdown:
        _drop_empty_tail(state, examined, recovery_point)
    return examined


def _adopt(state: LogState, examined: dict[int, Examination]) -> None:
    state.resolve_epochs(examined)
    for number, found in examined.items():
        segment = state.segments[number]
        adopt(segment, found)
        state.report_regions(segment)
        if segment is not state.active:
            segment.save_indexes()
            segment.release()


def _drop_empty_tail(state: LogState, examined: dict[int, Examination], recovery_point: int) -> None:
    """A crash may keep the name of a later segment and lose its bytes together with the tail of the one before.

    Then no good batch follows that tail: it is the end of the log, and the empty segments are removed.
    """
    last = len(state.segments) - 1
    while last - 1 in examined and examined[last].good_end == 0:
        before = examined[last - 1]
        empty = state.segments[last]
        if before.end_offset == empty.base_offset or before.end_offset < recovery_point:
            break
        if empty.base_offset <= state.log_start_offset:
            break  # Earlier records were deleted; see `_repair_start`.
        state.report(Damage(empty.log_path, 0, empty.size, "no batch in it is whole", removed=True))
        state.drop_segments(last, last + 1)
        del examined[last]
        last -= 1
        examined[last] = examine(
            state.segments[last], None, state.config, state.epochs, may_be_torn_from=recovery_point
        )


def _repair_end(state: LogState, found: Examination, clean_shutdown: bool, recovery_point: int) -> bool:
    """Truncates a torn tail of the active segment, or keeps a damaged one; returns whether damage is kept."""
    segment = state.active
    state.log_end_offset = found.end_offset
    if found.bad_tail is None:
        if found.end_offset < recovery_point:
            reason = f"the log ends at offset {found.end_offset}, but was flushed up to offset {recovery_point}"
            state.report(Damage(segment.log_path, segment.size, 0, reason))
        return False
    position, reason = found.bad_tail.position, found.bad_tail.reason
    length = segment.size - position
    was_flushed = clean_shutdown or found.end_offset < recovery_point
    if found.unconfirmed is None and (not was_flushed or is_torn(segment.file, position, segment.size)):
        if was_flushed:
            reason += f"; the log was flushed up to offset {recovery_point}"
        segment.file.truncate(position)
        segment.file.sync()  # otherwise a power failure could mix these bytes with later ones
        segment.size = position
        state.report(Damage(segment.log_path, position, length, reason, removed=True))
        return False
    # These bytes were complete. Their offsets are not reused: a consumer that read them must not see others in their
    # place.
    claimed = found.unconfirmed.header.end_offset if found.unconfirmed else 0
    state.log_end_offset = max(found.end_offset + 1, recovery_point, claimed)
    found.damage.append(DamagedRegion(position, segment.size, found.end_offset, state.log_end_offset, reason))
    return True


def _repair_start(state: LogState) -> None:
    """Deleted records stay deleted: a log that ends before its start offset continues at its start offset."""
    if state.log_start_offset > state.log_end_offset:
        reason = f"the log ends at offset {state.log_end_offset}, before its start {state.log_start_offset}"
        state.report(Damage(state.active.log_path, state.active.size, 0, reason))
        state.active.save_indexes()
        state.active.release()
        state.add_segment(Segment.create(state.fs, state.caches, state.directory, state.log_start_offset))
        state.log_end_offset = state.log_start_offset
