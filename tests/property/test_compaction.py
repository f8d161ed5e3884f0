"""Compaction against a model: random keys, tombstones, transactions, appends and reads between its steps, and kills.

Each cleaning is compared with a specification of a few lines over the records that the log had before. Independently of
it, a `read_committed` reader always finds the newest committed value of each key, at the offset that it was given.
"""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.log.cleaning.cleaner import CleaningResult
from penstock.log.damage import Damage
from penstock.log.partition_log import PartitionLog
from penstock.protocol.compression import Compression
from penstock.protocol.record_batch import parse_header
from penstock.protocol.records import read_records
from tests.stopping_filesystem import Stopped, StoppingFileSystem
from tests.unit.log.cleaning.compacted_logs import DIRECTORY, batches_of, clean_log, compacting, put
from tests.unit.log.stored_batches import NOW_MS, append, make_marker, open_log

DELETE_RETENTION_MS = 1000
IDEMPOTENT = 4  # this producer uses no transactions; the smaller ones do


class Stored(NamedTuple):
    """A record of the log, with the delete horizon of its batch."""

    offset: int
    key: str
    value: str | None
    timestamp: int
    producer_id: int
    horizon_ms: int | None


def stored(log: PartitionLog) -> list[Stored]:
    found = []
    for batch in batches_of(log):
        header = parse_header(batch)
        if header.is_control:
            continue
        for record in read_records(memoryview(batch), header, 1 << 20):
            value = None if record.value is None else record.value.decode()
            key = (record.key or b"").decode()
            found.append(
                Stored(record.offset, key, value, record.timestamp, header.producer_id, header.delete_horizon_ms)
            )
    return [record for record in found if record.offset >= log.log_start_offset]


def plain(records: list[Stored]) -> list[tuple[int, str, str | None, int]]:
    return [record[:4] for record in records]


pairs = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c", "key of more than sixteen bytes"]), st.booleans()), min_size=1, max_size=4
)
producers = st.sampled_from([-1, 1, 2, 3, IDEMPOTENT])


class CompactionAgainstAModel(RuleBasedStateMachine):
    log: PartitionLog

    @initialize(segment_bytes=st.integers(150, 1500))
    def begin(self, segment_bytes: int) -> None:
        self.config = compacting(segment_bytes=segment_bytes, delete_retention_ms=DELETE_RETENTION_MS)
        self.fs = StoppingFileSystem()
        self.now_ms = NOW_MS
        self.written: dict[int, tuple[str, str | None]] = {}  # every record that was ever written, by its offset
        self.open: dict[int, list[int]] = {}  # offsets of open transactions, by producer
        self.aborted: set[int] = set()
        self.sequences: dict[int, int] = {}
        self.damage: list[Damage] = []
        self.log = open_log(self.fs, DIRECTORY, self.config, damage=self.damage)

    # What producers do

    @rule(chosen=pairs, producer_id=producers, compression=st.sampled_from([Compression.NONE, Compression.LZ4]))
    def write(self, chosen: list[tuple[str, bool]], producer_id: int, compression: Compression) -> None:
        end = self.log.log_end_offset
        batch = [(key, f"{key} {end + at}" if has_value else None) for at, (key, has_value) in enumerate(chosen)]
        sequence = self.sequences.get(producer_id, 0)
        base_offset = put(
            self.log,
            *batch,
            producer=(-1, -1, -1) if producer_id < 0 else (producer_id, 0, sequence),
            transactional=0 < producer_id < IDEMPOTENT,
            compression=compression,
            timestamp=self.now_ms,
        )
        assert base_offset == end
        self.sequences[producer_id] = sequence + len(batch)
        offsets = range(base_offset, base_offset + len(batch))
        self.written |= dict(zip(offsets, batch, strict=True))
        if 0 < producer_id < IDEMPOTENT:
            self.open.setdefault(producer_id, []).extend(offsets)

    @precondition(lambda self: self.open)
    @rule(committed=st.booleans(), data=st.data())
    def end_transaction(self, committed: bool, data: st.DataObject) -> None:
        producer_id = data.draw(st.sampled_from(sorted(self.open)))
        append(self.log, make_marker(producer_id, 0, committed=committed))
        offsets = self.open.pop(producer_id)
        if not committed:
            self.aborted.update(offsets)

    @rule()
    def roll_and_flush(self) -> None:
        self.log._appender.roll()
        self.log.flush()

    @rule(milliseconds=st.sampled_from([1, DELETE_RETENTION_MS // 2, DELETE_RETENTION_MS]))
    def time_passes(self, milliseconds: int) -> None:
        self.now_ms += milliseconds

    @rule(fraction=st.floats(0, 1))
    def delete_records(self, fraction: float) -> None:
        start, stable = self.log.log_start_offset, self.log.last_stable_offset(self.log.log_end_offset)
        self.log.delete_records_before(start + int((stable - start) * fraction / 3))

    # What the broker does

    @rule(keys_max=st.sampled_from([1, 3, 1000]))
    def compact(self, keys_max: int) -> None:
        before = stored(self.log)
        result = self._clean(keys_max)
        if result is None:
            return
        expected = self._expected(before, result)
        assert self.log.lifecycle.begin_swap(result, self.now_ms)
        self.log.lifecycle.complete_swap()
        assert plain(stored(self.log)) == plain(expected)
        for path in self.log.lifecycle.take_retired(self.now_ms + 10_000):
            self.fs.remove_file(path)

    @rule(appends=st.lists(st.tuples(pairs, producers), max_size=6))
    def compact_while_others_write_and_read(self, appends: list[tuple[list[tuple[str, bool]], int]]) -> None:
        before, end = stored(self.log), self.log.log_end_offset
        result = self._clean(1000)
        if result is None:
            return
        expected = self._expected(before, result)
        assert self.log.lifecycle.begin_swap(result, self.now_ms)
        todo = iter(appends)
        is_installed = False
        while (sync := self.log.lifecycle.advance_swap()) is not None:
            for chosen, producer_id in todo:
                self.write(chosen, producer_id, Compression.NONE)
                break
            found = plain(stored(self.log))
            assert found[: len(expected)] == plain(expected) or not is_installed
            is_installed = is_installed or found[: len(expected)] == plain(expected)
            sync()
        for chosen, producer_id in todo:
            self.write(chosen, producer_id, Compression.NONE)
        found = plain(stored(self.log))
        assert found[: len(expected)] == plain(expected)
        assert [record[:3] for record in found[len(expected) :]] == [
            (offset, *self.written[offset]) for offset in sorted(self.written) if offset >= end
        ]

    @rule(operations=st.integers(0, 60), keys_max=st.sampled_from([1, 1000]))
    def compact_and_be_killed(self, operations: int, keys_max: int) -> None:
        before = stored(self.log)
        cleaned_offset, recovery_point = self.log.lifecycle.cleaned_offset, self.log.recovery_point
        result = self._clean(keys_max)
        if result is None:
            return
        after = self._expected(before, result)
        self.fs.operations_left = operations
        try:
            assert self.log.lifecycle.begin_swap(result, self.now_ms)
            self.log.lifecycle.complete_swap()
        except Stopped:
            pass
        self._reopen(clean=False, cleaned_offset=cleaned_offset, recovery_point=recovery_point)
        assert plain(stored(self.log)) in (plain(before), plain(after))

    @rule(clean=st.booleans(), keep_snapshots=st.booleans())
    def restart(self, clean: bool, keep_snapshots: bool) -> None:
        before = stored(self.log)
        known = self._producers()
        if clean:
            self.log.close()
        if not keep_snapshots:
            for name in self.fs.list_directory(DIRECTORY):
                if name.endswith(".snapshot"):
                    self.fs.remove_file(f"{DIRECTORY}/{name}")
        self._reopen(
            clean=clean, cleaned_offset=self.log.lifecycle.cleaned_offset, recovery_point=self.log.recovery_point
        )
        assert stored(self.log) == before
        if keep_snapshots or self.log.log_start_offset == 0:
            assert self._producers() == known

    def _reopen(self, *, clean: bool, cleaned_offset: int, recovery_point: int) -> None:
        self.fs.operations_left = None
        self.fs = self.fs.copy()  # type: ignore[assignment]
        self.log = PartitionLog.open(
            DIRECTORY,
            self.config,
            self.fs,
            clean_shutdown=clean,
            recovery_point=recovery_point,
            log_start_offset=self.log.log_start_offset,
            cleaned_offset=cleaned_offset,
            now_ms=self.now_ms,
            report_damage=self.damage.append,
        )

    def _producers(self) -> dict[int, int]:
        """The last sequence of each producer."""
        entries = self.log.producer_state.entries
        return {producer_id: entry.batches[-1].last_sequence for producer_id, entry in entries.items() if entry.batches}

    def _clean(self, keys_max: int) -> CleaningResult | None:
        return clean_log(self.log, self.fs, self.now_ms, keys_max)

    def _expected(self, before: list[Stored], result: CleaningResult) -> list[Stored]:
        """The specification of one cleaning, up to the offset that it reached."""
        lifecycle = self.log.lifecycle
        dirty_from = lifecycle.cleaned_offset if lifecycle.cleaned_offset >= self.log.log_start_offset else 0
        newest = {
            record.key: record.offset
            for record in before
            if dirty_from <= record.offset < result.clean_end_offset and record.offset not in self.aborted
        }
        return [
            record
            for record in before
            if record.offset >= result.clean_end_offset
            or (
                record.offset not in self.aborted
                and record.offset >= newest.get(record.key, -1)
                and (record.value is not None or record.horizon_ms is None or self.now_ms < record.horizon_ms)
            )
        ]

    # What must hold at any time

    @invariant()
    def records_are_those_that_were_written(self) -> None:
        found = stored(self.log)
        assert all(self.written[record.offset] == (record.key, record.value) for record in found)
        offsets = [record.offset for record in found]
        assert offsets == sorted(set(offsets))

    @invariant()
    def a_committed_reader_finds_the_newest_value_of_each_key(self) -> None:
        start, stable = self.log.log_start_offset, self.log.last_stable_offset(self.log.log_end_offset)
        expected: dict[str, tuple[int, str]] = {}
        for offset in sorted(self.written):
            if start <= offset < stable and offset not in self.aborted:
                key, value = self.written[offset]
                expected.pop(key, None)
                if value is not None:
                    expected[key] = (offset, value)
        assert self._read_committed(start, stable) == expected

    def _read_committed(self, start: int, stable: int) -> dict[str, tuple[int, str]]:
        """Skips the records of aborted transactions as a consumer does, until it meets their marker."""
        ahead = sorted(self.log.aborted_transactions(start, stable), key=lambda each: each.first_offset)
        aborting: set[int] = set()
        found: dict[str, tuple[int, str]] = {}
        for batch in batches_of(self.log):
            header = parse_header(batch)
            while ahead and ahead[0].first_offset <= header.end_offset - 1:
                aborting.add(ahead.pop(0).producer_id)
            if header.is_control:
                aborting.discard(header.producer_id)
                continue
            if header.is_transactional and header.producer_id in aborting:
                continue
            for record in read_records(memoryview(batch), header, 1 << 20):
                if start <= record.offset < stable:
                    key = (record.key or b"").decode()
                    found.pop(key, None)
                    if record.value is not None:
                        found[key] = (record.offset, record.value.decode())
        return found

    @invariant()
    def nothing_is_damaged(self) -> None:
        assert self.damage == []

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.close()


TestCompactionAgainstAModel = CompactionAgainstAModel.TestCase
TestCompactionAgainstAModel.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
