"""One partition on this broker: where a log meets its readers, its waiters and its acknowledgements.

A batch travels `stage` -> `write_staged` -> (flush) -> acknowledged. Everything that one socket read staged is written
by one system call, and only then is any of it acknowledged. Readers see a batch when the high watermark has passed it:
at once, or after the fsync where the topic asks for one (`flush.messages`).

Invariant: log_start_offset <= high_watermark <= log_end_offset.
Invariant: no Append is acknowledged unless its bytes were written whole, and synced where the topic asks for it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from penstock.broker.batch_validation import BatchRules, validated_batch
from penstock.core import limits
from penstock.log.flushing import FlushTicket
from penstock.log.partition_log import PartitionLog
from penstock.log.reader import LogSlice
from penstock.metadata.topic_config import TopicConfig
from penstock.metadata.topics import is_internal
from penstock.protocol.control_records import TransactionMarker, encode_marker
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.protocol.record_batch import BatchHeader

if TYPE_CHECKING:
    from penstock.broker.metrics import TopicMetrics
    from penstock.core.ids import ProducerIdentity

logger = logging.getLogger(__name__)


class Append:
    """One batch on its way into the log, and what its producer will be told."""

    __slots__ = ("base_offset", "code", "duplicate", "end_offset", "log_append_time_ms", "message")

    def __init__(self, base_offset: int, end_offset: int, log_append_time_ms: int, duplicate: bool) -> None:
        self.base_offset = base_offset
        self.end_offset = end_offset
        self.log_append_time_ms = log_append_time_ms
        self.duplicate = duplicate
        self.code = ErrorCode.NONE
        self.message: str | None = None

    def fail(self, code: ErrorCode, message: str) -> None:
        self.code = code
        self.message = message

    @property
    def error(self) -> BrokerError | None:
        return BrokerError(self.code, self.message or "") if self.code else None


class Waiter(Protocol):
    """Somebody who waits for more records, such as a parked fetch."""

    def records_arrived(self, new_bytes: int) -> None: ...


class Partition:
    """The leader's view of one partition. One owner, the event loop; no method awaits."""

    __slots__ = (
        "_counted_end_offset",
        "_rules",
        "_staged",
        "_staged_bytes",
        "_unseen_bytes",
        "_waiters",
        "config",
        "high_watermark",
        "index",
        "is_deleted",
        "is_internal",
        "leader_epoch",
        "log",
        "topic_id",
        "topic_name",
        "traffic",
        "unflushed_since_ms",
    )

    def __init__(
        self,
        topic_name: str,
        topic_id: bytes,
        index: int,
        leader_epoch: int,
        log: PartitionLog,
        config: TopicConfig,
        traffic: TopicMetrics,
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.index = index
        self.leader_epoch = leader_epoch
        self.log = log
        self.reconfigure(config)
        self.high_watermark = log.log_end_offset
        self.unflushed_since_ms: int | None = None
        self.is_deleted = False
        self.is_internal = is_internal(topic_name)
        self.traffic = traffic
        self._staged: list[Append] = []
        self._staged_bytes = 0
        self._counted_end_offset = log.log_end_offset
        self._unseen_bytes = 0  # behind the high watermark: written or staged, not yet readable
        self._waiters: set[Waiter] = set()

    def __repr__(self) -> str:
        return f"{self.topic_name}-{self.index}"

    # Appending

    def stage(self, records: memoryview | None, api_version: int, now_ms: int, in_transaction: bool = False) -> Append:
        """Gives one producer's batch its offsets. Its bytes must stay valid until `write_staged`."""
        batch, header = validated_batch(records, self._rules, api_version, now_ms, in_transaction)
        log_append_time_ms = now_ms if self._rules.log_append_time else -1
        duplicate_of = self.log.producer_state.check(header) if header.producer_id >= 0 else None
        if duplicate_of is not None:
            append = Append(duplicate_of, duplicate_of + header.records_count, log_append_time_ms, duplicate=True)
        else:
            append = self._stage(batch, header, now_ms, log_append_time_ms)
        self._staged.append(append)
        return append

    def stage_own(self, batch: memoryview, header: BatchHeader, now_ms: int) -> Append:
        """Gives a batch that this broker made its offsets: it is known to be whole, and comes only once.

        max.message.bytes bounds what producers send; a coordinator's own state is as large as its clients made it.
        A coordinator may write in a producer's name: its epoch is checked, and its sequences are its own affair.
        """
        if header.producer_id >= 0:
            self.log.producer_state.check_unsequenced(header)
        append = self._stage(batch, header, now_ms, log_append_time_ms=-1)
        self._staged.append(append)
        return append

    def stage_marker(
        self, producer: ProducerIdentity, marker: TransactionMarker, now_ms: int, *, epoch_must_be_new: bool
    ) -> Append:
        """Gives the end of a producer's transaction its offset; an epoch that is an old one here is refused."""
        producer_id, epoch = producer
        self.log.producer_state.check_marker(
            producer_id, epoch, marker.coordinator_epoch, epoch_must_be_new=epoch_must_be_new
        )
        # The log remembers ended transactions until it is asked for this, which perhaps no reader ever does.
        self.log.last_stable_offset(self.high_watermark)
        batch, header = encode_marker(producer_id, epoch, marker, now_ms)
        append = self._stage(batch, header, now_ms, log_append_time_ms=-1)
        self._staged.append(append)
        return append

    def _stage(self, batch: memoryview, header: BatchHeader, now_ms: int, log_append_time_ms: int) -> Append:
        base_offset = self.log.stage(batch, header, self.leader_epoch, now_ms)
        self._unseen_bytes += len(batch)
        self._staged_bytes += len(batch)
        if self.unflushed_since_ms is None:
            self.unflushed_since_ms = now_ms
        return Append(base_offset, base_offset + header.records_count, log_append_time_ms, duplicate=False)

    def write_staged(self) -> None:
        """Writes what was staged; an Append whose bytes could not be written whole carries the error."""
        staged, self._staged = self._staged, []
        staged_bytes, self._staged_bytes = self._staged_bytes, 0
        try:
            self.log.write_staged()
        except OSError as error:
            logger.error("%s: cannot write to %s: %s", self, self.log.directory, error.strerror)
            for append in staged:
                # A repeated batch may repeat one of those that were just lost, so it fails with them.
                append.fail(ErrorCode.KAFKA_STORAGE_ERROR, f"The broker cannot write to its disk: {error.strerror}.")
            return
        end_offset = self.log.log_end_offset
        self.traffic.bytes_in.value += staged_bytes
        self.traffic.messages_in.value += end_offset - self._counted_end_offset
        self._counted_end_offset = end_offset
        if not self.must_flush:
            self.advance_high_watermark(end_offset)

    @property
    def must_flush(self) -> bool:
        """Whether the topic wants an fsync before what is in the log now may be acknowledged and read."""
        return self.log.log_end_offset - self.log.recovery_point >= self.config.flush_messages

    def flushed(self, ticket: FlushTicket) -> None:
        """What the ticket covers is on the disk."""
        self.log.complete_flush(ticket)
        if self.log.recovery_point == self.log.log_end_offset:
            self.unflushed_since_ms = None
        self.advance_high_watermark(ticket.end_offset)

    def advance_high_watermark(self, offset: int) -> None:
        """Lets readers see everything below `offset`."""
        if offset <= self.high_watermark:
            return
        self.high_watermark = offset
        new_bytes, self._unseen_bytes = self._unseen_bytes, 0
        if self._waiters:
            for waiter in tuple(self._waiters):
                waiter.records_arrived(new_bytes)

    # Reading

    @property
    def last_stable_offset(self) -> int:
        """What `read_committed` readers may see up to: every transaction below it has ended."""
        return self.log.last_stable_offset(self.high_watermark)

    def read(
        self, offset: int, bytes_max: int, at_least_one_batch: bool, end_offset: int | None = None
    ) -> LogSlice | None:
        """Record batches from `offset` on, below the high watermark or a lower end; None where there are none yet."""
        if end_offset is None:
            end_offset = self.high_watermark
        if end_offset <= offset <= self.high_watermark:
            return None
        if offset > self.high_watermark or offset < self.log.log_start_offset:
            raise BrokerError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self} holds offsets {self.log.log_start_offset} to {self.high_watermark}, not {offset}.",
            )
        return self.log.read(offset, bytes_max, end_offset, at_least_one_batch=at_least_one_batch)

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """A client that knows another leader epoch than ours must look again (KIP-320)."""
        if current_leader_epoch == self.leader_epoch or current_leader_epoch < 0:
            return
        if current_leader_epoch < self.leader_epoch:
            raise BrokerError(ErrorCode.FENCED_LEADER_EPOCH, f"The leader epoch of {self} is {self.leader_epoch}.")
        raise BrokerError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"The leader epoch of {self} is {self.leader_epoch}.")

    # Waiting

    def add_waiter(self, waiter: Waiter) -> None:
        self._waiters.add(waiter)

    def remove_waiter(self, waiter: Waiter) -> None:
        self._waiters.discard(waiter)

    def deleted(self) -> None:
        """The partition is gone: whoever waits for records shall look again, and learn it."""
        self.is_deleted = True
        for waiter in tuple(self._waiters):
            waiter.records_arrived(limits.REQUEST_BYTES_MAX)

    # Administration

    def reconfigure(self, config: TopicConfig) -> None:
        self.config = config
        self._rules = BatchRules.of(config)

    def delete_records_before(self, offset: int) -> int:
        """DeleteRecords: moves the start of the log; -1 means the high watermark. Returns the new start."""
        target = self.high_watermark if offset == -1 else offset
        if target < 0 or target > self.high_watermark:
            raise BrokerError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"{self} holds offsets up to {self.high_watermark}, not {offset}."
            )
        self.log.delete_records_before(target)
        return self.log.log_start_offset
