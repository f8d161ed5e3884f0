"""The groups and offsets of one partition of `__consumer_offsets`, and the way of their changes into it.

Memory changes at once, answers wait until every change made before them is in the log. If an append fails, memory may
say what the log does not, so the shard is given up, and the next request has it loaded again.

Invariant: no answer leaves before the records that it rests on are committed.
Invariant: a shard that was given up answers nothing any more but the error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from penstock.broker.coordinator_log import CoordinatorLog
from penstock.broker.groups.reply import GroupReply
from penstock.broker.groups.traits import Group
from penstock.coordinator.offsets import Offsets
from penstock.coordinator.records.codec import CoordinatorRecord
from penstock.protocol.error_codes import BrokerError
from penstock.protocol.record_encoding import BatchProducer

AfterWrites = Callable[[BrokerError | None], None]


class GroupShard:
    def __init__(self, index: int, log: CoordinatorLog, on_failed: Callable[[GroupShard, BrokerError], None]) -> None:
        self.index = index
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        self.stale_offsets: list[CoordinatorRecord] = []  # tombstones that loading found to be due
        self.failure: BrokerError | None = None
        self._log = log
        self._on_failed = on_failed
        self._appended = 0
        self._committed = 0
        self._waiting: deque[tuple[int, AfterWrites]] = deque()

    def append(self, records: Sequence[CoordinatorRecord], transaction_of: BatchProducer | None = None) -> None:
        """What was changed in memory, on its way into the log."""
        if not records or self.failure is not None:
            return
        self._appended += 1
        on_committed = partial(self._append_ended, self._appended)
        if transaction_of is None:
            self._log.append(self.index, records, on_committed=on_committed)
        else:
            self._log.append(
                self.index, records, producer=transaction_of, transactional=True, on_committed=on_committed
            )

    def after_writes(self, callback: AfterWrites) -> None:
        """Calls back when everything appended so far is in the log, at once if it is; with the error if it is not."""
        if self.failure is not None or self._committed == self._appended:
            callback(self.failure)
        else:
            self._waiting.append((self._appended, callback))

    def answer(self, reply: GroupReply, result: Any) -> None:
        """Says it when every change so far is in the log."""
        if self.failure is None and self._committed == self._appended:
            reply.give(result)
            return

        def say(failure: BrokerError | None) -> None:
            if failure is None:
                reply.give(result)
            else:
                reply.fail(failure)

        self.after_writes(say)

    def give_up(self, failure: BrokerError) -> None:
        """Fails every answer that waits. From now on the shard appends nothing and answers nothing but the error."""
        if self.failure is not None:
            return
        self.failure = failure
        waiting, self._waiting = self._waiting, deque()
        for _, callback in waiting:
            callback(failure)
        self._on_failed(self, failure)

    def _append_ended(self, number: int, error: BrokerError | None) -> None:
        if error is not None:
            self.give_up(error)
            return
        if self.failure is not None:
            return
        self._committed = max(self._committed, number)
        while self._waiting and self._waiting[0][0] <= self._committed:
            self._waiting.popleft()[1](None)
