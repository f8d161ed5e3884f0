"""The log of one partition: appends and reads record batches.

Owns: the composition of its parts (opening, appending, reading, flushing), the recovery point, deletion and truncation.
Must never know: requests, replicas, the high watermark, clocks, threads. Records are opaque bytes.

Invariants: offsets below `log_end_offset` are written, those below `recovery_point` are on disk. Only one thread uses a
log; other threads may only sync a `FlushTicket`.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.core.ids import NO_LEADER_EPOCH
from penstock.log import truncation
from penstock.log.appender import LogAppender
from penstock.log.config import LogConfig
from penstock.log.damage import ReportDamage
from penstock.log.filesystem import FILE_NAME_BYTES_MAX, File, FileSystem
from penstock.log.flushing import FlushTicket
from penstock.log.leader_epochs import LeaderEpochs
from penstock.log.lifecycle import LogLifecycle
from penstock.log.log_state import LogState
from penstock.log.presence import NamedFile
from penstock.log.producer_snapshot import encode as encode_snapshot
from penstock.log.producer_snapshot import remove_stale, snapshot_path
from penstock.log.producer_state import ProducerState
from penstock.log.reader import LogReader, LogSlice
from penstock.log.recovery import Recovered, recover
from penstock.log.segment_caches import SegmentCaches
from penstock.log.time_lookup import TimeLookup
from penstock.log.transaction_index import AbortedTransaction
from penstock.log.transaction_index_files import files_to_write
from penstock.protocol.error_codes import BrokerError, ErrorCode


class PartitionLog:
    __slots__ = (
        "_appender",
        "_reader",
        "_state",
        "_ticket",
        "_ticket_end",
        "_time_lookup",
        "begin_epoch",
        "lifecycle",
        "read",
        "recovery_point",
        "stage",
        "stage_as_is",
        "write_staged",
    )

    def __init__(self, state: LogState, recovered: Recovered, cleaned_offset: int = 0) -> None:
        """Use `open`."""
        self._state = state
        self._reader = LogReader(state)
        self._time_lookup = TimeLookup(state, self._reader)
        self._appender = LogAppender(state, self._time_lookup, recovered.producers, recovered.snapshots)
        self._appender.must_roll = recovered.must_roll
        self._appender.epochs_changed = not recovered.epochs_on_disk
        self._appender.directory_changed = recovered.directory_changed
        self.recovery_point = recovered.recovery_point
        self._ticket: FlushTicket | None = None  # the newest one, perhaps under way
        self._ticket_end = 0  # less than its own end if the log was truncated since
        self.lifecycle = LogLifecycle(state, self._appender, self._time_lookup, cleaned_offset)
        # Bound directly: they are called for every batch and every fetch.
        self.stage = self._appender.stage
        self.stage_as_is = self._appender.stage_as_is
        self.begin_epoch = self._appender.begin_epoch
        self.write_staged = self._appender.write_staged
        self.read = self._reader.read

    @classmethod
    def open(
        cls,
        directory: str,
        config: LogConfig,
        fs: FileSystem,
        *,
        clean_shutdown: bool,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        cleaned_offset: int = 0,
        newest_epoch: int = NO_LEADER_EPOCH,
        now_ms: int,
        report_damage: ReportDamage,
        caches: SegmentCaches | None = None,
    ) -> PartitionLog:
        """Opens the log in an existing directory, which may be empty.

        `clean_shutdown` means that the log was closed; otherwise everything from `recovery_point` on is scanned.
        `cleaned_offset` is the offset up to which the log was compacted. `newest_epoch` is the newest leader epoch that
        the partition has had.
        `caches` limits open files and loaded indexes for all logs that share it.
        """
        if cleaned_offset:
            config = replace(config, contiguous_offsets=False)
        state = LogState(directory, config, fs, caches or SegmentCaches(), report_damage)
        recovered = recover(
            state,
            clean_shutdown=clean_shutdown,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            newest_epoch=newest_epoch,
            now_ms=now_ms,
        )
        return cls(state, recovered, cleaned_offset)

    @property
    def directory(self) -> str:
        return self._state.directory

    @property
    def config(self) -> LogConfig:
        return self._state.config

    @config.setter
    def config(self, config: LogConfig) -> None:
        if self._state.config.compacts and not config.compacts:
            self._may_have_gaps()
        if self.lifecycle.cleaned_offset:
            config = replace(config, contiguous_offsets=False)
        self._state.config = config
        if not self._appender.has_staged:
            self._appender.reset()

    def expect_gaps(self) -> None:
        """Another replica's log was compacted, and this one takes over its gaps. Save `cleaned_offset` before."""
        self._may_have_gaps()
        self._state.config = replace(self._state.config, contiguous_offsets=False)

    def _may_have_gaps(self) -> None:
        """For as long as the log exists. The checkpoint of this offset, which must not be 0, tells the next start."""
        self.lifecycle.cleaned_offset = max(1, self.lifecycle.cleaned_offset)

    @property
    def next_offset(self) -> int:
        """The end of the log with the batches that are staged."""
        return self._appender.next_offset

    @property
    def log_start_offset(self) -> int:
        return self._state.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._state.log_end_offset

    @property
    def leader_epochs(self) -> LeaderEpochs:
        return self._state.epochs

    @property
    def producer_state(self) -> ProducerState:
        return self._appender.producers

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest open transaction; None if none is open."""
        first_offset = self._appender.producers.transactions.first_open_offset
        return None if first_offset is None else max(first_offset, self._state.log_start_offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """The end for `read_committed` readers: before it, all transactions have markers below the high watermark.

        Call it whenever the high watermark advances, even without readers: completed transactions are kept until then.
        """
        first_offset = self._appender.producers.transactions.first_unstable_offset(high_watermark)
        if first_offset is None or first_offset >= high_watermark:
            return high_watermark
        return max(first_offset, self._state.log_start_offset)

    def aborted_transactions(self, fetch_offset: int, upper_bound_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions that may have records in [fetch_offset, upper_bound_offset)."""
        return self._state.transaction_index.overlapping(fetch_offset, upper_bound_offset)

    def aborted_transactions_in(self, fetched: LogSlice, fetch_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions that may have records in a slice that was read from `fetch_offset` on."""
        if not self._state.transaction_index:
            return []
        return self.aborted_transactions(fetch_offset, self._reader.upper_bound_offset(fetched))

    @property
    def active_file(self) -> NamedFile:
        """The file that is written to, for a check of presence."""
        return self._state.active.named_file

    def is_in_place(self) -> bool:
        """Whether the file that is written to still has its name; False if that cannot be found out."""
        try:
            return self.active_file.is_in_place(self._state.fs)
        except OSError:
            return False

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._state.segments)

    @property
    def segment_base_offsets(self) -> list[int]:
        return [segment.base_offset for segment in self._state.segments]

    def offset_for_timestamp(self, timestamp: int) -> LogSlice | None:
        """The first batch whose max timestamp is at or after `timestamp`, as a slice; None if all batches are older.

        The wanted record is in this batch; the caller finds it.
        """
        found = self._time_lookup.first_reaching(timestamp)
        return None if found is None else self._reader.slice_of(found)

    def max_timestamp(self) -> LogSlice | None:
        """The batch with the newest record, as a slice; None if no batch has a timestamp."""
        found = self._time_lookup.newest()
        return None if found is None else self._reader.slice_of(found)

    @property
    def has_unflushed_sealed_segment(self) -> bool:
        """Whether a rolled segment is not flushed yet.

        Flushing it advances the recovery point, which limits the scan after a crash.
        """
        return self.recovery_point < self._state.active.base_offset

    def begin_flush(self) -> FlushTicket:
        """A ticket for everything written so far that may not be on disk. Sync the ticket, then complete it."""
        state = self._state
        if self.recovery_point < state.log_end_offset:
            if self.lifecycle.is_swapping and (state.transaction_index or state.transaction_index.saved):
                self.lifecycle.complete_swap()  # It changes the same files.
            index_files = self._transaction_index_files(len(state.segments) - 1)
            has_indexes = bool(index_files)
            ticket = self._flush_ticket(index_files)
            self.lifecycle.flushing_indexes = ticket if has_indexes else None
            return ticket
        return self._flush_ticket([])

    def _transaction_index_files(self, end: int) -> list[tuple[str, bytes]]:
        """The files of the segments before number `end` that may not be on disk."""
        # A segment may have been flushed to its end before it was sealed, while its index could still grow.
        first = self._state.segment_number(max(0, self.recovery_point - 1))
        return files_to_write(self._state, first, end)

    def _flush_ticket(self, small_files: list[tuple[str, bytes]]) -> FlushTicket:
        state, appender = self._state, self._appender
        files: list[tuple[str, File]] = []
        if self.recovery_point < state.log_end_offset:
            unflushed = state.segments[state.segment_number(self.recovery_point) :]
            files = [(segment.log_path, segment.file) for segment in unflushed]
        if appender.epochs_changed:
            small_files.append((state.epoch_checkpoint_path, state.epochs.encode()))
        ticket = FlushTicket(
            state.log_end_offset,
            files,
            small_files,
            state.directory if appender.directory_changed else None,
            state.fs,
        )
        appender.epochs_changed = appender.directory_changed = False
        self._ticket, self._ticket_end = ticket, ticket.end_offset
        return ticket

    def complete_flush(self, ticket: FlushTicket) -> int:
        """Call it after `ticket.sync()`. Returns the new recovery point."""
        if ticket is self.lifecycle.flushing_indexes:
            self.lifecycle.flushing_indexes = None
        state = self._state
        if self._appender.epochs_changed and any(path == state.epoch_checkpoint_path for path, _ in ticket.small_files):
            # The ticket has written the epochs of its time over newer ones, which batches may have by now.
            state.fs.write_file(state.epoch_checkpoint_path, state.epochs.encode(), sync=False)
        end_offset = self._ticket_end if ticket is self._ticket else ticket.end_offset
        self.recovery_point = max(self.recovery_point, min(end_offset, state.log_end_offset))
        return self.recovery_point

    def moved_file(self, ticket: FlushTicket) -> str | None:
        """The path of a file of the ticket that was moved or deleted by others; None if there is none.

        A ticket may also hold files that this log itself has removed meanwhile, with deleted records.
        """
        own = {segment.log_path for segment in self._state.segments}
        fs = self._state.fs
        return next((path for path, file in ticket.files if path in own and not fs.is_in_place(path, file)), None)

    def flush(self) -> int:
        """All three steps of a flush, blocking."""
        ticket = self.begin_flush()
        ticket.sync()
        return self.complete_flush(ticket)

    def remove_expired_producers(self, now_ms: int) -> None:
        self._appender.producers.remove_expired(now_ms, self._state.config.producer_id_expiration_ms)

    def delete_records_before(self, offset: int) -> None:
        """Advances the log start offset and removes the segments before it."""
        state = self._state
        if not 0 <= offset <= state.log_end_offset:
            raise BrokerError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is above the log end offset {state.log_end_offset}"
            )
        if offset <= state.log_start_offset:
            return
        self.lifecycle.complete_swap()
        state.log_start_offset = offset
        self.lifecycle.delete_segments(min(state.segment_number(offset), len(state.segments) - 1), due_ms=0)

    def truncate_to(self, offset: int) -> None:
        """Removes the batch with `offset` and everything after it; the log then ends where that batch began."""
        truncation.truncate_to(self._state, self._appender, self._reader, self.lifecycle, offset)
        self._ticket_end = min(self._ticket_end, self._state.log_end_offset)
        self.recovery_point = min(self.recovery_point, self._state.log_end_offset)

    def restart_at(self, offset: int) -> None:
        """Removes everything: the log is empty, and the next batch has `offset` or a later one."""
        truncation.restart_at(self._state, self._appender, self.lifecycle, offset)
        self._ticket_end = 0
        self.recovery_point = offset

    def begin_close(self) -> FlushTicket:
        """Writes the files for a fast opening. Sync the ticket, then call `finish_close`; do not append any more."""
        state, appender = self._state, self._appender
        assert not appender.has_staged, "closing over staged batches"
        self.lifecycle.complete_swap()
        for segment in state.segments:
            segment.save_indexes()
        end_offset = state.log_end_offset
        if end_offset not in appender.snapshots and end_offset > state.log_start_offset:
            snapshot = encode_snapshot(appender.producers)
            state.fs.write_file(snapshot_path(state.directory, end_offset), snapshot, sync=False)
            remove_stale(state, [*appender.snapshots, end_offset])
        return self._flush_ticket(self._transaction_index_files(len(state.segments)))

    def finish_close(self, ticket: FlushTicket) -> None:
        """Releases all files. The log must not be used afterwards."""
        self.complete_flush(ticket)
        for segment in self._state.segments:
            segment.release_files()

    def close(self) -> None:
        """All three steps of closing, blocking."""
        ticket = self.begin_close()
        ticket.sync()
        self.finish_close(ticket)

    def move_aside(self, suffix: str) -> str:
        """Renames the directory, which frees its name immediately; the caller removes the renamed one.

        Slices that are being sent stay readable. The log must not be used afterwards.
        """
        state = self._state
        self.lifecycle.abandon_swap("the partition was deleted")
        for segment in state.segments:
            segment.release_files()
        parent, _, name = state.directory.rpartition("/")
        # A long topic name leaves no room for the suffix; the suffix makes the name unique.
        target = f"{parent}/{name[: FILE_NAME_BYTES_MAX - len(suffix) - 1]}.{suffix}"
        state.fs.rename(state.directory, target)
        return target
