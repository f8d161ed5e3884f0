"""The topic in which a coordinator keeps what it knows: `__consumer_offsets` or `__transaction_state`.

Owns: creating the topic on first use, finding a key's partition, appending records as one batch and telling when they
are as durable as the topic asks, and reading a whole partition back. Never knows what the records mean.

Invariant: `on_committed` is called exactly once for each append. With None, the records are written (and synced where
the topic asks for it); with an error, the log may lack them, and the coordinator must load the partition again rather
than go on from its memory.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.broker.appends import AppendGroup
from penstock.broker.deferred import Barrier, Deferred
from penstock.broker.topic_creation import CreationResults, create_topics
from penstock.coordinator.placement import partition_of
from penstock.coordinator.records.codec import CoordinatorRecord
from penstock.core import limits
from penstock.core.errors import ProtocolError
from penstock.core.ids import TopicName
from penstock.metadata.topics import NewTopic
from penstock.protocol.compression import Compression
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.protocol.record_batch import HEADER_BYTES, BatchHeader, parse_header
from penstock.protocol.record_encoding import NO_PRODUCER, BatchProducer, NewRecord, encode_batch
from penstock.protocol.records import read_records

if TYPE_CHECKING:
    from penstock.broker.append import Append
    from penstock.broker.node import Node
    from penstock.broker.partition import Partition

logger = logging.getLogger(__name__)

OnCommitted = Callable[[BrokerError | None], None]


@dataclass(frozen=True, slots=True)
class CoordinatorTopic:
    """The settings that the topic is created with, and how long an append waits for its replicas."""

    name: str
    partition_count: int
    replication_factor: int
    configs: dict[str, str] = field(default_factory=dict)
    compression: Compression = Compression.NONE
    append_timeout_ms: int | None = None


class LoadedRecord(NamedTuple):
    """A record of the log with the header of its batch, which says whose transaction it belongs to."""

    offset: int
    batch: BatchHeader
    timestamp: int
    key: bytes
    value: bytes | None


class CoordinatorLog:
    """Belongs to the event loop, as the node does."""

    def __init__(self, node: Node, topic: CoordinatorTopic) -> None:
        self._node = node
        self._topic = topic
        self._loading: set[int] = set()
        self._creation_failure: str | None = None

    @property
    def topic_name(self) -> str:
        return self._topic.name

    def has_topic(self) -> bool:
        """Whether the topic exists. NOT_COORDINATOR if this broker cannot know: others may use it already."""
        if self._topic.name in self._node.topics:
            return True
        if self._node.is_clustered:
            raise BrokerError(
                ErrorCode.NOT_COORDINATOR, f"This broker leads no partition of {self._topic.name} as far as it knows."
            )
        return False

    def check_session(self) -> None:
        """NOT_COORDINATOR where this broker's session may have ended: another one may coordinate by now, and know more
        than the memory of this one."""
        if self._node.is_fenced:
            raise BrokerError(ErrorCode.NOT_COORDINATOR, "The session of this broker may have ended.")

    def partition_for(self, coordinator_key: str) -> int:
        """The partition that holds what is known of a group or a transactional id."""
        image = self._node.image.topics.get(TopicName(self._topic.name))
        count = self._topic.partition_count if image is None else len(image.partitions)
        return partition_of(coordinator_key, count)

    def check_topic(self) -> None:
        """COORDINATOR_NOT_AVAILABLE unless the topic exists."""
        if self._topic.name not in self._node.topics:
            reason = self._creation_failure or f"The topic {self._topic.name} does not exist."
            raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, reason)

    def with_topic(self, handle: Callable[[], Any]) -> Any:
        """Runs a handler whose request may be the first to need the topic: at once, or when the topic is created."""
        if self._topic.name in self._node.topics:
            return handle()
        answer = _AfterCreation()
        self.ensure_topic(lambda error: answer.run(handle))
        return answer

    def ensure_topic(self, on_ensured: OnCommitted) -> None:
        """Creates the topic unless it exists; at once if it does. COORDINATOR_NOT_AVAILABLE if that fails."""
        topic = self._topic
        if topic.name in self._node.topics:
            on_ensured(None)
            return
        wanted = NewTopic(
            topic.name,
            topic.partition_count,
            self._replication_factor(),
            configs=tuple(topic.configs.items()),
        )

        def created(results: CreationResults) -> None:
            outcome = results[topic.name]
            if isinstance(outcome, BrokerError) and outcome.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                logger.error("cannot create the topic %s: %s", topic.name, outcome.message)
                self._creation_failure = f"The topic {topic.name} cannot be created: {outcome.message}"
                on_ensured(BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, self._creation_failure))
            else:
                self._creation_failure = None
                on_ensured(None)

        create_topics(self._node, [wanted], created)

    def _replication_factor(self) -> int:
        """A broker on its own has one replica to give. In a cluster, as in Kafka, the topic waits for enough brokers:
        a topic that the first of them makes for itself would keep its one replica for ever."""
        wanted = self._topic.replication_factor
        return wanted if self._node.is_clustered else min(wanted, len(self._node.image.brokers))

    def check_append(self, partition: int) -> None:
        """Raises the error of an append that would be refused before anything is written.

        To be called before a change in memory: behind a refused append the partition has to be loaded again.
        """
        try:
            self.partition(partition).check_in_sync_replicas()
        except BrokerError as error:
            raise _as_coordinator_error(error) from None

    def check_producer(self, partition: int, producer: BatchProducer) -> None:
        """INVALID_PRODUCER_EPOCH where the partition has heard of a newer epoch, and will refuse a batch of this."""
        entry = self.partition(partition).log.producer_state.entries.get(producer.producer_id)
        if entry is not None and producer.producer_epoch < entry.epoch:
            raise BrokerError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Producer {producer.producer_id} has epoch {entry.epoch}, not {producer.producer_epoch}.",
            )

    def append(
        self,
        partition: int,
        records: Sequence[CoordinatorRecord],
        *,
        producer: BatchProducer = NO_PRODUCER,
        transactional: bool = False,
        on_committed: OnCommitted,
    ) -> None:
        """Appends the records as one batch, together with everything else of this turn."""
        assert partition not in self._loading, "a coordinator appends nothing to a partition that it is still loading"
        node = self._node
        now_ms = node.now_ms()
        batch, header = encode_batch(
            [NewRecord(record.key, record.value, now_ms) for record in records],
            producer=producer,
            transactional=transactional,
            compression=self._topic.compression,
        )
        try:
            target = self.partition(partition)
            target.check_in_sync_replicas()
            append = target.stage_own(batch, header, now_ms)
        except BrokerError as error:
            on_committed(_as_coordinator_error(error))
            return
        group: AppendGroup[None] = AppendGroup(node.appends, timeout_ms=self._topic.append_timeout_ms)
        group.add(target, append, None)
        group.listen(partial(_tell_outcome, append, on_committed))
        node.appends.acknowledge(group)
        node.appends.write_soon()

    def load(self, partition: int) -> Iterator[LoadedRecord]:
        """Every record of the partition, oldest first; those of control batches too. A later value for a key wins.

        May be taken in slices: batches that others append meanwhile, such as transaction markers, are read too. A log
        that cannot be read is COORDINATOR_NOT_AVAILABLE: to skip a damaged stretch would be to forget silently.
        """
        log = self.partition(partition).log
        offset = log.log_start_offset
        self._loading.add(partition)
        try:
            while True:
                # What others have staged for this partition must be in its file before the end of the log is looked at.
                self._node.appends.write()
                if offset >= log.log_end_offset:
                    return
                content = memoryview(
                    log.read(offset, limits.COORDINATOR_LOAD_BYTES_PER_TURN, log.log_end_offset).read()
                )
                if not content:
                    break
                for header, batch in _whole_batches(content):
                    for record in read_records(batch, header, limits.DECOMPRESSED_BATCH_BYTES_MAX):
                        if record.key is None:
                            raise ProtocolError(f"the record at offset {record.offset} has no key")
                        yield LoadedRecord(record.offset, header, record.timestamp, record.key, record.value)
                    offset = header.end_offset
        except (BrokerError, ProtocolError, OSError) as error:
            raise BrokerError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self._topic.name}-{partition} cannot be loaded: {error}"
            ) from error
        finally:
            self._loading.discard(partition)

    def partition(self, index: int) -> Partition:
        """A partition that this broker leads; NOT_COORDINATOR where another one does."""
        try:
            return self._node.topics.partition(self._topic.name, index)
        except BrokerError as error:
            raise _as_coordinator_error(error) from None

    def led_partitions(self) -> list[int]:
        """The partitions that this broker leads; it coordinates what they hold."""
        if self._topic.name not in self._node.topics:
            return []
        partitions = self._node.topics.topic(self._topic.name).partitions
        return [partition.index for partition in partitions if partition is not None and partition.is_leader]

    @property
    def leads_every_partition(self) -> bool:
        image = self._node.image.topics.get(TopicName(self._topic.name))
        return image is None or len(self.led_partitions()) == len(image.partitions)


class _AfterCreation(Barrier):
    """The answer of a handler that waits for the topic. If its creation failed, the handler's own check says so.

    Later requests of the connection wait with it: an OffsetFetch behind the first commit must find that commit.
    """

    __slots__ = ("_inner",)

    def __init__(self) -> None:
        super().__init__()
        self._inner: Deferred | None = None

    def run(self, handle: Callable[[], Any]) -> None:
        inner = handle()
        if not isinstance(inner, Deferred):
            self.complete(inner)
        elif inner.done:
            self.complete(inner.response)
        else:
            self._inner = inner
            inner.listen(lambda: self.complete(inner.response))

    def abandon(self) -> None:
        if self._inner is not None:
            self._inner.abandon()


def _tell_outcome(append: Append, on_committed: OnCommitted) -> None:
    error = append.error
    on_committed(None if error is None else _as_coordinator_error(error))


def _whole_batches(content: memoryview) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The batches of a slice; the last one may have been cut off, and is then left for the next slice."""
    position = 0
    while position + HEADER_BYTES <= len(content):
        header = parse_header(content, position)
        if position + header.size > len(content):
            return
        yield header, content[position : position + header.size]
        position += header.size


def _as_coordinator_error(error: BrokerError) -> BrokerError:
    """The error for the client of a coordinator whose topic refused a write: it must look for the coordinator again."""
    match error.code:
        case ErrorCode.KAFKA_STORAGE_ERROR | ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return BrokerError(ErrorCode.NOT_COORDINATOR, error.message)
        case (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            | ErrorCode.NOT_ENOUGH_REPLICAS
            | ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            | ErrorCode.REQUEST_TIMED_OUT
        ):
            return BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message)
        case _:
            return error.to_keep()
