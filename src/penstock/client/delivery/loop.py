"""The consume loop with a declared guarantee: when progress is recorded, relative to what the handler does.

    at_most_once    progress, then the handler       a crash may lose up to a batch, and repeats nothing
    at_least_once   the handler, then progress       a crash may repeat up to a batch, and loses nothing
    exactly_once    both in one atomic commit        a crash does neither

Owns the loop, the order of effect and commit, and what becomes of a batch that failed. It must never know what a store
keeps; those are `database_store.py`, `deduplication.py` and `kafka_transaction.py`.

Invariants: a batch is dealt with, or given up, before the next poll, and rebalances happen inside polls: so nothing is
committed for a partition that was taken away meanwhile, nor for a record that was not dealt with. After an error, the
position is such that another `run` keeps the guarantee.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol, get_args

from penstock.client.records import Record, first_offsets, next_offsets
from penstock.core.errors import ClientError, CommitRefused
from penstock.core.guarantee import Guarantee
from penstock.core.ids import TopicPartition

if TYPE_CHECKING:
    from penstock.client.consumer import Consumer

Handler = Callable[..., object]
"""Takes a record, or a list of them with `batch=True`; under `exactly_once` the store's transaction besides."""

_POLL_S: Final = 0.1
_JOINING_S_MAX: Final = 30.0
_log = logging.getLogger("penstock.delivery")


class HandlerError(ClientError):
    """The handler raised, which is the `__cause__`; of a batch, `offset` is the first one that was handed over."""

    def __init__(self, records: Sequence[Record], cause: Exception) -> None:
        self.topic, self.partition, self.offset = records[0].topic, records[0].partition, records[0].offset
        super().__init__(f"{_place(records)}: the handler raised {type(cause).__name__}: {cause}")


class InvalidGuarantee(ClientError):
    """The guarantee cannot be kept with what was given."""


class Store(Protocol):
    """Where `exactly_once` keeps progress together with effects."""

    def open(self, consumer: Consumer) -> StoreSession:
        """Called once for each run, before anything is read."""


class StoreSession(Protocol):
    def starting_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Takes these partitions over, and says where to begin; those that are not named begin where the group says."""

    def deliver(self, records: Sequence[Record], call: Call, /) -> int:
        """Effect and progress of these records, or neither. Returns how many were dealt with."""

    def close(self) -> None:
        """Called at the end of the run, however it ends."""


class Call(Protocol):
    """Calls the handler for these records, whole or one by one; what it raises arrives as HandlerError."""

    def __call__(self, records: Sequence[Record], /, *transaction: Any) -> None: ...


def run(
    consumer: Consumer,
    handler: Handler,
    guarantee: Guarantee,
    store: Store | None,
    *,
    batch: bool,
    stop_when_idle_s: float | None,
) -> int:
    """Returns how many records were handled."""
    _check(guarantee, store)
    call = _whole(handler) if batch else _one_by_one(handler)
    if store is None:
        consumer.begin_run(None, exactly_once=False)
        in_order = _at_most_once if guarantee == "at_most_once" else _at_least_once
        return _loop(consumer, lambda records: in_order(consumer, records, call, batch=batch), stop_when_idle_s)
    session = store.open(consumer)
    try:
        consumer.begin_run(session.starting_offsets, exactly_once=True)
        return _loop(consumer, lambda records: session.deliver(records, call), stop_when_idle_s)
    finally:
        consumer.end_run()
        session.close()


def _loop(consumer: Consumer, deliver: Callable[[list[Record]], int], stop_when_idle_s: float | None) -> int:
    handled = 0
    idleness = _Idleness(stop_when_idle_s)
    while not consumer.stopping():
        records = consumer.poll(_POLL_S)
        if records:
            handled += deliver(records)
            idleness.ends()
        elif idleness.is_enough(settled=consumer.settled()):
            break
    return handled


class _Idleness:
    """How long nothing came. Joining a group takes its time, in which nobody looks whether there is anything."""

    def __init__(self, limit_s: float | None) -> None:
        self._limit_s = limit_s
        self._settled = False
        self._since = time.monotonic()

    def is_enough(self, *, settled: bool) -> bool:
        if self._limit_s is None:
            return False
        if settled and not self._settled:
            self._settled = True
            self.ends()
        limit_s = self._limit_s if settled else max(self._limit_s, _JOINING_S_MAX)
        return time.monotonic() - self._since >= limit_s

    def ends(self) -> None:
        self._since = time.monotonic()


def _check(guarantee: str, store: Store | None) -> None:
    if guarantee not in get_args(Guarantee):
        raise InvalidGuarantee(f"no guarantee {guarantee!r}: choose one of {', '.join(get_args(Guarantee))}")
    if guarantee == "exactly_once" and store is None:
        raise InvalidGuarantee(
            "exactly_once wants a store that commits effect and progress together: "
            "SQLiteStore, PostgresStore, or KafkaTransaction for a handler that produces"
        )
    if guarantee != "exactly_once" and store is not None:
        raise InvalidGuarantee(f"{guarantee} takes no store; did you mean exactly_once?")


def _at_most_once(consumer: Consumer, records: Sequence[Record], call: Call, *, batch: bool) -> int:
    try:
        consumer.commit(next_offsets(records))
    except CommitRefused as refusal:
        # Not ours any more, or not for long. What stays ours has to be read again: it is not committed.
        _log.info("a batch is given back: %s", refusal)
        consumer.rewind(first_offsets(records))
        return 0
    for number, portion in enumerate(_portions(records, batch=batch), start=1):
        try:
            call(portion)
        except HandlerError:
            # Of the rest, the handler has seen nothing: it need not be lost with the record that failed.
            _give_back(consumer, records[number * len(portion) :])
            raise
    return len(records)


def _give_back(consumer: Consumer, records: Sequence[Record]) -> None:
    offsets = first_offsets(records)
    consumer.rewind(offsets)
    with suppress(ClientError):
        consumer.commit(offsets)


def _at_least_once(consumer: Consumer, records: Sequence[Record], call: Call, *, batch: bool) -> int:
    done = 0
    try:
        for portion in _portions(records, batch=batch):
            call(portion)
            done += len(portion)
    except BaseException:
        consumer.rewind(first_offsets(records[done:]))
        with suppress(ClientError):
            consumer.commit(next_offsets(records[:done]))
        raise
    try:
        consumer.commit(next_offsets(records))
    except CommitRefused as refusal:
        _log.info("a batch will come again: %s", refusal)
    return done


def _portions(records: Sequence[Record], *, batch: bool) -> list[Sequence[Record]]:
    """What the handler is called with at a time."""
    return [records] if batch else [[record] for record in records]


def _one_by_one(handler: Handler) -> Call:
    def call(records: Sequence[Record], *transaction: Any) -> None:
        for record in records:
            try:
                handler(record, *transaction)
            except Exception as cause:
                raise HandlerError([record], cause) from cause

    return call


def _whole(handler: Handler) -> Call:
    def call(records: Sequence[Record], *transaction: Any) -> None:
        try:
            handler(records, *transaction)
        except Exception as cause:
            raise HandlerError(records, cause) from cause

    return call


def _place(records: Sequence[Record]) -> str:
    """`topic 'a' partition 0 offset 7`, and for a batch every partition with its range."""
    first = first_offsets(records)
    parts = []
    for partition, end_offset in next_offsets(records).items():
        last = end_offset - 1
        offsets = f"offset {last}" if last == first[partition] else f"offsets {first[partition]} to {last}"
        parts.append(f"{partition} {offsets}")
    return ", ".join(parts)
