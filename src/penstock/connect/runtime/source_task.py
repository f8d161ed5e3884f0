"""What one task of a source's job does: read its slices, and produce their records together with their offsets.

With exactly-once support, each slice is one transaction of the task's transactional id: its records, its dead letters
and its offset are committed together (KIP-618). Without, records are acknowledged before the offset is written.

It must not know where the source stands: the driver plans slices, and hands the task its producer.

Invariant: an offset is never durable before the records that it stands for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.connect.connector import (
    ConnectError,
    RetriableError,
    Slice,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    SourceRows,
    partition_key,
)
from penstock.connect.runtime.client_settings import ProducerSettings
from penstock.connect.runtime.record_steps import RecordSteps
from penstock.connect.runtime.source_offsets import offset_rows
from penstock.connect.runtime.topic_creation import TopicCreation
from penstock.connect.runtime.topic_writing import TopicEncoders, TopicWriter
from penstock.core.errors import BrokerUnreachable, ClientError, ProducerFenced
from penstock.core.ids import ProducerIdentity, TopicPartition
from penstock.pipeline import crash_points
from penstock.pipeline.process_state import discard_client, shared_client
from penstock.protocol.error_codes import BrokerError
from penstock.wire.client import WireClient


@dataclass(frozen=True, slots=True)
class TransactionalProducer:
    """`sequences` go on where an epoch is used for several transactions, as before transaction.version 2 (KIP-890)."""

    transactional_id: str
    identity: ProducerIdentity
    sequences: Mapping[TopicPartition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceTask:
    number: int
    connector: SourceConnector
    slices: Sequence[Slice]
    steps: RecordSteps
    settings: ProducerSettings
    creation: TopicCreation
    offsets_topic: str | None
    """None: the driver writes offsets, after the job."""
    offset_keys: Mapping[str, bytes]
    producer: TransactionalProducer | None
    """None: without exactly-once support."""


@dataclass(frozen=True, slots=True)
class SourceTaskResult:
    producer: TransactionalProducer | None
    """For the task's next transaction."""
    offsets: Sequence[tuple[SourcePartition, SourceOffset]]
    records: int
    bytes: int
    failed: int
    topics: Sequence[str]
    log_lines: Sequence[str] = ()


def run_source_task(task: SourceTask) -> SourceTaskResult:
    client = shared_client(task.settings.wire)
    encoders = TopicEncoders(client, task.settings, task.creation, task.number)
    producer = task.producer
    done: list[_SliceRun] = []
    try:
        for each in task.slices:
            slice_run = _SliceRun(task, client, encoders, each, producer)
            slice_run.run()
            producer = slice_run.producer
            done.append(slice_run)
    except (ClientError, BrokerError) as error:
        if isinstance(error, BrokerUnreachable):
            discard_client(task.settings.wire)
        raise
    return SourceTaskResult(
        producer,
        [(partition, offset) for each in done for partition, offset in each.offsets.values()],
        sum(each.records for each in done),
        sum(each.bytes for each in done),
        sum(each.failed for each in done),
        sorted({topic for each in done for topic in each.topics}),
        [line for each in done for line in each.log_lines],
    )


class _SliceRun:
    def __init__(
        self,
        task: SourceTask,
        client: WireClient,
        encoders: TopicEncoders,
        slice_: Slice,
        producer: TransactionalProducer | None,
    ) -> None:
        self.producer = producer
        self.offsets: dict[str, tuple[SourcePartition, SourceOffset]] = {}
        self.topics: set[str] = set()
        self.records = self.bytes = self.failed = 0
        self.log_lines: Sequence[str] = ()
        self._task = task
        self._client = client
        self._encoders = encoders
        self._slice = slice_

    def run(self) -> None:
        settings, producer = self._task.settings, self.producer
        timeout_s = settings.delivery_timeout_s
        if producer is not None:
            sender = self._client.sender(
                producer=producer.identity,
                first_sequences=producer.sequences,
                transactional_id=producer.transactional_id,
                timeout_s=timeout_s,
            )
        elif settings.acks == -1:
            sender = self._client.sender(producer=self._client.init_producer_id(), timeout_s=timeout_s)
        else:  # a broker refuses a producer's name without the acknowledgement of all replicas
            sender = self._client.sender(acks=settings.acks, timeout_s=timeout_s)
        writer = TopicWriter(self._encoders, sender, follows_rows=self._task.connector.wants_written_rows)
        try:
            self._produce(writer)
            if producer is None:
                self._written(writer)
            if producer is None or not self.offsets:
                return
            crash_points.reached("connect.source_before_commit")
            identity = self._client.end_txn(producer.transactional_id, producer.identity, commit=True)
        except ProducerFenced as fenced:
            assert producer is not None
            raise self._interruption(producer, fenced) from fenced
        except BaseException:
            if producer is not None:
                # Only to free readers early: the next run's new epoch aborts it in any case.
                with contextlib.suppress(ClientError, BrokerError):
                    self._client.end_txn(producer.transactional_id, producer.identity, commit=False, timeout_s=1)
            raise
        crash_points.reached("connect.source_after_commit")
        self._written(writer)
        sequences = sender.next_sequences if identity == producer.identity else {}
        self.producer = TransactionalProducer(producer.transactional_id, identity, sequences)

    def _written(self, writer: TopicWriter) -> None:
        if writer.written_rows:
            self._task.connector.written(self._slice, writer.written_rows)

    def _interruption(self, producer: TransactionalProducer, fenced: ProducerFenced) -> Exception:
        """The broker also takes the epoch from a transaction that timed out, and there is no other run then."""
        name, connector = producer.transactional_id, self._task.connector.name
        try:
            self._client.init_producer_id(name, current=producer.identity)
        except ProducerFenced:
            return ConnectError(
                f"connector '{connector}': another run has taken over the transactional id '{name}', for example of"
                " another worker with the same group.id; stop one of them, and restart the connector"
            )
        except (ClientError, BrokerError):
            return fenced
        return RetriableError(f"connector '{connector}': a transaction timed out; its slice is read again")

    def _produce(self, writer: TopicWriter) -> None:
        task = self._task
        steps = task.steps.of_source(task.number, writer.write)
        for together in _with_one_offset(task.connector.read(self._slice)):
            groups = [rows.group for rows in together if len(rows.group)]
            if groups:
                self.topics.update(steps.to_topics(groups))
            partition = together[0].partition
            partition = self._slice.partition if partition is None else partition
            self.offsets[partition_key(partition)] = (partition, together[0].offset)
        self.records, self.bytes, self.failed = writer.records, writer.bytes, steps.failed
        self.log_lines = steps.log_lines
        if not self.offsets:
            return
        if self.producer is None:
            writer.flush()
            crash_points.reached("connect.source_before_offsets")
        if task.offsets_topic is None:
            return
        changes = list(self.offsets.values())
        writer.write(task.offsets_topic, offset_rows(task.connector.name, changes, task.offset_keys))
        writer.flush()


def _with_one_offset(read: Iterator[SourceRows]) -> Iterator[list[SourceRows]]:
    """Groups that share the object of their offset were read together, and `rows` is their order."""
    together: list[SourceRows] = []
    for rows in read:
        if together and (rows.offset is not together[0].offset or rows.partition is not together[0].partition):
            yield together
            together = []
        together.append(rows)
    if together:
        yield together
