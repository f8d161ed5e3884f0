"""What a task does with its record batches: produce them in a transaction, on its own, or hand them over.

Owns the result that goes from a task to the commit, and the bounds of what a task holds. It must never decide whether a
batch is to be written.

Invariants:
- A task's result exists only when every record batch of it is acknowledged, or is in the result.
- In a transaction, only the first attempt at a task produces: sequences of a second one would collide with what the
  first has sent, so its batch has to be run again as a whole.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql.datasource import WriterCommitMessage

from penstock.core.errors import BrokerUnreachable, CarriedError, ClientError, PenstockError
from penstock.core.ids import ProducerIdentity, TopicPartition
from penstock.pipeline import crash_points
from penstock.pipeline.process_state import discard_client, process_wide, shared_client
from penstock.pipeline.topics.batch_ledger import is_ended_by_others
from penstock.pipeline.topics.errors import BatchInterrupted, TopicSinkError
from penstock.pipeline.topics.handed_over import HandedOver, taken_over
from penstock.pipeline.topics.row_encoding import Chunk
from penstock.pipeline.topics.sink_options import SinkOptions
from penstock.pipeline.topics.transaction import BatchAttempt, interruption
from penstock.protocol.error_codes import BrokerError
from penstock.wire.client import BatchSender, WireClient

# A sender keeps what it has sent until it is flushed.
_UNFLUSHED_BYTES_MAX: Final = 32 * 1024 * 1024
# A broker forgets a producer in a partition where it has not heard of it for a day.
_PRODUCER_AGE_S_MAX: Final = 3600.0


@dataclass
class TaskResult(WriterCommitMessage):
    """`records` by partition. `handed_over` are record batches that the commit is to produce.

    `failure` is for the commit to raise. A task of a transaction that raised it itself would be tried again by Spark,
    which cannot work, and the last attempt's complaint about that is all that anybody would see.
    """

    attempt: BatchAttempt | None
    query_id: str = ""
    records: dict[TopicPartition, int] = field(default_factory=dict)
    handed_over: HandedOver = field(default_factory=HandedOver)
    failure: PenstockError | None = None


def produce_in_transaction(
    options: SinkOptions, attempt: BatchAttempt, chunks: Iterable[Chunk]
) -> dict[TopicPartition, int]:
    client = shared_client(options.wire_settings)
    try:
        sender = client.sender(
            producer=attempt.producer,
            transactional_id=options.transactional_id,
            timeout_s=options.delivery_timeout_ms / 1000,
        )
        return _send_all(sender, chunks)
    except (ClientError, BrokerError) as error:
        if is_ended_by_others(error):
            raise interruption(client, options, attempt) from error
        discard_client(options.wire_settings)
        raise


def as_failure(error: PenstockError) -> PenstockError:
    """The error for a task's result, which is pickled. A broker that was unreachable has only interrupted the batch."""
    if isinstance(error, BrokerUnreachable):
        return BatchInterrupted(f"{error}; nothing of the batch counts, and it can be run again")
    return error if isinstance(error, TopicSinkError) else CarriedError.of(error)


def require_first_attempt(attempt_number: int, options: SinkOptions) -> None:
    if attempt_number > 0:
        raise BatchInterrupted(
            f"a task of the transaction of '{options.transactional_id}' was started a second time (it failed, or "
            "spark.speculation is on); nothing of the batch counts, and it can be run again"
        )


def produce_handed_over(options: SinkOptions, attempt: BatchAttempt, results: Iterable[TaskResult]) -> None:
    produce_in_transaction(options, attempt, taken_over(result.handed_over for result in results))


def produce_directly(options: SinkOptions, chunks: Iterable[Chunk]) -> dict[TopicPartition, int]:
    """Acknowledged one by one; a record batch is written once, but a task that fails has written some of them."""
    client = shared_client(options.wire_settings)
    try:
        if options.acks != -1:  # a broker refuses a producer's name without the acknowledgement of all replicas
            return _send_all(client.sender(acks=options.acks, timeout_s=options.delivery_timeout_ms / 1000), chunks)
        return _own_producers.send_all(client, options, chunks)
    except (ClientError, BrokerError):
        discard_client(options.wire_settings)
        raise


class OwnProducers:
    """The producer's name of this process, used by one task after the other: asking for one costs a round trip."""

    def __init__(self) -> None:
        self._producer: ProducerIdentity | None = None
        self._bootstrap_servers = ""
        self._sequences: dict[TopicPartition, int] = {}
        self._made_at = 0.0

    def send_all(self, client: WireClient, options: SinkOptions, chunks: Iterable[Chunk]) -> dict[TopicPartition, int]:
        servers = options.kafka["bootstrap.servers"]
        # It is forgotten before it is used: after an error, it is unknown which sequences the broker has seen.
        producer, self._producer = self._producer, None
        if servers != self._bootstrap_servers or time.monotonic() - self._made_at > _PRODUCER_AGE_S_MAX:
            producer = None
        if producer is None:
            producer, self._sequences = client.init_producer_id(), {}
            self._bootstrap_servers, self._made_at = servers, time.monotonic()
        sender = client.sender(
            producer=producer, first_sequences=self._sequences, timeout_s=options.delivery_timeout_ms / 1000
        )
        records = _send_all(sender, chunks)
        self._producer, self._sequences = producer, sender.next_sequences
        return records


_own_producers: Final = process_wide(OwnProducers)


def _send_all(sender: BatchSender, chunks: Iterable[Chunk]) -> dict[TopicPartition, int]:
    records: dict[TopicPartition, int] = {}
    unflushed = 0
    for chunk in chunks:
        partition = TopicPartition(chunk.topic, chunk.partition)
        sender.send(partition, chunk.content)
        records[partition] = records.get(partition, 0) + chunk.records
        unflushed += len(chunk.content)
        if unflushed >= _UNFLUSHED_BYTES_MAX:
            sender.flush()
            unflushed = 0
    crash_points.reached("topic.task_written")
    sender.flush()
    return records
