"""Producer state and transactions of a log against a list, under appends, truncation, crashes and reopening."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.log.config import LogConfig
from penstock.log.damage import Damage
from penstock.log.partition_log import PartitionLog
from penstock.log.producer_state import BATCHES_KEPT
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.protocol.record_batch import BatchHeader, parse_header
from tests.memory_filesystem import MemoryFileSystem
from tests.unit.log.stored_batches import NOW_MS, make_batch, make_marker, open_log, split

DIRECTORY = "data/topic-0"


class Written(NamedTuple):
    """A batch in the list. `marker` is None for data, else whether it commits."""

    base_offset: int
    records: int
    producer_id: int
    epoch: int
    sequence: int
    transactional: bool
    marker: bool | None
    coordinator_epoch: int

    @property
    def end_offset(self) -> int:
        return self.base_offset + self.records


@dataclass
class Producer:
    epoch: int = -1
    batches: list[tuple[int, int]] = field(default_factory=list)  # first sequence and base offset
    next_sequence: int = 0
    coordinator_epoch: int = -1
    open_since: int = -1


@dataclass
class Knowledge:
    """What reading the list from its beginning tells."""

    producers: dict[int, Producer]
    ended: list[tuple[int, int, int, bool]]  # producer id, first offset, marker, committed

    @classmethod
    def of(cls, batches: Sequence[Written]) -> Knowledge:
        known = cls({}, [])
        for batch in batches:
            if batch.producer_id >= 0:
                known._learn(batch)
        return known

    def _learn(self, batch: Written) -> None:
        producer = self.producers.setdefault(batch.producer_id, Producer())
        if producer.epoch != batch.epoch:
            producer.epoch, producer.batches, producer.next_sequence = batch.epoch, [], 0
        if batch.marker is not None:
            if producer.open_since >= 0:
                self.ended.append((batch.producer_id, producer.open_since, batch.base_offset, batch.marker))
            producer.open_since, producer.coordinator_epoch = -1, batch.coordinator_epoch
            return
        if batch.sequence >= 0:
            producer.batches = [*producer.batches, (batch.sequence, batch.base_offset)][-BATCHES_KEPT:]
            producer.next_sequence = batch.sequence + batch.records
        if batch.transactional and producer.open_since < 0:
            producer.open_since = batch.base_offset

    def last_stable_offset(self, high_watermark: int, log_start_offset: int) -> int:
        undecided = [p.open_since for p in self.producers.values() if p.open_since >= 0]
        undecided += [first for _, first, marker, _ in self.ended if marker >= high_watermark]
        return min(high_watermark, max(log_start_offset, min(undecided, default=high_watermark)))

    def aborted(self, fetch_offset: int, upper_bound_offset: int) -> list[tuple[int, int]]:
        return [
            (producer_id, first)
            for producer_id, first, marker, committed in self.ended
            if not committed and marker >= fetch_offset and first < upper_bound_offset
        ]


class Action(NamedTuple):
    """What some producer, or its coordinator, does next."""

    kind: str
    producer_id: int
    records: int
    size: int
    bump: bool
    coordinator_ahead: int


actions = st.builds(
    Action,
    kind=st.sampled_from(["plain", "data", "data", "data", "unsequenced", "commit", "abort", "abort"]),
    producer_id=st.integers(1, 4),  # the last one does not use transactions
    records=st.integers(1, 3),
    size=st.integers(0, 200),
    bump=st.booleans(),
    coordinator_ahead=st.integers(-1, 1),
)


class TransactionsAgainstAList(RuleBasedStateMachine):
    log: PartitionLog

    @initialize(segment_bytes=st.integers(150, 2_000))
    def begin(self, segment_bytes: int) -> None:
        self.config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=100)
        self.fs = MemoryFileSystem()
        self.batches: list[Written] = []
        self.flushed = 0
        self.start = 0
        self.high_watermark = 0
        self.damage: list[Damage] = []
        self.log = open_log(self.fs, DIRECTORY, self.config, damage=self.damage)

    @property
    def end(self) -> int:
        return self.batches[-1].end_offset if self.batches else 0

    @rule(todo=st.lists(actions, min_size=1, max_size=8), space=st.none() | st.integers(0, 2_000))
    def write(self, todo: list[Action], space: int | None) -> None:
        """Several batches and markers in one write, perhaps on a disk that fills up."""
        staged: list[Written] = []
        for action in todo:
            known = Knowledge.of([*self.batches, *staged])
            end = staged[-1].end_offset if staged else self.end
            written = self._stage(action, known.producers.get(action.producer_id, Producer()), end)
            if written is not None:
                staged.append(written)
        self.fs.space_left = space
        refused = None
        try:
            self.log.write_staged()
        except OSError as error:
            refused = error.errno
        self.fs.space_left = None
        if refused is None:
            self.batches += staged
        else:
            assert refused == errno.ENOSPC

    def _stage(self, action: Action, producer: Producer, end: int) -> Written | None:
        """Checks what the broker would check, with the expected result, and stages what may be staged."""
        epoch = max(0, producer.epoch) + action.bump
        written = Written(end, action.records, action.producer_id, epoch, -1, action.producer_id != 4, None, -1)
        if action.kind == "plain":
            written = written._replace(producer_id=-1, epoch=-1, transactional=False)
        elif action.kind == "data":
            sequence = 0 if epoch != producer.epoch else producer.next_sequence
            written = written._replace(sequence=sequence)
        elif action.kind != "unsequenced":
            coordinator_epoch = max(0, producer.coordinator_epoch) + action.coordinator_ahead
            written = written._replace(
                records=1,
                sequence=-1,
                transactional=True,
                marker=action.kind == "commit",
                coordinator_epoch=coordinator_epoch,
            )
        batch, header = _encode(written, action.size)
        if written.producer_id >= 0 and not self._may_append(written, header, producer):
            return None
        assert self.log.stage(batch, header, 0, NOW_MS) == end
        return written

    def _may_append(self, written: Written, header: BatchHeader, producer: Producer) -> bool:
        state = self.log.producer_state
        producer_id, epoch = written.producer_id, written.epoch
        if written.marker is not None:
            if producer.epoch > 0:
                code = _refusal(lambda: state.check_marker(producer_id, producer.epoch - 1, 1 << 20))
                assert code == ErrorCode.INVALID_PRODUCER_EPOCH
            code = _refusal(lambda: state.check_marker(producer_id, epoch, written.coordinator_epoch))
            expected = written.coordinator_epoch < producer.coordinator_epoch
            assert code == (ErrorCode.TRANSACTION_COORDINATOR_FENCED if expected else None)
            code = _refusal(lambda: state.check_marker(producer_id, epoch, 1 << 20, epoch_must_be_new=True))
            expected = epoch == producer.epoch and producer.open_since >= 0
            assert code == (ErrorCode.INVALID_PRODUCER_EPOCH if expected else None)
            return written.coordinator_epoch >= max(0, producer.coordinator_epoch)
        if written.sequence < 0:
            state.check_unsequenced(header)
            return True
        assert state.check(header) is None
        if producer.epoch > 0:
            code = _refusal(lambda: state.check(header._replace(producer_epoch=producer.epoch - 1)))
            assert code == ErrorCode.INVALID_PRODUCER_EPOCH
        if producer.open_since >= 0:
            assert _refusal(lambda: state.check(header._replace(attributes=0))) == ErrorCode.INVALID_TXN_STATE
        return True

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.flushed = self.end

    @rule(fraction=st.floats(0, 1))
    def advance_the_high_watermark(self, fraction: float) -> None:
        self.high_watermark += int((self.end - self.high_watermark) * fraction)

    @rule(fraction=st.floats(0, 1))
    def delete_records(self, fraction: float) -> None:
        self.start += int((self.high_watermark - self.start) * fraction)
        self.log.delete_records_before(self.start)

    @rule(fraction=st.floats(0, 1))
    def truncate(self, fraction: float) -> None:
        offset = self.start + int((self.end - self.start) * fraction)
        self.log.truncate_to(offset)
        self.batches = [batch for batch in self.batches if batch.end_offset <= offset]
        self.flushed = min(self.flushed, self.end)
        self.start = min(self.start, self.end)
        self._restart_readers()

    @rule()
    def close_and_reopen(self) -> None:
        self.log.close()
        self.flushed = self.end
        self._reopen(clean=True)

    @rule()
    def kill(self) -> None:
        self.fs = self.fs.copy()
        self._reopen(clean=False)

    @precondition(lambda self: self.start == 0)  # snapshots may be lost, and with them what was deleted
    @rule(kept=st.lists(st.floats(0, 1), min_size=1, max_size=6))
    def lose_power(self, kept: list[float]) -> None:
        choices = iter(kept * 1_000)
        self.fs = self.fs.crash(lambda path, unsynced: int(next(choices) * abs(unsynced) + 0.5))
        self._reopen(clean=False)
        assert self.log.log_end_offset >= self.flushed
        lost = any(not damage.removed and not damage.file.endswith(".snapshot") for damage in self.damage)
        if lost or self.log.log_start_offset > self.start:
            self.begin(self.config.segment_bytes)  # a younger segment outlived an older one: not a list any more
            return
        self.damage.clear()
        self.batches = [batch for batch in self.batches if batch.end_offset <= self.log.log_end_offset]
        self._restart_readers()

    @rule(bounds=st.tuples(st.floats(0, 1), st.floats(0, 1)))
    def ask_for_aborted_transactions(self, bounds: tuple[float, float]) -> None:
        fetch_offset, upper_bound = (self.start + int((self.end - self.start + 1) * b) for b in sorted(bounds))
        expected = Knowledge.of(self.batches).aborted(fetch_offset, upper_bound)
        assert self.log.aborted_transactions(fetch_offset, upper_bound) == expected
        if fetch_offset < self.end:
            fetched = self.log.read(fetch_offset, 300, self.end)
            reached = parse_header(split(fetched.read())[-1]).end_offset
            needed = Knowledge.of(self.batches).aborted(fetch_offset, reached)
            assert set(needed) <= set(self.log.aborted_transactions_in(fetched, fetch_offset))

    @invariant()
    def knows_what_the_list_tells(self) -> None:
        if not hasattr(self, "log"):
            return
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
        known = Knowledge.of(self.batches)
        found = {
            producer_id: Producer(
                entry.epoch,
                [(batch.first_sequence, batch.base_offset) for batch in entry.batches],
                entry.batches[-1].last_sequence + 1 if entry.batches else 0,
                entry.coordinator_epoch,
                entry.current_transaction_first_offset,
            )
            for producer_id, entry in self.log.producer_state.entries.items()
        }
        assert found == known.producers
        first_open = min((p.open_since for p in found.values() if p.open_since >= 0), default=None)
        assert self.log.first_unstable_offset == (None if first_open is None else max(first_open, self.start))
        assert self.log.last_stable_offset(self.high_watermark) == known.last_stable_offset(
            self.high_watermark, self.start
        )
        # Bounds right behind the beginning of a transaction are where a search may end too early.
        for bound in {self.end, *(first + 1 for _, first, _, _ in known.ended if first >= self.start)}:
            assert self.log.aborted_transactions(self.start, bound) == known.aborted(self.start, bound)
        assert self.damage == []

    def _reopen(self, clean: bool) -> None:
        self.log = open_log(
            self.fs,
            DIRECTORY,
            self.config,
            clean=clean,
            recovery_point=self.log.recovery_point,
            log_start_offset=self.start,
            damage=self.damage,
        )
        self._restart_readers()

    def _restart_readers(self) -> None:
        """A log that was opened or cut is read from its end on, as a single broker does."""
        self.high_watermark = self.end


def _encode(written: Written, size: int) -> tuple[memoryview, BatchHeader]:
    if written.marker is not None:
        return make_marker(
            written.producer_id,
            written.epoch,
            committed=written.marker,
            coordinator_epoch=written.coordinator_epoch,
        )
    producer = (written.producer_id, written.epoch, written.sequence)
    return make_batch(b"x" * size, written.records, producer=producer, transactional=written.transactional)


def _refusal(check: Callable[[], object]) -> ErrorCode | None:
    try:
        check()
    except BrokerError as error:
        return error.code
    return None


TransactionsAgainstAList.TestCase.settings = settings(
    max_examples=200, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestTransactionsAgainstAList = TransactionsAgainstAList.TestCase
