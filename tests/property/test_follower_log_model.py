"""The log of a follower against a list as its model: a leader's batches as they are, gaps, truncation, a new start."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.log.batches import BatchAnomaly
from penstock.log.config import LogConfig
from penstock.log.damage import Damage
from penstock.log.filesystem import FileMoved
from penstock.log.partition_log import PartitionLog
from penstock.protocol.record_batch import assign, parse_header
from tests.memory_filesystem import MemoryFileSystem
from tests.unit.log.stored_batches import NOW_MS, make_batch, open_log, split

DIRECTORY = "data/topic-0"

leaders_batches = st.lists(
    st.tuples(
        st.integers(0, 400),  # bytes
        st.integers(1, 4),  # records
        st.integers(0, 3),  # offsets that compaction removed before it
        st.integers(0, 1),  # whether a new leader wrote it
        st.booleans(),  # whether its producer is idempotent
    ),
    min_size=1,
    max_size=8,
)


class FollowerLogAgainstAList(RuleBasedStateMachine):
    log: PartitionLog

    @initialize(segment_bytes=st.integers(200, 3_000), index_interval_bytes=st.integers(0, 1_000))
    def begin(self, segment_bytes: int, index_interval_bytes: int) -> None:
        self.config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=index_interval_bytes)
        self.fs = MemoryFileSystem()
        self.batches: list[bytes] = []
        self.start = self.end = 0
        self.epochs: list[tuple[int, int]] = []
        self.damage: list[Damage] = []
        self.log = open_log(self.fs, DIRECTORY, self.config, damage=self.damage)

    @rule(batches=leaders_batches)
    def replicate(self, batches: list[tuple[int, int, int, int, bool]]) -> None:
        """Several batches in one write."""
        offset, epoch = self.end, self.epochs[-1][0] if self.epochs else 0
        staged = []
        for size, count, gap, elected, idempotent in batches:
            offset, epoch = offset + gap, epoch + elected
            if gap and self.log.config.contiguous_offsets:
                self.log.expect_gaps()
            batch, _ = make_batch(b"x" * size, count, producer=(7, 0, offset) if idempotent else (-1, -1, -1))
            assign(batch, offset, epoch)
            if not self.epochs or self.epochs[-1][0] < epoch:
                self.epochs.append((epoch, offset))
            self.log.stage_as_is(batch, parse_header(batch), NOW_MS)
            offset += count
            assert self.log.next_offset == offset
            staged.append(bytes(batch))
        self.log.write_staged()
        self.batches += staged
        self.end = offset

    @rule()
    def refuse_what_does_not_continue_the_log(self) -> None:
        epoch = self.epochs[-1][0] if self.epochs else 0
        for offset, batch_epoch in ((self.end - 1, epoch), (self.end, self.log.leader_epochs.latest - 1)):
            if offset >= 0 and batch_epoch >= 0:
                batch, _ = make_batch()
                assign(batch, offset, batch_epoch)
                with pytest.raises(BatchAnomaly):
                    self.log.stage_as_is(batch, parse_header(batch), NOW_MS)

    @rule()
    def lead(self) -> None:
        """Elected, and no record written."""
        epoch = self.epochs[-1][0] + 1 if self.epochs else 0
        self.log.begin_epoch(epoch)
        if self.epochs and self.epochs[-1][1] == self.end:
            self.epochs.pop()
        self.epochs.append((epoch, self.end))

    @rule()
    def flush(self) -> None:
        self.log.flush()
        assert self.log.recovery_point == self.end

    @rule(fraction=st.floats(0, 1))
    def truncate(self, fraction: float) -> None:
        """Where a batch ends, as leaders say."""
        ends = [parse_header(batch).end_offset for batch in self.batches]
        kept = [end for end in ends if end > self.start]
        if kept:
            self._truncate(kept[int(fraction * (len(kept) - 1))])

    @rule(fraction=st.floats(0, 1))
    def truncate_while_a_flush_is_under_way(self, fraction: float) -> None:
        ticket = self.log.begin_flush()
        self.truncate(fraction)
        end = self.end
        self.replicate([(10, 1, 0, 0, False)])
        with suppress(FileMoved):
            ticket.sync()
        assert self.log.moved_file(ticket) is None
        self.log.complete_flush(ticket)
        assert self.log.recovery_point <= end  # what was written meanwhile is not in the ticket

    def _truncate(self, offset: int) -> None:
        self.log.truncate_to(offset)
        self.batches = [batch for batch in self.batches if parse_header(batch).end_offset <= offset]
        self.end = offset
        self.epochs = [(epoch, start) for epoch, start in self.epochs if start < offset]

    @rule(ahead=st.integers(0, 1_000))
    def restart(self, ahead: int) -> None:
        """The leader's log begins where this one does not reach."""
        self.start = self.end = self.end + ahead
        self.log.restart_at(self.start)
        self.batches, self.epochs = [], []
        assert self.log.recovery_point == self.start
        assert self.log.leader_epochs.entries == []
        assert self.log.producer_state.entries == {}

    @rule(fraction=st.floats(0, 1))
    def delete_records(self, fraction: float) -> None:
        self.start += int((self.end - self.start) * fraction)
        self.log.delete_records_before(self.start)

    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        """After a clean stop, or kill -9."""
        if clean:
            self.log.close()
        else:
            self.fs = self.fs.copy()
        self.log = open_log(
            self.fs,
            DIRECTORY,
            self.config,
            clean=clean,
            recovery_point=self.log.recovery_point,
            log_start_offset=self.start,
            cleaned_offset=self.log.lifecycle.cleaned_offset,
            damage=self.damage,
        )

    @invariant()
    def holds_what_the_list_holds(self) -> None:
        if not hasattr(self, "log"):
            return
        assert self.log.log_start_offset == self.start
        assert self.log.log_end_offset == self.log.next_offset == self.end
        assert self._read() == [batch for batch in self.batches if parse_header(batch).end_offset > self.start]
        assert self.log.leader_epochs.latest == (self.epochs[-1][0] if self.epochs else -1)
        assert self.damage == []

    def _read(self) -> list[bytes]:
        batches: list[bytes] = []
        offset = self.log.log_start_offset
        while offset < self.log.log_end_offset:
            whole = split(self.log.read(offset, 700, self.log.log_end_offset).read())
            batches += whole
            offset = parse_header(whole[-1]).end_offset
        return batches


FollowerLogAgainstAList.TestCase.settings = settings(
    max_examples=150, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestFollowerLogAgainstAList = FollowerLogAgainstAList.TestCase
