"""The transaction coordinator: its state machine's changes into the transaction log, and markers into partitions.

A transaction ends in three steps: the decision is written (PrepareCommit or PrepareAbort), then a marker into every
partition, then that it is complete. After a crash behind the first step, `resume` writes the markers again; a crash
before it leaves the transaction open until its producer's successor or its deadline aborts it.

Owns: what is loaded, what waits for the log, and timers. `coordinator/transactions.py` decides what is allowed.

Invariant: no answer says what the transaction log does not hold.
Invariant: no partition gets a batch of a transaction before the log says that the partition is in it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from penstock.broker.coordinator_loading import CoordinatorLoads, LoadSteps
from penstock.broker.coordinator_log import CoordinatorLog, CoordinatorTopic
from penstock.broker.deadlines import Deadlines
from penstock.broker.metrics import load_time
from penstock.broker.transactions.endings import Ending, Endings
from penstock.broker.transactions.hanging import end_hanging_transactions
from penstock.broker.transactions.markers import Failures
from penstock.coordinator.records.transaction_log import record_of, tombstone_of, transaction_in
from penstock.coordinator.transaction import ProtocolLevel, Transaction, TransactionState
from penstock.coordinator.transactions import Change, Transactions
from penstock.core.errors import ProtocolError
from penstock.core.ids import ProducerIdentity, TopicPartition
from penstock.metadata.topics import TRANSACTION_STATE_TOPIC
from penstock.protocol.error_codes import BrokerError, ErrorCode

if TYPE_CHECKING:
    from penstock.broker.node import Node
    from penstock.broker.transactions.remote_admission import RemoteAdmission

logger = logging.getLogger(__name__)

_RETRY_MS: Final = 1_000
_EXPIRY: Final = "expiry"
_RESUME: Final = "resume"

OnDone = Callable[[BrokerError | None], None]
OnProducer = Callable[[ProducerIdentity | BrokerError], None]


class TransactionCoordinator:
    """Belongs to the event loop, as the node does."""

    def __init__(self, node: Node) -> None:
        config = node.config
        self._node = node
        self.log = CoordinatorLog(
            node,
            CoordinatorTopic(
                TRANSACTION_STATE_TOPIC,
                config.transaction_state_log_num_partitions,
                config.transaction_state_log_replication_factor,
                {
                    "cleanup.policy": "compact",
                    "compression.type": "uncompressed",
                    "min.insync.replicas": str(config.transaction_state_log_min_isr),
                    "segment.bytes": str(config.transaction_state_log_segment_bytes),
                    "unclean.leader.election.enable": "false",
                },
                append_timeout_ms=config.request_timeout_ms,
            ),
        )
        self._topic_id: bytes | None = None
        self._loads: CoordinatorLoads[Transactions] = CoordinatorLoads(
            node.loop,
            self.log.partition,
            self._load,
            self._shard_loaded,
            load_time(node.metrics, "transactioncoordinatormetrics"),
        )
        self._epochs: dict[int, int] = {}  # of this coordinator, for each shard: the leader epoch it was loaded in
        self._endings = Endings(node, self._is_current, self._markers_written)
        self._waiting: dict[str, list[Callable[[], None]]] = {}  # for a change that is being written
        self._deadlines = Deadlines(node.loop, node.now_ms, self._due)
        self._expire_later()

    @cached_property
    def elsewhere(self) -> RemoteAdmission:
        """Transactions that other brokers coordinate, with partitions that this one leads."""
        from penstock.broker.transactions.remote_admission import RemoteAdmission

        return RemoteAdmission(self._node)

    # Requests. A refusal that is known at once raises; every other outcome goes to the callback, once.

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdentity | None, on_done: OnProducer
    ) -> None:
        """Fences the producers that had the transactional id before; an open transaction of theirs is aborted first,
        and the client told to ask again."""
        if not transactional_id:
            raise BrokerError(ErrorCode.INVALID_REQUEST, "A transactional id must not be empty.")
        if not 0 < timeout_ms <= self._node.config.transaction_max_timeout_ms:
            raise BrokerError(
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                f"transaction.timeout.ms must be between 1 and {self._node.config.transaction_max_timeout_ms}.",
            )

        def topic_ensured(error: BrokerError | None) -> None:
            if error is None:
                self._node.producer_ids.when_available(producer_ids_available)
            else:
                on_done(error)

        def producer_ids_available(error: BrokerError | None) -> None:
            if error is not None:
                on_done(error)
                return
            try:
                self._init_producer_id(transactional_id, timeout_ms, expected, on_done)
            except BrokerError as refusal:
                on_done(refusal.to_keep())

        self.log.ensure_topic(topic_ensured)

    def _init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdentity | None, on_done: OnProducer
    ) -> None:
        index, shard = self._shard_to_change(transactional_id)
        change = shard.init_producer_id(transactional_id, timeout_ms, expected, self._node.now_ms())
        assert change.after is not None
        after = change.after

        def done(error: BrokerError | None) -> None:
            if error is None and after.state is TransactionState.PREPARE_ABORT:
                error = BrokerError(
                    ErrorCode.CONCURRENT_TRANSACTIONS, "An earlier transaction had to be aborted first."
                )
            on_done(after.producer if error is None else error)

        self._write(index, shard, change, done)

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: frozenset[TopicPartition],
        level: ProtocolLevel,
        on_done: OnDone,
    ) -> None:
        _check_id(transactional_id)
        index, shard = self._shard_to_change(transactional_id)
        change = shard.add_partitions(transactional_id, producer, partitions, level, self._node.now_ms())
        if change is None:
            on_done(None)
        else:
            self._write(index, shard, change, on_done)

    def verify_partitions(
        self, transactional_id: str, producer: ProducerIdentity, partitions: frozenset[TopicPartition]
    ) -> Failures:
        """Which partitions are not in the producer's open transaction, and why not."""
        _check_id(transactional_id)
        _, shard = self._shard_of(transactional_id)
        failures: Failures = {}
        for partition in partitions:
            try:
                shard.verify_partition(transactional_id, producer, partition)
            except BrokerError as error:
                failures[partition] = error.to_keep()
        return failures

    def end(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        commits: bool,
        level: ProtocolLevel,
        on_done: OnProducer,
    ) -> None:
        """Tells the id and epoch with which the producer goes on."""
        _check_id(transactional_id)
        index, shard = self._shard_to_change(transactional_id)
        now_ms = self._node.now_ms()
        change = shard.end(transactional_id, producer, commits, level, now_ms)
        if change is None:
            known = shard.find(transactional_id)
            assert known is not None
            on_done(known.producer)
            return
        assert change.after is not None
        goes_on_with = change.after.completed(now_ms).producer
        self._write(index, shard, change, lambda error: on_done(goes_on_with if error is None else error))

    def after_pending_change(self, transactional_id: str, callback: Callable[[], None]) -> bool:
        """Calls back when the change of the transaction that is being written is settled. False: there is none."""
        _check_id(transactional_id)
        _, shard = self._shard_of(transactional_id)
        if not shard.is_pending(transactional_id):
            return False
        self._waiting.setdefault(transactional_id, []).append(callback)
        return True

    # Asked by tools

    def find(self, transactional_id: str) -> Transaction:
        _check_id(transactional_id)
        _, shard = self._shard_of(transactional_id)
        found = shard.find(transactional_id)
        if found is None:
            raise BrokerError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return found

    def __iter__(self) -> Iterator[Transaction]:
        """Every transactional id that is known. BrokerError unless all of them are loaded."""
        self._check_topic()
        for shard in self._loads.get_all(self.log.led_partitions()):
            yield from shard

    def load_all(self) -> list[Transaction] | None:
        """As a copy. None while some are being loaded, which this starts."""
        try:
            return list(self)
        except BrokerError:
            return None

    # The log

    def resume(self) -> None:
        """Loads everything and takes up what was left undone: markers that may be missing, and deadlines.

        A large log is loaded in the background. What a partition of it left undone is taken up when it is loaded;
        transactions that no coordinator knows can only be told when all of them are.
        """
        self._check_topic()
        try:
            self._loads.get_all(self.log.led_partitions())
        except BrokerError:
            self._deadlines.set(_RESUME, self._node.now_ms() + _RETRY_MS)
            return
        for index, shard in tuple(self._loads.loaded.items()):
            self._finish_all(index, shard)
        if self.log.leads_every_partition and not self._node.is_clustered:
            end_hanging_transactions(self._node, self)

    def resign(self, index: int) -> None:
        """Another broker leads this partition of `__transaction_state` now, and coordinates its transactions."""
        self._loads.drop(index)

    def close(self) -> None:
        self._deadlines.close()
        self._endings.close()
        self._loads.clear()

    def _shard_of(self, transactional_id: str) -> tuple[int, Transactions]:
        index = self.log.partition_for(transactional_id)
        return index, self._shard(index)

    def _shard_to_change(self, transactional_id: str) -> tuple[int, Transactions]:
        """As `_shard_of`; raises where the log would refuse the change, so that the shard need not be loaded again."""
        index, shard = self._shard_of(transactional_id)
        if index in self._loads.loaded:
            self.log.check_append(index)
        return index, shard

    def _shard(self, index: int) -> Transactions:
        """The transactional ids of a partition of the log, which is loaded when the first of them is asked for.

        COORDINATOR_LOAD_IN_PROGRESS while it is being loaded; another BrokerError if it cannot be.
        """
        if not self._check_topic() and not self.log.has_topic():
            return Transactions(self._node.producer_ids.allocate)
        self.log.check_session()
        return self._loads.get(index)

    def _check_topic(self) -> bool:
        """Whether the topic exists. If it was deleted, everything that was known is gone with it."""
        topics = self._node.topics
        topic_id = topics.topic(TRANSACTION_STATE_TOPIC).topic_id if TRANSACTION_STATE_TOPIC in topics else None
        if topic_id != self._topic_id:
            self._loads.clear()
            self._topic_id = topic_id
        return topic_id is not None

    def _load(self, index: int) -> LoadSteps[Transactions]:
        shard = Transactions(self._node.producer_ids.allocate)
        self._epochs[index] = self.log.partition(index).leader_epoch
        try:
            for record in self.log.load(index):
                shard.restore(*transaction_in(record.key, record.value))
                yield len(record.key) + len(record.value or b"")
        except ProtocolError as error:
            raise BrokerError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"The transaction log is damaged: {error}"
            ) from error
        return shard

    def _shard_loaded(self, index: int, shard: Transactions) -> None:
        if self._node.is_clustered:
            shard.take_over(self._node.now_ms())
        self._deadlines.set(str(index), shard.next_deadline_ms())
        self._finish_all(index, shard)

    def _write(self, index: int, shard: Transactions, change: Change, on_done: OnDone) -> None:
        record = tombstone_of(change.transactional_id) if change.after is None else record_of(change.after)
        self.log.append(index, [record], on_committed=partial(self._written, index, shard, change, on_done))

    def _written(
        self, index: int, shard: Transactions, change: Change, on_done: OnDone, error: BrokerError | None
    ) -> None:
        if error is None and not self._is_current(index, shard):
            # Another change of the partition failed, and the log was or will be loaded again: what it says counts.
            error = BrokerError(ErrorCode.NOT_COORDINATOR, "The transaction log is being loaded again.")
        if error is not None:
            self._forget(index, shard)
            on_done(error)
        else:
            shard.committed(change)
            after = change.after
            if after is not None and after.state.is_prepared:
                self._endings.begin(index, shard, after, self._epochs[index], lambda: on_done(None))
            else:
                if after is not None:
                    self._deadlines.set(str(index), after.deadline_ms)
                on_done(None)
        self._wake(change.transactional_id)

    def _forget(self, index: int, shard: Transactions) -> None:
        """Memory must not say what the log may lack."""
        if self._loads.discard(index, shard):
            self._deadlines.set(_RESUME, self._node.now_ms() + _RETRY_MS)

    def _wake(self, transactional_id: str) -> None:
        for callback in self._waiting.pop(transactional_id, ()):
            callback()

    # The end of a transaction

    def _finish_all(self, index: int, shard: Transactions) -> None:
        for transaction in shard.prepared():
            transactional_id = transaction.transactional_id
            if not self._endings.is_ending(transactional_id, shard) and not shard.is_pending(transactional_id):
                self._endings.begin(index, shard, transaction, self._epochs[index])

    def _markers_written(self, ending: Ending) -> None:
        self.log.check_append(ending.index)
        change = ending.shard.markers_written(ending.transaction.transactional_id, self._node.now_ms())
        self._write(ending.index, ending.shard, change, lambda error: ending.tell_client())

    def _is_current(self, index: int, shard: Transactions) -> bool:
        return self._loads.loaded.get(index) is shard

    # Time

    def _due(self, key: str) -> None:
        if key == _EXPIRY:
            self._expire()
        elif key == _RESUME:
            self.resume()
        elif int(key) in self._loads.loaded:
            self._abort_overdue(int(key))

    def _abort_overdue(self, index: int) -> None:
        shard = self._loads.loaded[index]
        if not self._may_append(index):
            self._deadlines.set(str(index), self._node.now_ms() + _RETRY_MS)
            return
        for change in shard.tick(self._node.now_ms()):
            logger.info("the transaction of %s ran out of time and is aborted", change.transactional_id)
            self._write(index, shard, change, lambda error: None)
        self._deadlines.set(str(index), shard.next_deadline_ms())

    def _may_append(self, index: int) -> bool:
        """What is due can wait; behind an append that is refused the partition would have to be loaded again."""
        try:
            self.log.check_append(index)
        except BrokerError:
            return False
        return True

    def _expire_later(self) -> None:
        interval_ms = self._node.config.transaction_remove_expired_transaction_cleanup_interval_ms
        self._deadlines.set(_EXPIRY, self._node.now_ms() + interval_ms)

    def _expire(self) -> None:
        for index, shard in tuple(self._loads.loaded.items()):
            if not self._may_append(index):
                continue
            for change in shard.expire(self._node.now_ms(), self._node.config.transactional_id_expiration_ms):
                self._write(index, shard, change, lambda error: None)
        self._expire_later()


def _check_id(transactional_id: str) -> None:
    if not transactional_id:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "A transactional id must not be empty.")
