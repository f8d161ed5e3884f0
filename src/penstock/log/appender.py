"""Appends in two steps: stages batches one by one, then writes them together.

Owns: the assignment of offsets, rolling segments, one write per segment, and the rollback after a failed write.
Must never know: where batches come from. The caller owns the memory of a staged batch and keeps it until
`write_staged`.

Invariants: `stage` changes nothing that a reader sees. `write_staged` makes all staged batches visible or, if it
raises, none: then offsets and producer state are the same as before the first of them was staged.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from crc32c import crc32c

from penstock.log.batches import BatchAnomaly, headers
from penstock.log.filesystem import write_fully
from penstock.log.leader_epochs import LeaderEpochs
from penstock.log.log_state import LogState
from penstock.log.producer_snapshot import encode as encode_snapshot
from penstock.log.producer_snapshot import remove_stale, snapshot_path
from penstock.log.producer_state import ProducerState
from penstock.log.segment import RELATIVE_OFFSET_MAX, Segment
from penstock.log.time_lookup import TimeLookup
from penstock.protocol.control_records import read_marker
from penstock.protocol.record_batch import CONTROL_FLAG, BatchHeader, assign


@dataclass(slots=True)
class _Group:
    """Staged batches for one segment, written at once. Every group but the first begins a new segment."""

    base_offset: int
    snapshot: bytes  # the producer state before the first batch
    buffers: list[memoryview] = field(default_factory=list)
    batches: list[tuple[int, int, int]] = field(default_factory=list)  # last offset, size, max timestamp of each

    @property
    def size(self) -> int:
        return sum(size for _, size, _ in self.batches)


class LogAppender:
    __slots__ = (
        "_batches",
        "_buffers",
        "_by_batch_time",
        "_epoch",
        "_groups",
        "_last_offset_max",
        "_must_truncate_tail",
        "_next_offset",
        "_prepared",
        "_roll_after_ms",
        "_segment_bytes",
        "_segment_end",
        "_staged_epochs",
        "_state",
        "_time_lookup",
        "directory_changed",
        "epochs_changed",
        "must_roll",
        "producers",
        "snapshots",
    )

    def __init__(
        self, state: LogState, time_lookup: TimeLookup, producers: ProducerState, snapshots: list[int]
    ) -> None:
        self._state = state
        self._time_lookup = time_lookup
        self.producers = producers
        self.snapshots = snapshots
        self.must_roll = False  # the active segment accepts no more batches, whatever its size
        self.directory_changed = True  # the directory has names that may not be synced yet
        self.epochs_changed = False  # the leader epoch checkpoint may not be synced yet
        self._must_truncate_tail = False  # a failed write left bytes after the end of the active segment
        self.reset()

    def reset(self) -> None:
        """Discards staged state and starts from the end of the log."""
        self._buffers: list[memoryview] = []
        self._batches: list[tuple[int, int, int]] = []
        self._groups = [_Group(-1, b"", self._buffers, self._batches)]
        self._staged_epochs: list[tuple[int, int]] = []
        self._epoch = self._state.epochs.latest
        self._next_offset = self._state.log_end_offset
        self._prepared = False
        self._segment_end = 0
        self._segment_bytes = 0
        self._last_offset_max = 0
        self._roll_after_ms = 0
        self._by_batch_time = True

    @property
    def has_staged(self) -> bool:
        return bool(self._buffers)

    def stage(self, batch: memoryview, header: BatchHeader, leader_epoch: int, now_ms: int) -> int:
        """Assigns the next offsets to the batch, in place, and stages it. Returns its base offset."""
        if not self._prepared:
            self._prepare(header, now_ms)
        size = len(batch)
        timestamp = header.max_timestamp
        base_offset = self._next_offset
        last_offset = base_offset + header.last_offset_delta
        segment_end = self._segment_end + size
        if (
            segment_end > self._segment_bytes
            or (timestamp if self._by_batch_time else now_ms) > self._roll_after_ms
            or last_offset > self._last_offset_max
        ) and self._segment_end:
            self._stage_roll(base_offset, timestamp, now_ms)
            segment_end = size
        if leader_epoch != self._epoch:
            self._staged_epochs.append((leader_epoch, base_offset))
            self._epoch = leader_epoch
        assign(batch, base_offset, leader_epoch)
        if header.producer_id >= 0:
            if header.attributes & CONTROL_FLAG:
                self._stage_marker(batch, header, base_offset, now_ms)
            else:
                self.producers.stage(header, base_offset, now_ms)
        self._buffers.append(batch)
        self._batches.append((last_offset, size, timestamp))
        self._segment_end = segment_end
        self._next_offset = last_offset + 1
        return base_offset

    def stage_as_is(self, batch: memoryview, header: BatchHeader, now_ms: int) -> None:
        """Stages a batch of another replica, which has its offsets and its leader epoch.

        It may leave out offsets whose records were removed by compaction. Raises BatchAnomaly for a batch that does not
        continue the log.
        """
        if header.base_offset < self._next_offset or header.partition_leader_epoch < self._epoch:
            raise BatchAnomaly(
                0,
                f"offset {header.base_offset} of leader epoch {header.partition_leader_epoch} does not continue a log "
                f"that ends at {self._next_offset} in epoch {self._epoch}",
            )
        if not self._prepared:
            self._prepare(header, now_ms)
        self._next_offset = header.base_offset
        self.stage(batch, header, header.partition_leader_epoch, now_ms)

    @property
    def next_offset(self) -> int:
        """Where the next batch goes: behind those that are staged."""
        return self._next_offset

    def begin_epoch(self, leader_epoch: int) -> None:
        """The batches from the end of the log on will have this epoch, also if none is ever written."""
        state = self._state
        assert not self.has_staged, "an epoch begins under staged batches"
        if leader_epoch <= state.epochs.latest:
            return
        epochs = LeaderEpochs(state.epochs.entries)
        epochs.assign(leader_epoch, state.log_end_offset)
        state.fs.write_file(state.epoch_checkpoint_path, epochs.encode(), sync=False)
        state.epochs = epochs
        self.epochs_changed = True
        self._epoch = leader_epoch

    def _stage_marker(self, batch: memoryview, header: BatchHeader, base_offset: int, now_ms: int) -> None:
        marker = read_marker(batch, header)
        if marker is not None:
            self.producers.stage_marker(header, marker, base_offset, now_ms)

    def write_staged(self) -> None:
        """Writes all staged batches. After an OSError none of them is in the log."""
        buffers = self._buffers
        if not buffers:
            return
        state = self._state
        try:
            if len(self._groups) > 1 or self._staged_epochs or self._must_truncate_tail:
                self._write_groups()
            else:
                segment = state.segments[-1]
                write_fully(segment.file, buffers, self._segment_end - segment.size, segment.size)
                if segment.note_append(self._batches, state.config.index_interval_bytes):
                    self._roll_if_index_is_full(segment)
                self._batches.clear()
                buffers.clear()
        except OSError:
            self._roll_back()
            raise
        self.producers.commit()
        state.log_end_offset = self._next_offset

    def roll(self) -> None:
        """Begins a new segment at the end of the log, without a batch. After an OSError the log is unchanged."""
        state = self._state
        assert not self.has_staged, "rolling under staged batches"
        if state.active.size == 0:
            return
        end_offset = state.log_end_offset
        segment = Segment.create(state.fs, state.caches, state.directory, end_offset)
        try:
            snapshot = encode_snapshot(self.producers)
            state.fs.write_file(snapshot_path(state.directory, end_offset), snapshot, sync=False)
        except OSError:
            segment.remove()
            raise
        self._seal(state.active)
        state.add_segment(segment)
        self.snapshots = remove_stale(state, [*self.snapshots, end_offset])
        self.must_roll = False
        self.directory_changed = True
        self.reset()

    def _prepare(self, header: BatchHeader, now_ms: int) -> None:
        """Before the first append after opening or a failure: determines the limits of the active segment."""
        state = self._state
        segment = state.active
        self._time_lookup.max_timestamp_of(len(state.segments) - 1)
        try:
            segment.hold_indexes()
        except BatchAnomaly:
            state.examine_segment(len(state.segments) - 1)
        segment.hold_file()
        self._segment_end = segment.size
        first_timestamp = header.max_timestamp
        if segment.size:
            try:
                first_timestamp = next(headers(segment.file, 0, segment.size, False))[1].max_timestamp
            except BatchAnomaly:
                first_timestamp = now_ms
        self._set_limits(segment.base_offset, first_timestamp, now_ms)
        if self.must_roll:
            self._segment_bytes = 0
        else:
            self._roll_if_index_is_full(segment)
        self._prepared = True

    def _set_limits(self, base_offset: int, first_timestamp: int, now_ms: int) -> None:
        """Sets the limits of the segment that begins at `base_offset`, in bytes, offsets and time.

        As in Kafka, its age is measured by the timestamps of its batches, or by the clock if they have none.
        """
        config = self._state.config
        self._segment_bytes = config.segment_bytes
        self._last_offset_max = base_offset + RELATIVE_OFFSET_MAX
        self._by_batch_time = first_timestamp >= 0
        self._roll_after_ms = (first_timestamp if self._by_batch_time else now_ms) + config.segment_ms
        if config.segment_jitter_ms:
            # Different for each segment of a broker, and always the same for one segment.
            place = f"{self._state.directory}/{base_offset}".encode()
            self._roll_after_ms -= crc32c(place) % min(config.segment_jitter_ms, config.segment_ms)

    def _roll_if_index_is_full(self, segment: Segment) -> None:
        if segment.index_is_full(self._state.config):
            self._segment_bytes = 0

    def _stage_roll(self, base_offset: int, timestamp: int, now_ms: int) -> None:
        """Starts a new segment with the next batch."""
        group = _Group(base_offset, encode_snapshot(self.producers))
        self._groups.append(group)
        self._buffers = group.buffers
        self._batches = group.batches
        self._set_limits(base_offset, timestamp, now_ms)

    def _write_groups(self) -> None:
        """A write that also rolls, begins a leader epoch, or cleans up after a failed write."""
        state = self._state
        active = state.active
        if self._must_truncate_tail:
            active.file.truncate(active.size)
            self._must_truncate_tail = False
        epochs = state.epochs
        if self._staged_epochs:
            # Before the batches, so that after a crash the checkpoint confirms their epoch.
            epochs = LeaderEpochs(state.epochs.entries + self._staged_epochs)
            state.fs.write_file(state.epoch_checkpoint_path, epochs.encode(), sync=False)
            self.epochs_changed = True
        first, *rest = self._groups
        if first.buffers:
            write_fully(active.file, first.buffers, first.size, active.size)
        created: list[Segment] = []
        try:
            for group in rest:
                created.append(Segment.create(state.fs, state.caches, state.directory, group.base_offset))
                write_fully(created[-1].hold_file(), group.buffers, group.size, 0)
                state.fs.write_file(snapshot_path(state.directory, group.base_offset), group.snapshot, sync=False)
        except OSError:
            for segment in created:
                segment.remove()
            raise
        # From here on, no failure can undo the write.
        state.epochs = epochs
        grew = bool(first.buffers) and active.note_append(first.batches, state.config.index_interval_bytes)
        for segment, group in zip(created, rest, strict=True):
            self._seal(state.active)
            state.add_segment(segment)
            grew = segment.note_append(group.batches, state.config.index_interval_bytes)
            self.snapshots.append(group.base_offset)
        if created:
            self.must_roll = False
            self.directory_changed = True
        if grew:
            self._roll_if_index_is_full(state.active)
        self._buffers, self._batches = [], []
        self._groups = [_Group(-1, b"", self._buffers, self._batches)]
        self._staged_epochs = []
        state.log_end_offset = self._next_offset
        if created:
            self.snapshots = remove_stale(state, self.snapshots)

    def _seal(self, segment: Segment) -> None:
        try:
            segment.save_indexes()
            segment.release()
        except OSError:
            # The batches are written. The indexes stay in memory: `close` tries again, and recovery rebuilds missing
            # ones.
            return

    def _roll_back(self) -> None:
        """Discards all staged batches and truncates the bytes of the failed write."""
        segment = self._state.active
        try:
            segment.file.truncate(segment.size)
        except OSError:
            self._must_truncate_tail = True
        self.producers.rollback()
        self.reset()
