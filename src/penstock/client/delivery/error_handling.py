"""Keeps records that cannot be processed from stopping a run: they are dropped, or become dead letters of their batch.

Owns which records of a batch reach the handler. It must never know how a batch is committed.

Under `exactly_once` a handler that fails may have done a part of its work in the transaction. The batch is rolled back
and delivered again, without the failed record. Elsewhere there is nothing to roll back, and the batch goes on.

Invariant: a record is handled, put away in the commit of its batch, or delivered again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from penstock.client.delivery.dead_letters import STOP, DeadLetter, ErrorPolicy, OnError
from penstock.client.delivery.handler_error import HandlerError
from penstock.client.records import Record, SourceRecord, Undecodable
from penstock.core.dead_letters import Stage
from penstock.core.errors import InvalidClientSetting
from penstock.core.ids import TopicPartition

if TYPE_CHECKING:
    from penstock.client.delivery.loop import Call

_log = logging.getLogger("penstock.delivery")


class PutAway(Protocol):
    """Makes dead letters part of the commit of their batch."""

    def __call__(self, letters: Sequence[DeadLetter], /, *transaction: Any) -> None: ...


class ErrorHandling:
    def __init__(self, undecodable: ErrorPolicy, failed: ErrorPolicy, group: str) -> None:
        self._undecodable = undecodable
        self._failed = failed
        self._group = group
        self._condemned: dict[tuple[TopicPartition, int], str] = {}

    @classmethod
    def parse(
        cls, on_error: OnError | None, on_handler_error: OnError | None, *, group: str, batch: bool
    ) -> ErrorHandling:
        """By default, undecodable records go to the topic `<group>.dlq`, and a handler's exception stops the run."""
        default = ErrorPolicy(stops=False, topic=f"{group}.dlq")
        failed = ErrorPolicy.parse("on_handler_error", on_handler_error, default=STOP)
        if batch and not failed.stops:
            raise InvalidClientSetting("on_handler_error requires batch=False: of a batch, no record has failed alone")
        return cls(ErrorPolicy.parse("on_error", on_error, default=default), failed, group)

    @property
    def keeps_undecodable(self) -> bool:
        return not self._undecodable.stops

    @property
    def keeps_bytes(self) -> bool:
        return self._failed.topic is not None

    def around(self, call: Call, put_away: PutAway, *, atomic: bool) -> Call:
        """`atomic`: the batch can be rolled back as a whole, and a failed record cannot be undone alone."""
        if self._undecodable.stops and self._failed.stops:
            return call

        def guarded(records: Sequence[Record], *transaction: Any) -> None:
            letters = _Letters(self._group)
            good: list[Record] = []
            for record in records:
                condemned = self._condemned.get((record.topic_partition, record.offset))
                if isinstance(record, Undecodable):
                    letters.add(self._undecodable, record, record.reason, "parse")
                elif condemned is not None:
                    letters.add(self._failed, record, condemned, "handle")
                else:
                    good.append(record)
            if good:
                try:
                    call(good, *transaction)
                except HandlerError as failure:
                    if atomic or self._failed.stops:
                        raise
                    (failed,) = good  # without a transaction, records are handed over one by one
                    letters.add(self._failed, failed, _reason(failure), "handle")
            letters.put_away(put_away, *transaction)

        return guarded

    def condemns(self, failure: HandlerError) -> bool:
        """Whether the failed record is put away when its batch, which was rolled back, is delivered again."""
        if self._failed.stops:
            return False
        place = (TopicPartition(failure.topic, failure.partition), failure.offset)
        self._condemned[place] = _reason(failure)
        return True

    def committed(self, records: Sequence[Record]) -> None:
        """These records do not come again."""
        if self._condemned:
            for record in records:
                self._condemned.pop((record.topic_partition, record.offset), None)


class _Letters:
    """The records of one call that are put away."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._letters: list[DeadLetter] = []
        self._count = 0
        self._first = ""

    def add(self, policy: ErrorPolicy, record: Record, reason: str, stage: Stage) -> None:
        if not self._count:
            self._first = f"{record.topic_partition} offset {record.offset}: {reason}"
        self._count += 1
        if policy.topic is not None:
            assert isinstance(record, SourceRecord), "the consumer was asked to keep the bytes"
            letter = policy.letter(record, reason, stage, self._group)
            if letter is not None:
                self._letters.append(letter)

    def put_away(self, put_away: PutAway, *transaction: Any) -> None:
        if not self._count:
            return
        put_away(self._letters, *transaction)
        topics = sorted({f"'{letter.topic}'" for letter in self._letters})
        fate = f"sent to {', '.join(topics)}" if topics else "dropped"
        if self._count == 1:
            _log.warning("a record was %s: %s", fate, self._first)
        else:
            _log.warning("%d records were %s; the first: %s", self._count, fate, self._first)


def _reason(failure: HandlerError) -> str:
    cause = failure.__cause__
    return f"the handler raised {type(cause).__name__}: {cause}"
