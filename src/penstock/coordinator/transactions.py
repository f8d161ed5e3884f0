"""The transactional ids of one partition of `__transaction_state`, and what their producers may do.

Every request either raises the BrokerError that its client must be told, or returns a `Change`: what has to be written
down before it holds. Whoever carries it out says `committed` once it is durable, or `refused` if it never will be.
Until then, whoever asks for another change of the same transactional id is told CONCURRENT_TRANSACTIONS. None in place
of a Change means that what was asked for is already so.

Owns: which request is allowed in which state, and with which error it is refused. Errors are those of the newest
clients; handlers translate them for older ones.
Must never know: logs, partitions, connections, the clock. Time and producer ids are passed in.

Invariant: at most one transaction of a transactional id is open, and one Change of it is under way.
Invariant: only the producer with the current id and epoch gets anything in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from penstock.coordinator.transaction import ProtocolLevel, Transaction, TransactionState, is_exhausted
from penstock.core.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, PRODUCER_EPOCH_MAX, ProducerIdentity, TopicPartition
from penstock.protocol.error_codes import BrokerError, ErrorCode


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of a transactional id once this is durable; None: it is forgotten."""

    transactional_id: str
    after: Transaction | None


class Transactions:
    def __init__(self, allocate_producer_id: Callable[[], int]) -> None:
        self._allocate_producer_id = allocate_producer_id
        self._known: dict[str, Transaction] = {}
        self._open: dict[str, Transaction] = {}  # those in ONGOING, which have a deadline
        self._pending: dict[str, Change] = {}

    def __iter__(self) -> Iterator[Transaction]:
        return iter(tuple(self._known.values()))

    def find(self, transactional_id: str) -> Transaction | None:
        return self._known.get(transactional_id)

    def is_pending(self, transactional_id: str) -> bool:
        return transactional_id in self._pending

    # Writing down

    def committed(self, change: Change) -> None:
        """The change is durable, and holds from now on."""
        self._settle(change)
        self.restore(change.transactional_id, change.after)

    def refused(self, change: Change) -> None:
        """The change could not be written, and left no trace."""
        self._settle(change)

    def _settle(self, change: Change) -> None:
        settled = self._pending.pop(change.transactional_id)
        assert settled is change, "a change is settled once, before the next one is proposed"

    def restore(self, transactional_id: str, transaction: Transaction | None) -> None:
        """What the log says; a later record of the same id overrules an earlier one."""
        self._open.pop(transactional_id, None)
        if transaction is None:
            self._known.pop(transactional_id, None)
            return
        self._known[transactional_id] = transaction
        if transaction.state is TransactionState.ONGOING:
            self._open[transactional_id] = transaction

    def prepared(self) -> list[Transaction]:
        """Decided, and not completed: their markers must be written, again if need be."""
        return [transaction for transaction in self._known.values() if transaction.state.is_prepared]

    def _propose(self, after: Transaction) -> Change:
        change = self._pending[after.transactional_id] = Change(after.transactional_id, after)
        return change

    # Requests

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdentity | None, now_ms: int
    ) -> Change:
        """A session begins, or goes on after an error (`expected`, KIP-360).

        An open transaction is aborted first: then the Change leads to PREPARE_ABORT, and the client has to ask again.
        """
        self._check_not_pending(transactional_id)
        known = self._known.get(transactional_id)
        if known is None:
            # An id that has expired: whoever still expects it may go on with a new one.
            return self._propose(Transaction.begin(transactional_id, self._allocate_producer_id(), timeout_ms, now_ms))
        if expected is not None and not _may_go_on(known, expected):
            raise _fenced(known, expected)
        if known.state.is_prepared:
            raise _concurrent(known)
        if known.state is TransactionState.ONGOING:
            return self._propose(known.fenced(now_ms))
        if is_exhausted(known.epoch) and (expected is None or expected.epoch == known.epoch):
            last_epoch = NO_PRODUCER_EPOCH if expected is None else known.epoch
            producer_id = self._allocate_producer_id()
            return self._propose(known.with_producer_id(producer_id, last_epoch, timeout_ms, now_ms))
        if expected is None:
            epoch, last_epoch = known.epoch + 1, int(NO_PRODUCER_EPOCH)
        elif expected.epoch == known.epoch:
            epoch, last_epoch = known.epoch + 1, known.epoch
        elif expected.epoch == known.last_epoch:
            # The answer to the same request was lost. Nobody came in between, or there were no last epoch.
            epoch, last_epoch = known.epoch, known.last_epoch
        else:
            raise _fenced(known, expected)
        return self._propose(known.with_epoch(epoch, last_epoch, timeout_ms, now_ms))

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: frozenset[TopicPartition],
        level: ProtocolLevel,
        now_ms: int,
    ) -> Change | None:
        """Opens the transaction if none is open. None: all of them are already in it."""
        known = self._known_producer(transactional_id, producer)
        self._check_not_pending(transactional_id)
        if known.state.is_prepared:
            raise _concurrent(known)
        if known.state is TransactionState.ONGOING and partitions <= known.partitions:
            return None
        return self._propose(known.with_partitions(partitions, level, now_ms))

    def verify_partition(self, transactional_id: str, producer: ProducerIdentity, partition: TopicPartition) -> None:
        """Raises unless the partition is in the producer's open transaction (KIP-890, part 1)."""
        known = self._known_producer(transactional_id, producer)
        if known.state.is_prepared:
            raise _concurrent(known)
        if partition not in known.partitions:
            raise BrokerError(
                ErrorCode.TRANSACTION_ABORTABLE,
                f"{partition.topic}-{partition.partition} is not in the open transaction of {transactional_id}.",
            )

    def end(
        self, transactional_id: str, producer: ProducerIdentity, commits: bool, level: ProtocolLevel, now_ms: int
    ) -> Change | None:
        """Decides the outcome. None: it was decided so before, and this is the same request again."""
        if level is ProtocolLevel.CLASSIC:
            return self._end_classic(transactional_id, producer, commits, now_ms)
        known = self._known.get(transactional_id)
        if known is None:
            raise _unmapped(transactional_id)
        repeated = _repeats_end(known, producer)
        if producer.producer_id != known.producer_id and not repeated:
            raise _unmapped(transactional_id)
        if known.state in (TransactionState.EMPTY, TransactionState.ONGOING):
            is_valid = producer.epoch == known.epoch
        else:
            is_valid = repeated or (known.state.is_at_rest and producer.epoch == known.epoch)
        if not is_valid:
            raise _fenced(known, producer)
        self._check_not_pending(transactional_id)
        if known.state.is_prepared:
            raise _concurrent(known) if commits == known.commits else _wrong_state(known, commits)
        if known.state is TransactionState.ONGOING:
            return self._propose_end(known, commits, now_ms)
        if repeated:
            if commits == known.commits:
                return None
            raise _wrong_state(known, commits)
        if commits:
            raise _wrong_state(known, commits)
        # Nothing reached the coordinator, but some of it may be on its way: the new epoch keeps it out.
        return self._propose_end(known, commits, now_ms)

    def _propose_end(self, known: Transaction, commits: bool, now_ms: int) -> Change:
        next_producer_id = self._allocate_producer_id() if is_exhausted(known.epoch) else NO_PRODUCER_ID
        return self._propose(known.prepared(commits, ProtocolLevel.EPOCH_PER_TRANSACTION, next_producer_id, now_ms))

    def _end_classic(
        self, transactional_id: str, producer: ProducerIdentity, commits: bool, now_ms: int
    ) -> Change | None:
        known = self._known_producer(transactional_id, producer)
        self._check_not_pending(transactional_id)
        if known.state is TransactionState.ONGOING:
            return self._propose(known.prepared(commits, ProtocolLevel.CLASSIC, NO_PRODUCER_ID, now_ms))
        if known.state is TransactionState.EMPTY or commits != known.commits:
            raise _wrong_state(known, commits)
        if known.state.is_prepared:
            raise _concurrent(known)
        return None

    # What happens without a request

    def markers_written(self, transactional_id: str, now_ms: int) -> Change:
        """Every partition of the prepared transaction has its marker, or exists no more."""
        assert transactional_id not in self._pending
        return self._propose(self._known[transactional_id].completed(now_ms))

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do. A change under way comes first, and may move it."""
        return min(
            (
                open_.start_ms + open_.timeout_ms
                for open_ in self._open.values()
                if open_.transactional_id not in self._pending
            ),
            default=None,
        )

    def tick(self, now_ms: int) -> list[Change]:
        """Aborts the transactions that ran out of time. Their producers are fenced."""
        return [
            self._propose(open_.fenced(now_ms))
            for open_ in tuple(self._open.values())
            if open_.start_ms + open_.timeout_ms <= now_ms and open_.transactional_id not in self._pending
        ]

    def expire(self, now_ms: int, expiration_ms: int) -> list[Change]:
        """Forgets the transactional ids that nobody used for longer than `transactional.id.expiration.ms`."""
        changes = []
        for known in self._known.values():
            unused_ms = now_ms - known.last_update_ms
            if known.state.is_at_rest and unused_ms >= expiration_ms and known.transactional_id not in self._pending:
                change = self._pending[known.transactional_id] = Change(known.transactional_id, None)
                changes.append(change)
        return changes

    # Checks

    def _known_producer(self, transactional_id: str, producer: ProducerIdentity) -> Transaction:
        known = self._known.get(transactional_id)
        if known is None or known.producer_id != producer.producer_id:
            raise _unmapped(transactional_id)
        if known.epoch != producer.epoch:
            raise _fenced(known, producer)
        return known

    def _check_not_pending(self, transactional_id: str) -> None:
        if transactional_id in self._pending:
            raise BrokerError(
                ErrorCode.CONCURRENT_TRANSACTIONS, f"An earlier request of {transactional_id} is still being written."
            )


def _may_go_on(known: Transaction, expected: ProducerIdentity) -> bool:
    """The producer that asks is the current one, or lost the answer that told it its new id."""
    if expected.producer_id == known.producer_id:
        return True
    return expected.producer_id == known.previous_producer_id and is_exhausted(expected.epoch)


def _repeats_end(known: Transaction, producer: ProducerIdentity) -> bool:
    """Whether an EndTxn comes from before the bump that ended the last transaction."""
    if producer.producer_id == known.producer_id:
        return known.epoch == producer.epoch + 1
    return (
        producer.producer_id == known.previous_producer_id
        and producer.epoch == PRODUCER_EPOCH_MAX - 1
        and known.epoch == 0
    )


def _unmapped(transactional_id: str) -> BrokerError:
    return BrokerError(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        f"The producer id is not the one of the transactional id {transactional_id}.",
    )


def _fenced(known: Transaction, producer: ProducerIdentity) -> BrokerError:
    return BrokerError(
        ErrorCode.PRODUCER_FENCED,
        f"The epoch of {known.transactional_id} is {known.epoch} of producer {known.producer_id}, "
        f"not {producer.epoch} of producer {producer.producer_id}.",
    )


def _concurrent(known: Transaction) -> BrokerError:
    return BrokerError(
        ErrorCode.CONCURRENT_TRANSACTIONS, f"The last transaction of {known.transactional_id} is still being ended."
    )


def _wrong_state(known: Transaction, commits: bool) -> BrokerError:
    asked = "committed" if commits else "aborted"
    return BrokerError(
        ErrorCode.INVALID_TXN_STATE,
        f"The transaction of {known.transactional_id} is in state {known.state.label} and cannot be {asked}.",
    )
