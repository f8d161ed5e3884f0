"""The state of one partition's log, which appender, reader and recovery share.

Invariants: there is at least one segment, and segments are sorted by base offset; only the last one, the active
segment, grows. `log_start_offset <= log_end_offset`; the end is exclusive.
"""

from __future__ import annotations

from bisect import bisect_right

from penstock.core.ids import NO_LEADER_EPOCH
from penstock.log.batches import MAX_OFFSET, BatchAnomaly
from penstock.log.config import LogConfig
from penstock.log.damage import Damage, ReportDamage
from penstock.log.examination import Examination, adopt, examine, header_runs, mark_wrong_epochs
from penstock.log.filesystem import FileSystem
from penstock.log.leader_epochs import CHECKPOINT_NAME, EpochRun, LeaderEpochs, resolve
from penstock.log.segment import Segment
from penstock.log.segment_caches import SegmentCaches
from penstock.log.transaction_index import TransactionIndex


class LogState:
    __slots__ = (
        "_bases",
        "_reported",
        "_tell_damage",
        "caches",
        "config",
        "directory",
        "epochs",
        "epochs_checked",
        "fs",
        "log_end_offset",
        "log_start_offset",
        "newest_epoch",
        "retired",
        "segments",
        "transaction_index",
        "unflushed_from",
    )

    def __init__(
        self, directory: str, config: LogConfig, fs: FileSystem, caches: SegmentCaches, report_damage: ReportDamage
    ) -> None:
        self.directory = directory
        self.config = config
        self.fs = fs
        self.caches = caches
        self.segments: list[Segment] = []
        self._bases: list[int] = []
        self.epochs = LeaderEpochs()
        self.transaction_index = TransactionIndex()
        self.epochs_checked = False  # True once all batches were compared with the checkpoint
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.unflushed_from = MAX_OFFSET  # the recovery point of a log that was opened after a crash
        self.newest_epoch = NO_LEADER_EPOCH  # that its batches can have
        self.retired: dict[str, int] = {}  # files that wait for their removal, and when it is due
        self._tell_damage = report_damage
        self._reported: set[Damage] = set()

    @property
    def active(self) -> Segment:
        return self.segments[-1]

    @property
    def epoch_checkpoint_path(self) -> str:
        return f"{self.directory}/{CHECKPOINT_NAME}"

    def add_segment(self, segment: Segment) -> None:
        self.segments.append(segment)
        self._bases.append(segment.base_offset)

    def drop_segments(self, first: int, end: int) -> None:
        """Removes the segments numbered [first, end) with their files."""
        dropped = self.segments[first:end]
        del self.segments[first:end]
        del self._bases[first:end]
        for segment in dropped:
            segment.remove()

    def retire_segments(self, first: int, end: int, due_ms: int) -> None:
        """Removes the segments numbered [first, end). Their files are renamed, and are removed when they are due."""
        retired = self.segments[first:end]
        del self.segments[first:end]
        del self._bases[first:end]
        for segment in retired:
            self.retired |= dict.fromkeys(segment.retire(), due_ms)

    def replace_segments(self, segment: Segment, count: int, due_ms: int) -> None:
        """Puts a segment in the place of `count` segments, of which the first has the same base offset."""
        number = self.segment_number(segment.base_offset)
        assert self._bases[number] == segment.base_offset, "the replaced segment is not in the log"
        self.retire_segments(number, number + count, due_ms)
        self.segments.insert(number, segment)
        self._bases.insert(number, segment.base_offset)

    def segment_number(self, offset: int) -> int:
        """The number of the segment that contains `offset`, if any does."""
        return max(0, bisect_right(self._bases, offset) - 1)

    def upper_offset(self, number: int) -> int | None:
        """The base offset of the next segment; None for the last one."""
        return self._bases[number + 1] if number + 1 < len(self._bases) else None

    def end_offset_of(self, number: int) -> int:
        upper_offset = self.upper_offset(number)
        return self.log_end_offset if upper_offset is None else upper_offset

    def report(self, damage: Damage) -> None:
        """Reports damage to the operator, once."""
        if damage not in self._reported:
            self._reported.add(damage)
            self._tell_damage(damage)

    def examine_segment(self, number: int) -> Examination:
        """Examines a whole segment of an open log, whose end is known, and reports its damage."""
        segment = self.segments[number]
        found = examine(segment, self.end_offset_of(number), self.config, self.epochs)
        self.resolve_epochs({number: found})
        adopt(segment, found)
        self.report_regions(segment)
        return found

    def report_regions(self, segment: Segment) -> None:
        for region in segment.damage:
            if region.next_offset <= self.log_start_offset:
                continue  # These offsets were deleted.
            reason = f"offsets {region.first_offset} to {region.next_offset - 1}: {region.reason}"
            self.report(Damage(segment.log_path, region.start, region.end - region.start, reason))

    def resolve_epochs(self, examined: dict[int, Examination]) -> None:
        """Decides which are wrong where batches and checkpoint have different epochs."""
        disagree = any(run.epoch != run.checkpoint_epoch for found in examined.values() for run in found.runs)
        if disagree and not self.epochs_checked:
            self.check_epochs(self.epochs, examined)
        for found in examined.values():
            mark_wrong_epochs(found, self.epochs)

    def check_epochs(
        self, checkpoint: LeaderEpochs | None, examined: dict[int, Examination], *, trust_single_batches: bool = True
    ) -> None:
        """Compares the checkpoint, if there is a valid one, with all batches of the log."""
        known = checkpoint or LeaderEpochs()
        runs: list[EpochRun] = []
        for number, segment in enumerate(self.segments):
            if number in examined:
                runs += examined[number].runs
                continue
            try:
                runs += header_runs(segment, self.config, known)
            except BatchAnomaly:
                runs += examine(segment, self.end_offset_of(number), self.config, known).runs
        self.epochs = resolve(
            checkpoint,
            runs,
            self.log_end_offset,
            trust_single_batches=trust_single_batches,
            unflushed_from=self.unflushed_from,
            newest_epoch=self.newest_epoch,
        )
        self.epochs_checked = True
        if checkpoint is not None and checkpoint.entries != self.epochs.entries:
            size = len(checkpoint.encode())
            self.report(Damage(self.epoch_checkpoint_path, 0, size, "the batches of the log name other leader epochs"))
