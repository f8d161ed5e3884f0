"""Transactions whose outcome is decided, until every partition has its marker.

Markers are delivered to all partitions at once, and again to those whose leader did not take them: leaders move, and a
partition without a leader waits for one. Nothing is given up but what can never be written.

Owns: which markers are missing, and when they are sent again. The transaction's state is the coordinator's.

Invariant: an ending belongs to the shard that decided it. When the shard is forgotten, its endings are: whoever loads
the partition next finds the decision in the log, and writes the markers in its own epoch.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.broker.transactions.marker_delivery import deliver_markers
from penstock.broker.transactions.markers import Failures, TransactionEnd
from penstock.coordinator.transaction import ProtocolLevel, Transaction
from penstock.coordinator.transactions import Transactions
from penstock.core.ids import TopicPartition
from penstock.protocol.error_codes import BrokerError, ErrorCode

if TYPE_CHECKING:
    from penstock.broker.node import Node

logger = logging.getLogger(__name__)

# A marker that is refused so will never be written: the partition is gone, or it has seen a later epoch already.
_NEVER_TO_BE_WRITTEN: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    }
)
# The partition has another leader soon, and perhaps has it already.
_LEADER_MOVES: Final = frozenset(
    {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION}
)
_LEADER_RETRY_S: Final = 0.1
_RETRY_S: Final = 1.0


@dataclass(slots=True, eq=False)
class Ending:
    """`missing` are the partitions without a marker. `tell` answers the client; it is called once."""

    index: int
    shard: Transactions
    transaction: Transaction
    coordinator_epoch: int
    missing: list[TopicPartition]
    tell: Callable[[], None] | None
    attempts: int = 0

    def tell_client(self) -> None:
        tell, self.tell = self.tell, None
        if tell is not None:
            tell()


class Endings:
    """Belongs to the event loop. `is_current` knows whether a shard is still the partition's state.

    `on_written` is told that every marker is there. It raises BrokerError if that cannot be written now; it is told
    again later.
    """

    def __init__(
        self, node: Node, is_current: Callable[[int, Transactions], bool], on_written: Callable[[Ending], None]
    ) -> None:
        self._node = node
        self._is_current = is_current
        self._on_written = on_written
        self._endings: dict[str, Ending] = {}
        self._waiting: dict[Ending, None] = {}  # for the next attempt
        self._timer: asyncio.TimerHandle | None = None

    def is_ending(self, transactional_id: str, shard: Transactions) -> bool:
        ending = self._endings.get(transactional_id)
        return ending is not None and ending.shard is shard

    def begin(
        self,
        index: int,
        shard: Transactions,
        transaction: Transaction,
        coordinator_epoch: int,
        tell: Callable[[], None] | None = None,
    ) -> None:
        """Writes the markers. The client is told when they are written, or when some of them have to wait: the outcome
        is decided by then, and only readers have to wait for it."""
        ending = Ending(index, shard, transaction, coordinator_epoch, sorted(transaction.partitions), tell)
        self._endings[transaction.transactional_id] = ending
        self._attempt(ending)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._endings.clear()
        self._waiting.clear()

    def _attempt(self, ending: Ending) -> None:
        ending.attempts += 1
        transaction = ending.transaction
        end = TransactionEnd(
            transaction.producer,
            transaction.commits,
            ending.coordinator_epoch,
            epoch_must_be_new=transaction.level is ProtocolLevel.EPOCH_PER_TRANSACTION,
        )
        deliver_markers(self._node, end, ending.missing, partial(self._attempted, ending))

    def _attempted(self, ending: Ending, failures: Failures) -> None:
        transactional_id = ending.transaction.transactional_id
        for place, error in failures.items():
            level = logging.WARNING if ending.attempts == 1 else logging.DEBUG
            logger.log(level, "no marker of %s in %s-%d: %s", transactional_id, *place, error.message)
        lasting = {place: error.code for place, error in failures.items() if error.code not in _NEVER_TO_BE_WRITTEN}
        if self._endings.get(transactional_id) is not ending or not self._is_current(ending.index, ending.shard):
            self._forget(ending)
            ending.tell_client()
        elif lasting:
            ending.missing = sorted(lasting)
            self._waiting[ending] = None
            self._attempt_later(_LEADER_RETRY_S if _LEADER_MOVES.issuperset(lasting.values()) else _RETRY_S)
            ending.tell_client()
        else:
            self._complete(ending)

    def _complete(self, ending: Ending) -> None:
        try:
            self._on_written(ending)
        except BrokerError as error:
            logger.debug("the end of %s cannot be written: %s", ending.transaction.transactional_id, error.message)
            ending.missing = []
            self._waiting[ending] = None
            self._attempt_later(_RETRY_S)
            ending.tell_client()
        else:
            self._forget(ending)

    def _forget(self, ending: Ending) -> None:
        transactional_id = ending.transaction.transactional_id
        if self._endings.get(transactional_id) is ending:
            del self._endings[transactional_id]

    def _attempt_later(self, delay_s: float) -> None:
        loop = self._node.loop
        if self._timer is not None:
            if self._timer.when() <= loop.time() + delay_s:
                return
            self._timer.cancel()
        self._timer = loop.call_later(delay_s, self._attempt_again)

    def _attempt_again(self) -> None:
        self._timer = None
        waiting, self._waiting = self._waiting, {}
        for ending in sorted(waiting, key=lambda each: each.transaction.transactional_id):
            if self._endings.get(ending.transaction.transactional_id) is not ending:
                continue
            if self._is_current(ending.index, ending.shard):
                self._attempt(ending)
            else:
                self._forget(ending)
