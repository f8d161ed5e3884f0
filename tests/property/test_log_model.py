"""The log against a list as its model: under any operations, crashes and faults, both have the same content."""

from __future__ import annotations

import errno

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.log.config import LogConfig
from penstock.log.damage import Damage
from penstock.log.partition_log import PartitionLog
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.protocol.record_batch import parse_header
from tests.memory_filesystem import MemoryFileSystem
from tests.unit.log.stored_batches import NOW_MS, make_batch, open_log, split

DIRECTORY = "data/topic-0"
SNAPSHOT_SUFFIX = ".snapshot"

batch_shapes = st.tuples(st.integers(0, 400), st.integers(1, 4), st.integers(0, 5_000), st.booleans())


class LogAgainstAList(RuleBasedStateMachine):
    log: PartitionLog

    @initialize(segment_bytes=st.integers(200, 3_000), index_interval_bytes=st.integers(0, 1_000))
    def begin(self, segment_bytes: int, index_interval_bytes: int) -> None:
        self.config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=index_interval_bytes)
        self.fs = MemoryFileSystem()
        self.batches: list[bytes] = []
        self.sequence = 0
        self.flushed = 0
        self.start = 0
        self.epoch = 0
        self.damage: list[Damage] = []
        self.torn: set[str] = set()
        self.log = open_log(self.fs, DIRECTORY, self.config, damage=self.damage)

    @property
    def end(self) -> int:
        return parse_header(self.batches[-1]).end_offset if self.batches else self.start

    @rule(shapes=st.lists(batch_shapes, min_size=1, max_size=8), space=st.none() | st.integers(0, 3_000))
    def append(self, shapes: list[tuple[int, int, int, bool]], space: int | None) -> None:
        """Several batches in one write, perhaps on a disk that fills up."""
        staged = []
        sequence = self.sequence
        before = dict(self.log.producer_state.entries)
        for number, (size, count, age, idempotent) in enumerate(shapes):
            payload = bytes([len(self.batches) & 255, number]) * size
            producer = (7, 0, sequence) if idempotent else (-1, -1, -1)
            batch, header = make_batch(payload, count, NOW_MS - age, producer)
            if idempotent:
                assert self.log.producer_state.check(header) is None
                sequence += count
            self.log.stage(batch, header, self.epoch, NOW_MS)
            staged.append(batch)
        self.fs.space_left = space
        refused = None
        try:
            self.log.write_staged()
        except OSError as error:
            refused = error.errno
        self.fs.space_left = None
        if refused is None:
            self.batches += [bytes(batch) for batch in staged]
            self.sequence = sequence
        else:
            assert refused == errno.ENOSPC
            assert self.log.producer_state.entries == before

    @rule()
    def elect(self) -> None:
        self.epoch += 1

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.flushed = len(self.batches)

    @rule(fraction=st.floats(0, 1))
    def delete_records(self, fraction: float) -> None:
        offset = self.start + int((self.end - self.start) * fraction)
        self.log.delete_records_before(offset)
        self.start = offset

    @rule(fraction=st.floats(0, 1))
    def truncate(self, fraction: float) -> None:
        offset = self.start + int((self.end - self.start) * fraction)
        self.log.truncate_to(offset)
        self.batches = [batch for batch in self.batches if parse_header(batch).end_offset <= offset]
        self.flushed = min(self.flushed, len(self.batches))
        self.start = min(self.start, self.log.log_end_offset)
        self._learn_sequence()

    @rule()
    def close_and_reopen(self) -> None:
        self.log.close()
        self.flushed = len(self.batches)
        self._reopen(clean=True)

    @rule()
    def kill(self) -> None:
        self.fs = self.fs.copy()
        self._reopen(clean=False)

    @rule(kept=st.lists(st.floats(0, 1), min_size=1, max_size=6))
    def lose_power(self, kept: list[float]) -> None:
        """What was flushed stays; of the rest any part of any file may be gone."""
        choices = iter(kept * 1_000)

        def keep(path: str, unsynced: int) -> int:
            remains = int(next(choices) * abs(unsynced) + 0.5)
            if remains < unsynced and path.endswith(SNAPSHOT_SUFFIX):
                self.torn.add(path)
            return remains

        self.fs = self.fs.crash(keep)
        self._reopen(clean=False)
        served = self._read(tolerate_damage=True)
        kept_offsets = [parse_header(batch).base_offset for batch in served]
        for batch in self.batches[: self.flushed]:
            assert batch in served or parse_header(batch).end_offset <= self.start
        by_offset = {parse_header(batch).base_offset: batch for batch in self.batches}
        assert all(by_offset[offset] == batch for offset, batch in zip(kept_offsets, served, strict=True))
        if any(not damage.removed for damage in self.damage) or self.log.log_start_offset > self.start:
            self.begin(self.config.segment_bytes, self.config.index_interval_bytes)  # a gap: not a list any more
            return
        self.damage.clear()
        self.batches = served
        self.flushed = sum(parse_header(batch).end_offset <= self.log.recovery_point for batch in served)
        self._learn_sequence()

    @rule(fraction=st.floats(0, 1), max_bytes=st.integers(1, 2_000))
    def read_somewhere(self, fraction: float, max_bytes: int) -> None:
        offset = self.start + int((self.end - self.start) * fraction)
        holding = [batch for batch in self.batches if parse_header(batch).end_offset > offset]
        got = split(self.log.read(offset, max_bytes, self.end).read())
        assert got == holding[: len(got)]
        assert bool(got) == bool(holding)

    @rule(age=st.integers(-10, 5_010))
    def look_up_a_timestamp(self, age: int) -> None:
        timestamp = NOW_MS - age
        candidates = [batch for batch in self.batches if parse_header(batch).end_offset > self.start]
        expected = next((batch for batch in candidates if parse_header(batch).max_timestamp >= timestamp), None)
        found = self.log.offset_for_timestamp(timestamp)
        assert (found and found.read()) == expected

    @invariant()
    def holds_what_the_list_holds(self) -> None:
        if not hasattr(self, "log"):
            return
        assert self.log.log_start_offset == self.start
        assert self.log.log_end_offset == self.end
        assert self._read() == [batch for batch in self.batches if parse_header(batch).end_offset > self.start]
        # A snapshot that lost its end is read, and told, when the log is truncated to it; the batches have what it had.
        assert {damage.file for damage in self.damage} <= self.torn

    def _reopen(self, clean: bool) -> None:
        point, start = self.log.recovery_point, self.start
        self.log = open_log(
            self.fs,
            DIRECTORY,
            self.config,
            clean=clean,
            recovery_point=point,
            log_start_offset=start,
            damage=self.damage,
        )

    def _learn_sequence(self) -> None:
        entry = self.log.producer_state.entries.get(7)
        self.sequence = entry.batches[-1].last_sequence + 1 if entry else 0

    def _read(self, tolerate_damage: bool = False) -> list[bytes]:
        batches: list[bytes] = []
        offset = self.log.log_start_offset
        while offset < self.log.log_end_offset:
            try:
                whole = split(self.log.read(offset, 700, self.log.log_end_offset).read())
            except BrokerError as error:
                if tolerate_damage and error.code == ErrorCode.CORRUPT_MESSAGE:
                    offset += 1
                    continue
                raise
            batches += whole
            offset = parse_header(whole[-1]).end_offset
        return batches


LogAgainstAList.TestCase.settings = settings(
    max_examples=200, stateful_step_count=30, suppress_health_check=list(HealthCheck)
)
TestLogAgainstAList = LogAgainstAList.TestCase
