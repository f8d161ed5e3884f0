"""One attempt at a batch: taking an epoch for it, committing it, giving it up.

Spark plans a batch in one process, writes it in many, and commits it in yet another. What they share is a
`BatchAttempt`: made when the batch is planned, sent to the tasks with the writer, and back with their results.

    plan:    the owner is still this run -> a fresh epoch -> the last committed batch
    tasks:   skip a batch that is committed; otherwise produce in the epoch's name
    commit:  the batch's id joins the transaction, then it ends

Invariants:
- Records and the batch's id are committed together or not at all. A replayed batch is known by its id and skipped.
- Every attempt has an epoch of its own, so nothing that an earlier attempt still sends can join a later one.
- A run that is not the owner commits nothing.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.core.errors import ClientError
from penstock.core.ids import ProducerIdentity
from penstock.pipeline import crash_points
from penstock.pipeline.process_state import discard_client, process_wide, shared_client
from penstock.pipeline.topics.batch_ledger import (
    LedgerEntry,
    add_to_transaction,
    claim,
    end,
    is_ended_by_others,
    read_entry,
    take_epoch,
)
from penstock.pipeline.topics.errors import BatchInterrupted, Fenced
from penstock.pipeline.topics.sink_options import SinkOptions, read_sink_options, require_batches_topic
from penstock.protocol.error_codes import BrokerError
from penstock.wire.client import WireClient

logger = logging.getLogger(__name__)

_RECORD_ATTEMPTS: Final = 50
_RECORD_PAUSE_S: Final = 0.02
_OWNERSHIP_MAX_AGE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class BatchAttempt:
    name: str
    owner: str
    producer: ProducerIdentity
    last_committed: LedgerEntry

    def is_committed(self, query_id: str, batch_id: int) -> bool:
        return self.last_committed.holds(query_id, batch_id)


class OwnRun:
    """Where no driver names its run, the process that plans the batches is one."""

    def __init__(self) -> None:
        self.name = uuid.uuid4().hex
        self.claimed: set[tuple[str, str]] = set()
        self.seen_owner_s: dict[tuple[str, str], float] = {}
        """When a batch of this process last found its run to be the owner."""


_own_run: Final = process_wide(OwnRun)


def claim_ownership(options: Mapping[str, str]) -> None:
    """For a driver that names its run: called once at its start, with the options of its writer.

    From then on the run before it is fenced. Only this makes a run with a name the owner, so that one that was fenced
    cannot come back by trying again.
    """
    read = read_sink_options(options)
    require_batches_topic(read)
    if read.run is None:
        raise ValueError("a run that is to be the owner needs a name: the option run")
    claim(shared_client(read.wire_settings), read, read.run)


def begin_stream_batch(options: SinkOptions) -> BatchAttempt:
    """Which batch it will be, Spark does not say here: the tasks know."""
    client = shared_client(options.wire_settings)
    try:
        owner = _known_ownership(options) or _require_ownership(client, options)
        crash_points.reached("topic.before_init")
        producer = take_epoch(client, options)
        crash_points.reached("topic.after_init")
        entry = read_entry(client, options, require_stable=True)
    except ClientError:
        discard_client(options.wire_settings)
        raise
    if entry is None or entry.owner != owner:
        _own_run.seen_owner_s.pop(_ledger_of(options), None)
        raise _fenced(options)
    _own_run.seen_owner_s[_ledger_of(options)] = time.monotonic()
    return BatchAttempt(uuid.uuid4().hex, owner, producer, entry)


def begin_job(options: SinkOptions) -> BatchAttempt:
    """For a batch query: one transaction for all of it. A job that is run again is another job."""
    crash_points.reached("topic.before_init")
    producer = take_epoch(shared_client(options.wire_settings), options)
    crash_points.reached("topic.after_init")
    return BatchAttempt(uuid.uuid4().hex, "", producer, LedgerEntry())


def commit_stream_batch(options: SinkOptions, attempt: BatchAttempt, query_id: str, batch_id: int) -> None:
    """All records are acknowledged; now they count, and with them the batch's id."""
    client = shared_client(options.wire_settings)
    entry = LedgerEntry(attempt.owner, query_id, batch_id, attempt.name)
    try:
        crash_points.reached("topic.before_offsets")
        add_to_transaction(client, options, attempt.producer, entry)
        crash_points.reached("topic.before_end_txn")
        end(client, options, attempt.producer, commit=True)
        crash_points.reached("topic.after_end_txn")
    except (ClientError, BrokerError) as error:
        if not is_ended_by_others(error):
            raise
        # Also what a broker may say to the second asking when the answer to the first was lost.
        if read_entry(client, options, require_stable=True) != entry:
            raise interruption(client, options, attempt) from error


def commit_job(options: SinkOptions, attempt: BatchAttempt) -> None:
    client = shared_client(options.wire_settings)
    crash_points.reached("topic.before_end_txn")
    try:
        end(client, options, attempt.producer, commit=True)
    except (ClientError, BrokerError) as error:
        if is_ended_by_others(error):
            raise _interrupted(options) from error
        raise
    crash_points.reached("topic.after_end_txn")


def abort(options: SinkOptions, attempt: BatchAttempt) -> None:
    """Frees readers at once. Where it does not work, the next attempt's epoch or the timeout does the same."""
    try:
        end(shared_client(options.wire_settings), options, attempt.producer, commit=False)
    except (ClientError, BrokerError) as error:
        logger.warning("a transaction that failed could not be aborted at once: %s", error)


def record_before_writing(options: SinkOptions, attempt: BatchAttempt, query_id: str, batch_id: int) -> bool:
    """For at_most_once: whether this attempt may write the batch, which is on record before this returns True.

    Tasks of one attempt do this side by side in one epoch. The first to end its transaction has recorded the batch for
    all of them; the others may then find their epoch gone, look again, and see their own attempt's name.
    """
    client = shared_client(options.wire_settings)
    mine = LedgerEntry(attempt.owner, query_id, batch_id, attempt.name)
    for _ in range(_RECORD_ATTEMPTS):
        entry = read_entry(client, options, require_stable=True)
        if entry is None or entry.owner != attempt.owner:
            raise _fenced(options)
        if entry.holds(query_id, batch_id):
            return entry == mine
        try:
            add_to_transaction(client, options, attempt.producer, mine)
            end(client, options, attempt.producer, commit=True)
            crash_points.reached("topic.recorded")
            return True
        except (ClientError, BrokerError) as error:
            if not is_ended_by_others(error):
                raise
            time.sleep(_RECORD_PAUSE_S)
    raise _interrupted(options)


def interruption(client: WireClient, options: SinkOptions, attempt: BatchAttempt) -> Exception:
    """What became of a transaction that others have ended: fenced for good, or worth another attempt."""
    entry = None if not attempt.owner else read_entry(client, options, require_stable=False)
    if attempt.owner and (entry is None or entry.owner != attempt.owner):
        return _fenced(options)
    return _interrupted(options)


def _known_ownership(options: SinkOptions) -> str | None:
    """The owner, if it was this run a moment ago: a batch that begins right behind another need not look twice."""
    if time.monotonic() - _own_run.seen_owner_s.get(_ledger_of(options), float("-inf")) >= _OWNERSHIP_MAX_AGE_S:
        return None
    return options.run or _own_run.name


def _ledger_of(options: SinkOptions) -> tuple[str, str]:
    return options.wire_settings["bootstrap.servers"], options.group


def _require_ownership(client: WireClient, options: SinkOptions) -> str:
    """Looks before it takes an epoch, so that a run that was fenced long ago does not disturb its successor."""
    entry = read_entry(client, options, require_stable=False)
    if options.run is not None:
        if entry is None:
            claim(client, options, options.run)
        elif entry.owner != options.run:
            raise _fenced(options)
        return options.run
    what = _ledger_of(options)
    if what not in _own_run.claimed:
        claim(client, options, _own_run.name)
        _own_run.claimed.add(what)
    elif entry is None or entry.owner != _own_run.name:
        raise _fenced(options)
    return _own_run.name


def _fenced(options: SinkOptions) -> Fenced:
    return Fenced(
        f"another run has taken over transactional id '{options.transactional_id}'; this one stops, and has committed "
        "nothing since"
    )


def _interrupted(options: SinkOptions) -> BatchInterrupted:
    return BatchInterrupted(
        f"the transaction of '{options.transactional_id}' was ended by its timeout "
        f"({options.transaction_timeout_ms} ms) or by another attempt; nothing of the batch counts, and it can be run "
        "again"
    )
