"""Which batch was committed last, and whose run may write the next: one committed offset with metadata.

It is the offset of group `<transactional id>.batches` in partition 0 of the sink's topic: one more than the batch's id,
with the rest as JSON beside it. A Kafka transaction can hold it together with the records, on any broker, and group
tools show it.

Owns the form of the entry and how a run takes it over. It must never know rows.

Invariant: the owner changes only in a transaction of its own under a fresh epoch. So a run that holds an epoch, and
finds itself the owner after it took it, stays the owner for as long as that epoch is good for anything.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from typing import Final

from penstock.core.errors import ProducerFenced
from penstock.core.ids import OffsetAndMetadata, ProducerIdentity, TopicPartition
from penstock.pipeline.topics.errors import BatchInterrupted, TopicSinkError
from penstock.pipeline.topics.sink_options import SinkOptions, require_batches_topic
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.wire.client import WireClient

NO_BATCH: Final = -1
_CLAIM_ATTEMPTS: Final = 20
_CLAIM_PAUSE_S: Final = 0.05
# What a coordinator says to a producer whose transaction another one has ended meanwhile.
_ENDED_BY_OTHERS: Final = frozenset(
    {ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.UNKNOWN_PRODUCER_ID}
)


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    owner: str = ""
    query_id: str = ""
    batch_id: int = NO_BATCH
    attempt: str = ""
    """Which attempt at the batch wrote this."""

    def holds(self, query_id: str, batch_id: int) -> bool:
        """Whether the batch, or a later one of the same query, is committed. Another query counts from 0 again."""
        return self.query_id == query_id and batch_id <= self.batch_id

    def to_offset(self) -> OffsetAndMetadata:
        content = {"owner": self.owner, "query": self.query_id, "batch": self.batch_id, "attempt": self.attempt}
        return OffsetAndMetadata(self.batch_id + 1, json.dumps(content, sort_keys=True))

    @classmethod
    def from_offset(cls, committed: OffsetAndMetadata, group: str) -> LedgerEntry:
        try:
            content = json.loads(committed.metadata)
            return cls(str(content["owner"]), str(content["query"]), int(content["batch"]), str(content["attempt"]))
        except (ValueError, KeyError, TypeError):
            raise TopicSinkError(
                f"group '{group}' has an offset that is no entry of a sink; choose another transactionalId, or delete "
                "the group"
            ) from None


def read_entry(client: WireClient, options: SinkOptions, *, require_stable: bool) -> LedgerEntry | None:
    """With `require_stable`, waits for a transaction that is about to change it."""
    place = _place(options)
    committed = client.offset_fetch(options.group, [place], require_stable=require_stable).get(place)
    return None if committed is None else LedgerEntry.from_offset(committed, options.group)


def add_to_transaction(
    client: WireClient, options: SinkOptions, producer: ProducerIdentity, entry: LedgerEntry
) -> None:
    client.txn_offset_commit(
        _id(options), producer, options.group, {_place(options): entry.to_offset()}, timeout_s=_patience_s(options)
    )


def end(client: WireClient, options: SinkOptions, producer: ProducerIdentity, *, commit: bool) -> None:
    client.end_txn(_id(options), producer, commit=commit, timeout_s=_patience_s(options))


def take_epoch(client: WireClient, options: SinkOptions) -> ProducerIdentity:
    """Fences the previous holder of the transactional id, and aborts its open transaction."""
    try:
        return client.init_producer_id(_id(options), transaction_timeout_ms=options.transaction_timeout_ms)
    except BrokerError as refusal:
        if refusal.code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            raise TopicSinkError(
                f"the broker does not allow transactions of {options.transaction_timeout_ms} ms: set "
                "kafka.transaction.timeout.ms to no more than its transaction.max.timeout.ms"
            ) from refusal
        raise


def claim(client: WireClient, options: SinkOptions, owner: str) -> LedgerEntry:
    """Makes `owner` the run that may write; the one before it is fenced. Batches that are committed stay so."""
    for _ in range(_CLAIM_ATTEMPTS):
        producer = take_epoch(client, options)
        entry = replace(read_entry(client, options, require_stable=True) or LedgerEntry(), owner=owner)
        try:
            add_to_transaction(client, options, producer, entry)
            end(client, options, producer, commit=True)
            # A commit is answered when it is decided; only a stable read waits until it is also visible.
            read_entry(client, options, require_stable=True)
            return entry
        except (ProducerFenced, BrokerError) as error:
            if not is_ended_by_others(error):
                raise
            # The run that is being fenced began a batch just now.
            time.sleep(_CLAIM_PAUSE_S)
    raise BatchInterrupted(f"transactional id '{options.transactional_id}' is being taken by other runs all the time")


def is_ended_by_others(error: Exception) -> bool:
    return isinstance(error, ProducerFenced) or (isinstance(error, BrokerError) and error.code in _ENDED_BY_OTHERS)


def _place(options: SinkOptions) -> TopicPartition:
    return TopicPartition(require_batches_topic(options), 0)


def _id(options: SinkOptions) -> str:
    assert options.transactional_id is not None
    return options.transactional_id


def _patience_s(options: SinkOptions) -> float:
    return options.delivery_timeout_ms / 1000
