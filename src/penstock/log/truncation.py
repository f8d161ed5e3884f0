"""The new end of a log: removes batches that another replica's log does not have.

Must never know: why a log is truncated, and to which offset.

Invariant: afterwards segments, indexes, leader epochs, producers and transactions agree on the end of the log, and what
was removed does not come back after a power failure.
"""

from __future__ import annotations

from penstock.log.appender import LogAppender
from penstock.log.lifecycle import LogLifecycle
from penstock.log.log_state import LogState
from penstock.log.producer_recovery import restore_producers
from penstock.log.producer_snapshot import remove_stale
from penstock.log.reader import LogReader
from penstock.log.segment import Segment
from penstock.log.transaction_index_files import remove_index_file


def truncate_to(
    state: LogState, appender: LogAppender, reader: LogReader, lifecycle: LogLifecycle, offset: int
) -> None:
    """Removes the batch with `offset` and everything after it; the log then ends where that batch began.

    At the end of the log, this removes leader epochs that began there and have no batches.
    """
    assert not appender.has_staged, "truncating under staged batches"
    if offset >= state.log_end_offset:
        _truncate_epochs(state, appender, offset)
        appender.reset()
        return
    if offset < state.segments[0].base_offset:
        restart_at(state, appender, lifecycle, offset)
        return
    lifecycle.complete_swap()
    number = state.segment_number(offset)
    segment = state.segments[number]
    position, end_offset = reader.end_before(number, offset)
    state.drop_segments(number + 1, len(state.segments))
    segment.file.truncate(position)
    segment.file.sync()  # otherwise a power failure could bring the removed records back
    segment.size = position
    state.log_end_offset = end_offset
    state.log_start_offset = min(state.log_start_offset, end_offset)
    _truncate_epochs(state, appender, end_offset)
    lifecycle.truncated(end_offset)
    state.transaction_index.truncate(end_offset)
    remove_index_file(state, segment)
    appender.snapshots = remove_stale(state, appender.snapshots)
    _sync_names(state, appender)
    state.examine_segment(number)
    _restore_producers(state, appender)
    appender.reset()


def restart_at(state: LogState, appender: LogAppender, lifecycle: LogLifecycle, offset: int) -> None:
    """Removes all batches: the log is empty, and begins and ends at `offset`.

    After an OSError the log must not be used any more.
    """
    assert not appender.has_staged, "truncating under staged batches"
    lifecycle.complete_swap()
    # From the end on: what a crash leaves is then a shorter log without gaps.
    for number in reversed(range(len(state.segments))):
        state.drop_segments(number, number + 1)
    _sync_names(state, appender)
    state.log_start_offset = state.log_end_offset = offset
    state.add_segment(Segment.create(state.fs, state.caches, state.directory, offset))
    appender.directory_changed = True
    appender.must_roll = False
    _truncate_epochs(state, appender, 0)
    lifecycle.truncated(offset)
    state.transaction_index.truncate(0)
    appender.snapshots = remove_stale(state, appender.snapshots, newest=-1)
    _restore_producers(state, appender)
    appender.reset()


def _truncate_epochs(state: LogState, appender: LogAppender, end_offset: int) -> None:
    if state.epochs.truncate(end_offset):
        # At once: after a crash, an epoch that began at the end of the log could not be told from a true one.
        state.fs.write_file(state.epoch_checkpoint_path, state.epochs.encode(), sync=False)
    appender.epochs_changed = True  # a flush that is under way may bring the old ones back


def _sync_names(state: LogState, appender: LogAppender) -> None:
    if appender.epochs_changed:
        # Its name must not reach the disk without its content, which was written without a sync.
        state.fs.write_file(state.epoch_checkpoint_path, state.epochs.encode(), sync=True)
    state.fs.sync_directory(state.directory)


def _restore_producers(state: LogState, appender: LogAppender) -> None:
    last_seen_ms = max((entry.last_seen_ms for entry in appender.producers.entries.values()), default=0)
    appender.producers = restore_producers(state, appender.snapshots, last_seen_ms)
