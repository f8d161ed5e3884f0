"""The consume loop behind `Consumer.run`: it orders offset commits and handler calls to keep a declared guarantee.

    at_most_once    commit, then the handler         a crash may lose up to one batch, and repeats nothing
    at_least_once   the handler, then commit         a crash may repeat up to one batch, and loses nothing
    exactly_once    both in one atomic commit        a crash loses and repeats nothing

Owns the loop, the order of handler and commit, and the handling of failed batches. It must never know what a store
keeps: see `database_store.py`, `deduplication.py` and `kafka_transaction.py`.

Invariants: a batch is completed or abandoned before the next poll, and rebalances happen only inside polls. So no
offset is committed for a revoked partition or for an unprocessed record. After an error, the position is such that
another `run` keeps the guarantee.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol, get_args

from penstock.client.delivery.dead_letters import DeadLetter, DeadLetterProducer, OnError
from penstock.client.delivery.error_handling import ErrorHandling
from penstock.client.delivery.handler_error import HandlerError
from penstock.client.delivery.idleness import Idleness
from penstock.client.records import Record, first_offsets, next_offsets
from penstock.core.errors import ClientError, CommitRefused
from penstock.core.guarantee import Guarantee
from penstock.core.ids import TopicPartition

if TYPE_CHECKING:
    from penstock.client.consumer import Consumer

Handler = Callable[..., object]
"""Takes a record, or a list of records with `batch=True`; under `exactly_once` also the store's transaction."""

_POLL_S: Final = 0.1
_log = logging.getLogger("penstock.delivery")


class InvalidGuarantee(ClientError):
    """The arguments do not allow the guarantee."""


class Store(Protocol):
    """Commits progress together with effects, for `exactly_once`."""

    def open(self, consumer: Consumer, publisher: DeadLetterProducer) -> StoreSession:
        """Called once per run, before the first read. `publisher` sends dead letters that are not in a transaction."""


class StoreSession(Protocol):
    def starting_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Takes ownership of these partitions and returns their offsets; the others start at the group's offsets."""

    def deliver(self, records: Sequence[Record], call: Call, /) -> int:
        """Commits effect and progress of these records atomically. Returns the number of processed records."""

    def put_away(self, letters: Sequence[DeadLetter], /, *transaction: Any) -> None:
        """Makes dead letters part of the open transaction."""

    def idle(self) -> None:
        """Called after a poll without records."""

    def close(self) -> None:
        """Called at the end of the run, also after an error."""


class Call(Protocol):
    """Calls the handler with these records, together or one by one; wraps its exceptions in HandlerError."""

    def __call__(self, records: Sequence[Record], /, *transaction: Any) -> None: ...


def run(
    consumer: Consumer,
    handler: Handler,
    guarantee: Guarantee,
    store: Store | None,
    *,
    batch: bool,
    stop_when_idle_s: float | None,
    on_error: OnError | None = None,
    on_handler_error: OnError | None = None,
) -> int:
    """Returns the number of processed records: handled, or put away."""
    _check(guarantee, store)
    errors = ErrorHandling.parse(on_error, on_handler_error, group=consumer.group_id, batch=batch)
    call = _whole(handler) if batch else _one_by_one(handler)
    publisher = DeadLetterProducer(consumer.connection_config())
    try:
        if store is None:
            consumer.begin_run(None, errors, exactly_once=False)
            guarded = errors.around(call, lambda letters, *_none: publisher.publish(letters), atomic=False)
            in_order = _at_most_once if guarantee == "at_most_once" else _at_least_once
            return _loop(
                consumer,
                lambda records: in_order(consumer, records, guarded, batch=batch),
                lambda: None,
                stop_when_idle_s,
            )
        return _run_with_store(consumer, store.open(consumer, publisher), call, errors, stop_when_idle_s)
    finally:
        consumer.end_run()
        publisher.close()


def _run_with_store(
    consumer: Consumer, session: StoreSession, call: Call, errors: ErrorHandling, stop_when_idle_s: float | None
) -> int:
    guarded = errors.around(call, session.put_away, atomic=True)

    def deliver(records: list[Record]) -> int:
        try:
            done = session.deliver(records, guarded)
        except HandlerError as failure:
            if not errors.condemns(failure):
                raise
            return 0  # rolled back; the batch is read again, and the record is put away
        if done:
            errors.committed(records)
        return done

    try:
        consumer.begin_run(session.starting_offsets, errors, exactly_once=True)
        return _loop(consumer, deliver, session.idle, stop_when_idle_s)
    finally:
        session.close()


def _loop(
    consumer: Consumer,
    deliver: Callable[[list[Record]], int],
    on_idle: Callable[[], None],
    stop_when_idle_s: float | None,
) -> int:
    handled = 0
    idleness = Idleness(consumer, stop_when_idle_s)
    while not consumer.stopping():
        records = consumer.poll(_POLL_S)
        if records:
            handled += deliver(records)
            idleness.records_arrived()
            continue
        on_idle()
        if idleness.is_enough():
            break
    return handled


def _check(guarantee: str, store: Store | None) -> None:
    if guarantee not in get_args(Guarantee):
        raise InvalidGuarantee(f"unknown guarantee {guarantee!r}: choose one of {', '.join(get_args(Guarantee))}")
    if guarantee == "exactly_once" and store is None:
        raise InvalidGuarantee(
            "exactly_once requires a store that commits effect and progress together: "
            "SQLiteStore, PostgresStore, or KafkaTransaction for a handler that produces"
        )
    if guarantee != "exactly_once" and store is not None:
        raise InvalidGuarantee(f"{guarantee} takes no store; did you mean exactly_once?")


def _at_most_once(consumer: Consumer, records: Sequence[Record], call: Call, *, batch: bool) -> int:
    try:
        consumer.commit(next_offsets(records))
    except CommitRefused as refusal:
        # The partitions are, or will be, revoked. Those that stay assigned are read again: nothing is committed.
        _log.info("a batch is returned unprocessed: %s", refusal)
        consumer.rewind(first_offsets(records))
        return 0
    for number, portion in enumerate(_portions(records, batch=batch), start=1):
        try:
            call(portion)
        except HandlerError:
            # The handler has not seen the remaining records: they must not be lost with the failed one.
            _return_unprocessed(consumer, records[number * len(portion) :])
            raise
    return len(records)


def _return_unprocessed(consumer: Consumer, records: Sequence[Record]) -> None:
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
        _log.info("a batch will be repeated: %s", refusal)
    return done


def _portions(records: Sequence[Record], *, batch: bool) -> list[Sequence[Record]]:
    """The records of each call of the handler."""
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
