"""One replica of a partition on this broker: where its log meets its role, its readers and its acknowledgements.

A batch travels `stage` -> `write_staged` -> (flush) -> acknowledged. Everything that one socket read staged is written
by one system call, and only then is any of it acknowledged. What is written counts for the role (`replication/`) when
it is as durable as the topic asks for: at once, or after the fsync (`flush.messages`). The role decides the high
watermark, and readers see what is below it. acks=all waits for it; acks=1 does not.

Invariant: log_start_offset <= high_watermark <= log_end_offset.
Invariant: no Append is acknowledged unless its bytes were written whole, and synced where the topic asks for it.
Invariant: only a leader is given requests of clients (`TopicTable`). A replica whose files were moved or deleted is
offline until the broker restarts: it is no leader, and nothing of it is acknowledged.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.broker.append import Append, Waiter
from penstock.broker.batch_validation import BatchRules, validated_batch
from penstock.core import limits
from penstock.log.filesystem import FileMoved
from penstock.log.flushing import FlushTicket
from penstock.log.partition_log import PartitionLog
from penstock.log.reader import LogSlice
from penstock.metadata.changes import PartitionImage
from penstock.metadata.topic_config import TopicConfig
from penstock.metadata.topics import is_internal
from penstock.protocol.control_records import TransactionMarker, encode_marker
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.protocol.record_batch import BatchHeader
from penstock.replication.roles import FollowerState, LeaderState

if TYPE_CHECKING:
    from penstock.broker.metrics import TopicMetrics
    from penstock.core.ids import BrokerId, ProducerIdentity

logger = logging.getLogger(__name__)


def role_of(
    image: PartitionImage, broker_id: BrokerId, log: PartitionLog, config: TopicConfig, high_watermark: int, now_ms: int
) -> LeaderState | FollowerState:
    """This broker's role in a partition that it has a replica of. `high_watermark` is the last one that it knows.

    A leader with followers begins its epoch in its log: they compare the ends of epochs with it, before it has records.
    """
    if image.leader != broker_id:
        return FollowerState(image.leader, image.leader_epoch, high_watermark)
    if len(image.replicas) > 1:
        log.begin_epoch(image.leader_epoch)
    return LeaderState(
        broker_id,
        image.leader_epoch,
        image.replicas,
        image.isr,
        high_watermark,
        now_ms,
        start_offset=log.log_end_offset,
        min_in_sync=config.min_insync_replicas,
        partition_epoch=image.partition_epoch,
        eligible=image.elr,
    )


class Partition:
    """One owner, the event loop; no method awaits."""

    __slots__ = (
        "_append_waiters",
        "_counted_end_offset",
        "_rules",
        "_staged",
        "_staged_bytes",
        "_waiters",
        "config",
        "high_watermark",
        "index",
        "is_deleted",
        "is_internal",
        "is_leader",
        "leader",
        "leader_epoch",
        "log",
        "offline_reason",
        "role",
        "topic_id",
        "topic_name",
        "traffic",
        "unflushed_since_ms",
        "unseen_bytes",
    )

    def __init__(
        self,
        topic_name: str,
        topic_id: bytes,
        index: int,
        role: LeaderState | FollowerState,
        log: PartitionLog,
        config: TopicConfig,
        traffic: TopicMetrics,
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.leader: LeaderState | None = None
        self.reconfigure(config)
        self.high_watermark = role.high_watermark
        self.unflushed_since_ms: int | None = None
        self.is_deleted = False
        self.offline_reason: OSError | None = None
        self.is_internal = is_internal(topic_name)
        self.traffic = traffic
        self._staged: list[Append] = []
        self._staged_bytes = 0
        self._counted_end_offset = log.log_end_offset
        self.unseen_bytes = 0  # behind the high watermark: written or staged, not yet readable
        self._waiters: dict[Waiter, None] = {}
        self._append_waiters: dict[Waiter, None] = {}
        self._take_role(role)

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
        self.unseen_bytes += len(batch)
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
            self.disk_failed()
            for append in staged:
                # A repeated batch may repeat one of those that were just lost, so it fails with them.
                append.fail(ErrorCode.KAFKA_STORAGE_ERROR, f"The broker cannot write to its disk: {error.strerror}.")
            return
        end_offset = self.log.log_end_offset
        self.traffic.bytes_in.value += staged_bytes
        self.traffic.messages_in.value += end_offset - self._counted_end_offset
        self._counted_end_offset = end_offset
        if not self.must_flush:
            self._counts_up_to(end_offset)
        if self._append_waiters:
            for waiter in tuple(self._append_waiters):
                waiter.records_arrived(staged_bytes)

    @property
    def must_flush(self) -> bool:
        """Whether the topic wants an fsync before what is in the log now may be acknowledged and read."""
        return self.log.log_end_offset - self.log.recovery_point >= self.config.flush_messages

    def flushed(self, ticket: FlushTicket) -> None:
        """What the ticket covers is on the disk."""
        self.log.complete_flush(ticket)
        if self.log.recovery_point == self.log.log_end_offset:
            self.unflushed_since_ms = None
        self._counts_up_to(self.log.recovery_point)

    def check_in_sync_replicas(self) -> None:
        """acks=all is refused where too few replicas are in sync to keep its promise.

        As in Kafka 4, a topic cannot be asked for more of them than it has.
        """
        leader = self.leader
        assert leader is not None, "only a leader is given appends"
        if not leader.has_enough_in_sync:
            raise BrokerError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self} has {len(leader.in_sync)} replicas in sync; min.insync.replicas is "
                f"{self.config.min_insync_replicas}.",
            )

    # The role

    def take_offline(self, reason: OSError) -> None:
        """The files of this replica are not where they belong: nothing more of it is served or acknowledged."""
        if self.offline_reason is None and not self.is_deleted:
            logger.error(
                "%s is offline: %s: %s; restore it and restart the broker, or delete the topic",
                self,
                reason.filename,
                reason.strerror,
            )
            self.lose_files(reason)

    def lose_files(self, reason: OSError) -> None:
        """As `take_offline`, without a line in the log."""
        self.offline_reason = reason
        self.is_leader = False
        self.leader = None
        self.wake_waiters(limits.REQUEST_BYTES_MAX)

    def disk_failed(self) -> None:
        """A file operation failed: perhaps because the files are gone."""
        if not self.log.is_in_place():
            self.take_offline(FileMoved(self.log.directory))

    def change(self, image: PartitionImage, broker_id: BrokerId, now_ms: int) -> None:
        """The metadata names another leader or other in-sync replicas. Waiters look the partition up again."""
        if self.offline_reason is not None:
            return
        leader = self.leader
        if leader is None or image.leader != broker_id or image.leader_epoch != leader.leader_epoch:
            try:
                role = role_of(image, broker_id, self.log, self.config, self.high_watermark, now_ms)
            except OSError as error:
                self.take_offline(error)
                return
            self._take_role(role)
            self.wake_waiters(limits.REQUEST_BYTES_MAX)
            return
        if image.replicas != leader.replicas:
            leader.change_replicas(image.replicas, now_ms)
        self.advance_high_watermark(leader.change_in_sync(image.isr, image.partition_epoch, image.elr))
        if not leader.has_enough_in_sync:
            self.wake_waiters(0)  # acks=all cannot be kept for now

    def follower_fetched(
        self, broker_id: BrokerId, end_offset: int, now_ms: int, broker_epoch: int = -1, log_start_offset: int = -1
    ) -> None:
        """A follower holds everything from `log_start_offset` up to `end_offset`."""
        if self.leader is not None:
            self.advance_high_watermark(
                self.leader.follower_fetched(broker_id, end_offset, now_ms, broker_epoch, log_start_offset)
            )

    def proposal_ended(self) -> None:
        """It is known which replicas are in sync."""
        if self.leader is not None:
            self.advance_high_watermark(self.leader.proposal_ended())

    def _take_role(self, role: LeaderState | FollowerState) -> None:
        self.role = role
        self.leader = role if isinstance(role, LeaderState) else None
        self.is_leader = self.leader is not None
        self.leader_epoch = role.leader_epoch
        self._counted_end_offset = self.log.log_end_offset
        self._counts_up_to(self.log.log_end_offset)

    def _counts_up_to(self, end_offset: int) -> None:
        """The log holds everything below `end_offset` as durably as its topic asks for."""
        if self.leader is not None:
            high_watermark = self.leader.appended(end_offset)
            if high_watermark > self.high_watermark:
                self.advance_high_watermark(high_watermark)

    def advance_high_watermark(self, offset: int) -> None:
        """Lets readers see everything below `offset`."""
        if offset <= self.high_watermark:
            return
        self.high_watermark = offset
        new_bytes = self.unseen_bytes
        if offset >= self.log.log_end_offset:
            self.unseen_bytes = 0
        # Otherwise followers lack some of them. Waiters are told of too many bytes rather than of too few.
        if self._waiters:
            self.wake_waiters(new_bytes)

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
        if end_offset <= offset <= self.log.log_end_offset:
            # Perhaps above the high watermark: a new leader learns it from its followers, and readers may know more.
            return None
        if offset > end_offset or offset < self.log.log_start_offset:
            raise self.out_of_range(offset, self.log.log_end_offset)
        try:
            return self.log.read(offset, bytes_max, end_offset, at_least_one_batch=at_least_one_batch)
        except OSError as error:
            raise self.not_read(error) from error

    def out_of_range(self, offset: int, end_offset: int) -> BrokerError:
        start_offset = self.log.log_start_offset
        text = f"{self} holds offsets {start_offset} to {end_offset}, not {offset}."
        return BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE, text)

    def not_read(self, error: OSError) -> BrokerError:
        logger.error("%s: cannot read from %s: %s", self, self.log.directory, error.strerror)
        self.disk_failed()
        return BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, f"The broker cannot read its disk: {error.strerror}.")

    @property
    def is_readable_follower(self) -> bool:
        """Whether consumers may read what this follower knows to be committed. Without a leader it may be behind."""
        return isinstance(self.role, FollowerState) and self.role.leader >= 0 and self.offline_reason is None

    def read_as_replica(self, offset: int, bytes_max: int, at_least_one_batch: bool) -> LogSlice | None:
        """Record batches for a follower: up to the end of the log."""
        end_offset = self.log.log_end_offset
        if offset == end_offset:
            return None
        if offset > end_offset or offset < self.log.log_start_offset:
            raise self.out_of_range(offset, end_offset)
        try:
            return self.log.read(offset, bytes_max, end_offset, at_least_one_batch=at_least_one_batch)
        except OSError as error:
            raise self.not_read(error) from error

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Refuses a client that knows an older or a newer leader epoch than this broker (KIP-320)."""
        if current_leader_epoch == self.leader_epoch or current_leader_epoch < 0:
            return
        if current_leader_epoch < self.leader_epoch:
            raise BrokerError(ErrorCode.FENCED_LEADER_EPOCH, f"The leader epoch of {self} is {self.leader_epoch}.")
        raise BrokerError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"The leader epoch of {self} is {self.leader_epoch}.")

    # Waiting

    def add_waiter(self, waiter: Waiter) -> None:
        self._waiters[waiter] = None

    def remove_waiter(self, waiter: Waiter) -> None:
        self._waiters.pop(waiter, None)
        self._append_waiters.pop(waiter, None)

    def add_append_waiter(self, waiter: Waiter) -> None:
        """As `add_waiter`, and told of every append: followers read up to the end of the log."""
        self._waiters[waiter] = None
        self._append_waiters[waiter] = None

    def deleted(self) -> None:
        """The topic was deleted. Waiters look the partition up again, and get the error."""
        self.is_deleted = True
        self.wake_waiters(limits.REQUEST_BYTES_MAX)

    def wake_waiters(self, new_bytes: int) -> None:
        for waiter in tuple(self._waiters):
            waiter.records_arrived(new_bytes)

    # Administration

    def reconfigure(self, config: TopicConfig) -> None:
        self.config = config
        self._rules = BatchRules.of(config)
        if self.leader is not None:
            self.advance_high_watermark(self.leader.change_min_in_sync(config.min_insync_replicas))

    def delete_records_before(self, offset: int) -> int:
        """DeleteRecords: moves the start of the log; -1 means the high watermark. Returns the new start.

        Not for topics that promise to keep the last record of every key: coordinators' and compacted ones.
        """
        if self.is_internal:
            raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Records of the internal topic {self} are kept.")
        if self.log.config.compacts and not self.log.config.deletes:
            raise BrokerError(
                ErrorCode.POLICY_VIOLATION, f"{self} is compacted: its cleanup.policy does not contain delete."
            )
        target = self.high_watermark if offset == -1 else offset
        if target < 0 or target > self.high_watermark:
            raise BrokerError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"{self} holds offsets up to {self.high_watermark}, not {offset}."
            )
        self.log.delete_records_before(target)
        return self.log.log_start_offset
