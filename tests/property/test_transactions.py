"""Transactions under any order of requests, lost responses, failed writes and crashes.

Two clients share one transactional id, so that each is sometimes the other's zombie. The coordinator is the real state
machine with the real records; partitions are lists that check epochs as a log does. A client's records name the
transaction that they were sent in, and the partitions record the outcome.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.coordinator.records.codec import CoordinatorRecord
from penstock.coordinator.records.transaction_log import record_of, tombstone_of, transaction_in
from penstock.coordinator.transaction import ProtocolLevel, Transaction, TransactionState
from penstock.coordinator.transactions import Change, Transactions
from penstock.core.ids import PRODUCER_EPOCH_MAX, ProducerIdentity, TopicPartition
from penstock.protocol.error_codes import BrokerError, ErrorCode

TRANSACTIONAL_ID = "copy"
PARTITIONS = [TopicPartition(topic, index) for topic in ("a", "b") for index in range(2)]
TIMEOUT_MS = 1_000
EXPIRATION_MS = 100_000

EXPECTED_REFUSALS = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.TRANSACTION_ABORTABLE,
}

# Most changes are written before anything else happens; the rest waits, and meets whatever comes first.
at_once = st.sampled_from([True, True, True, True, False])


def expect(refusal: BrokerError) -> None:
    assert refusal.code in EXPECTED_REFUSALS


@dataclass
class Client:
    name: str
    level: ProtocolLevel
    producer: ProducerIdentity | None = None
    serial: int = 0  # which of its transactions it is in
    ending: bool | None = None  # an EndTxn that was not answered: whether it commits

    @property
    def must_repeat_end(self) -> bool:
        """In the old protocol, as in Kafka's clients, nothing but the same EndTxn follows one that was not answered.

        The epoch stays the same, so the coordinator could not tell a batch of the next transaction from one of this.
        """
        return self.level is ProtocolLevel.CLASSIC and self.ending is not None

    def next_transaction(self, producer: ProducerIdentity) -> None:
        self.producer = producer
        self.serial += 1
        self.ending = None

    @property
    def transaction(self) -> tuple[str, int]:
        return self.name, self.serial


@dataclass
class Log:
    """A partition: which records lie in it under which producer, and which of those a marker has decided."""

    epochs: dict[int, int] = field(default_factory=dict)
    open: dict[int, list[tuple[str, int]]] = field(default_factory=dict)
    committed: list[tuple[str, int]] = field(default_factory=list)
    aborted: list[tuple[str, int]] = field(default_factory=list)

    def append(self, producer: ProducerIdentity, transaction: tuple[str, int]) -> bool:
        if producer.epoch < self.epochs.get(producer.producer_id, -1):
            return False
        self.epochs[producer.producer_id] = producer.epoch
        self.open.setdefault(producer.producer_id, []).append(transaction)
        return True

    def is_open_for(self, producer: ProducerIdentity) -> bool:
        return producer.producer_id in self.open and self.epochs[producer.producer_id] == producer.epoch

    def end(self, producer: ProducerIdentity, commits: bool) -> None:
        assert producer.epoch >= self.epochs.get(producer.producer_id, -1), "a marker is never older than the data"
        self.epochs[producer.producer_id] = producer.epoch
        (self.committed if commits else self.aborted).extend(self.open.pop(producer.producer_id, []))


class TransactionsUnderFaults(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1_000_000
        self.ids = itertools.count(1)
        self.table = Transactions(lambda: next(self.ids))
        self.records: list[CoordinatorRecord] = []
        self.pending: list[tuple[Change, Client | None, bool]] = []
        self.logs = {partition: Log() for partition in PARTITIONS}
        self.clients = [
            Client("old protocol", ProtocolLevel.CLASSIC),
            Client("new protocol", ProtocolLevel.EPOCH_PER_TRANSACTION),
        ]
        self.marked: set[TopicPartition] = set()
        self.promised: dict[tuple[str, int], bool] = {}
        self.fenced: set[ProducerIdentity] = set()

    # What clients do

    @rule(number=st.integers(0, 1), goes_on=st.booleans(), written=at_once)
    def init_producer_id(self, number: int, goes_on: bool, written: bool) -> None:
        client = self.clients[number]
        expected = client.producer if goes_on else None
        try:
            change = self.table.init_producer_id(TRANSACTIONAL_ID, TIMEOUT_MS, expected, self.now_ms)
        except BrokerError as error:
            expect(error)
            return
        self.propose(change, client, written, fences=True)

    @rule(number=st.integers(0, 1), partition=st.sampled_from(PARTITIONS), written=at_once)
    def produce(self, number: int, partition: TopicPartition, written: bool) -> None:
        """Joins the transaction as the client's protocol does, and writes if that is already durable."""
        client = self.clients[number]
        if client.producer is None or client.must_repeat_end:
            return
        log = self.logs[partition]
        if not log.is_open_for(client.producer):
            try:
                change = self.table.add_partitions(
                    TRANSACTIONAL_ID, client.producer, frozenset({partition}), client.level, self.now_ms
                )
                self.must_be_current(client.producer)
                if change is not None:
                    self.propose(change, None, written)
                self.table.verify_partition(TRANSACTIONAL_ID, client.producer, partition)
            except BrokerError as error:
                expect(error)
                return
        log.append(client.producer, client.transaction)

    @rule(number=st.integers(0, 1), partition=st.sampled_from(PARTITIONS))
    def produce_late(self, number: int, partition: TopicPartition) -> None:
        """A batch that was on its way for long: only verified, never joining."""
        client = self.clients[number]
        if client.producer is None:
            return
        late = client.producer._replace(epoch=max(0, client.producer.epoch - 1))
        if self.logs[partition].is_open_for(late):
            if late == client.producer:
                return  # without an older epoch it is not late: its client adds the partition first (`produce`)
        else:
            try:
                self.table.verify_partition(TRANSACTIONAL_ID, late, partition)
            except BrokerError as error:
                expect(error)
                return
            self.must_be_current(late)
        self.logs[partition].append(late, client.transaction)

    @rule(number=st.integers(0, 1), commits=st.booleans(), written=at_once)
    def end(self, number: int, commits: bool, written: bool) -> None:
        client = self.clients[number]
        if client.producer is None:
            return
        if client.must_repeat_end:
            assert client.ending is not None
            commits = client.ending
        try:
            change = self.table.end(TRANSACTIONAL_ID, client.producer, commits, client.level, self.now_ms)
        except BrokerError as error:
            expect(error)
            return
        if change is None:
            self.must_be_current(client.producer, or_before_its_last_end=True)
            assert self.known().commits is commits
            assert not (commits and client.producer in self.fenced)
            if client.must_repeat_end:
                self.promised[client.transaction] = commits
                client.next_transaction(client.producer)
            return
        self.must_be_current(client.producer)
        client.ending = commits
        self.propose(change, client, written)

    def propose(self, change: Change, client: Client | None, written: bool, *, fences: bool = False) -> None:
        self.pending.append((change, client, fences))
        if written:
            self.write_down(answered=True)

    # What time, disk and crashes do

    @precondition(lambda self: self.pending)
    @rule(answered=st.booleans())
    def write_down(self, answered: bool) -> None:
        change, client, fences = self.pending.pop()
        before = self.table.find(TRANSACTIONAL_ID)
        after = change.after
        self.records.append(tombstone_of(TRANSACTIONAL_ID) if after is None else record_of(after))
        self.table.committed(change)
        if after is None:
            return
        self.check_step(before, after)
        if after.state is TransactionState.EMPTY and client is not None and answered:
            client.next_transaction(after.producer)
        if after.state.is_prepared:
            self.marked = set()
            if fences:
                assert before is not None
                self.fenced.add(before.producer)
            else:
                self.decided(client, after, answered)

    def decided(self, client: Client | None, after: Transaction, answered: bool) -> None:
        """An EndTxn is durable; its client may or may not hear of it."""
        assert client is not None
        if not answered:
            return
        self.promised[client.transaction] = after.commits
        client.next_transaction(after.completed(self.now_ms).producer)

    @precondition(lambda self: self.pending)
    @rule()
    def disk_refuses(self) -> None:
        change, _, _ = self.pending.pop()
        self.table.refused(change)

    @precondition(lambda self: self.prepared() is not None)
    @rule(partition=st.sampled_from(PARTITIONS))
    def write_marker(self, partition: TopicPartition) -> None:
        """Possibly twice: after a crash it is unknown which ones were written."""
        prepared = self.prepared()
        assert prepared is not None
        if partition in prepared.partitions:
            self.logs[partition].end(prepared.producer, prepared.commits)
            self.marked.add(partition)

    @precondition(lambda self: self.prepared() is not None and not self.pending)
    @rule(written=at_once)
    def complete(self, written: bool) -> None:
        prepared = self.prepared()
        assert prepared is not None
        for partition in prepared.partitions - self.marked:
            self.write_marker(partition)
        self.propose(self.table.markers_written(TRANSACTIONAL_ID, self.now_ms), None, written)

    @rule(elapsed_ms=st.sampled_from([1, TIMEOUT_MS // 2, TIMEOUT_MS, EXPIRATION_MS]))
    def time_passes(self, elapsed_ms: int) -> None:
        self.now_ms += elapsed_ms
        deadline = self.table.next_deadline_ms()
        changes = self.table.tick(self.now_ms)
        assert not changes or (deadline is not None and deadline <= self.now_ms)
        changes += self.table.expire(self.now_ms, EXPIRATION_MS)
        self.pending += [(change, None, True) for change in changes]

    @rule()
    def crash(self) -> None:
        """What was under way is lost, what was written is not. Markers are written again."""
        self.pending.clear()
        self.marked = set()
        before = self.table.find(TRANSACTIONAL_ID)
        self.table = Transactions(lambda: next(self.ids))
        for record in self.records:
            self.table.restore(*transaction_in(record.key, record.value))
        after = self.table.find(TRANSACTIONAL_ID)
        assert (before is None) == (after is None)
        if before is not None and after is not None:
            assert after.state is before.state
            assert after.producer == before.producer
            assert after.partitions == before.partitions
            assert after.next_producer_id == before.next_producer_id
            assert after.level is before.level

    @rule()
    def use_up_epochs(self) -> None:
        """Saves 32,000 transactions."""
        known = self.table.find(TRANSACTIONAL_ID)
        if known is None or self.pending or not known.state.is_at_rest or known.epoch > PRODUCER_EPOCH_MAX - 6:
            return
        worn = known.with_epoch(PRODUCER_EPOCH_MAX - 4, -1, TIMEOUT_MS, self.now_ms)
        self.records.append(record_of(worn))
        self.table.restore(TRANSACTIONAL_ID, worn)

    # What must hold

    def known(self) -> Transaction:
        found = self.table.find(TRANSACTIONAL_ID)
        assert found is not None
        return found

    def prepared(self) -> Transaction | None:
        return next(iter(self.table.prepared()), None)

    def must_be_current(self, producer: ProducerIdentity, *, or_before_its_last_end: bool = False) -> None:
        known = self.known()
        assert or_before_its_last_end or producer not in self.fenced
        if or_before_its_last_end and known.epoch == 0:
            assert producer == known.producer or producer == (known.previous_producer_id, PRODUCER_EPOCH_MAX - 1)
        else:
            assert producer.producer_id == known.producer_id
            assert known.epoch - producer.epoch in ((0, 1) if or_before_its_last_end else (0,))

    def check_step(self, before: Transaction | None, after: Transaction) -> None:
        """A prepared outcome never changes, and neither do its partitions; epochs only grow."""
        if before is None:
            assert after.state is TransactionState.EMPTY
            return
        if before.state.is_prepared:
            assert after.state.is_at_rest
            assert after.state is not TransactionState.EMPTY
            assert after.commits is before.commits
            assert self.marked >= before.partitions
        if after.state.is_prepared:
            assert after.partitions == before.partitions
            assert after.epoch > before.epoch or after.level is ProtocolLevel.CLASSIC
        if after.state is TransactionState.ONGOING:
            assert after.partitions > before.partitions
            assert after.producer == before.producer
        if after.producer_id == before.producer_id:
            assert after.epoch >= before.epoch
        else:
            assert after.epoch == 0
            assert after.producer_id > before.producer_id

    @invariant()
    def at_most_one_transaction_is_open(self) -> None:
        unfinished = [known for known in self.table if not known.state.is_at_rest]
        assert len(unfinished) <= 1
        if not self.pending:
            has_deadline = self.table.next_deadline_ms() is not None
            assert has_deadline == any(known.state is TransactionState.ONGOING for known in unfinished)

    @invariant()
    def nothing_is_open_that_the_coordinator_does_not_know(self) -> None:
        """Or no marker would ever come, and readers would wait for ever."""
        known = self.table.find(TRANSACTIONAL_ID)
        for partition, log in self.logs.items():
            if log.open:
                assert known is not None
                assert partition in known.partitions
                assert set(log.open) == {known.producer_id}

    @invariant()
    def no_transaction_is_torn(self) -> None:
        committed = {transaction for log in self.logs.values() for transaction in log.committed}
        aborted = {transaction for log in self.logs.values() for transaction in log.aborted}
        prepared = self.prepared()
        undecided = {records for log in self.logs.values() for held in log.open.values() for records in held}
        if prepared is not None:
            (committed if prepared.commits else aborted).update(undecided)
        for transaction, commits in self.promised.items():
            assert transaction not in (aborted if commits else committed)


TestTransactionsUnderFaults = TransactionsUnderFaults.TestCase
TestTransactionsUnderFaults.settings = settings(max_examples=200, stateful_step_count=60, deadline=None)
