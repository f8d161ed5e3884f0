"""What a follower does to its log: takes over the leader's batches, its start and its high watermark, and truncates.

Owns the rules of KIP-320 and KIP-595: a follower truncates only where the leader has said that their logs part ways.
Must not know: connections, fetch requests, who leads.

Invariant: after `truncate` the log is a prefix of what the leader held in the epoch that was compared, or the next
fetch compares an older epoch.
Invariant: a batch is taken over whole, with a valid CRC, and directly behind the end of the log; compaction may have
removed the records between.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.core import limits
from penstock.log.batches import BatchAnomaly, header_flaw
from penstock.protocol.record_batch import HEADER_BYTES, LOG_OVERHEAD, crc_holds, parse_header
from penstock.replication.roles import FollowerState

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.broker.partition import Partition

logger = logging.getLogger(__name__)


class DivergedLog(Exception):
    """What the leader sent does not continue the log. The message says why."""


def role_in(partition: Partition) -> FollowerState:
    role = partition.role
    assert isinstance(role, FollowerState), "only a follower follows"
    return role


def take_over(partition: Partition, records: memoryview, now_ms: int, save_gaps: Callable[[], None]) -> int:
    """Appends the whole batches of a fetch, and returns their size in bytes. What is cut off at the end is left.

    `save_gaps` makes it known to the next start that the log has gaps. Raises DivergedLog, and OSError after which
    nothing was appended.
    """
    log = partition.log
    position, staged = 0, 0
    try:
        while len(records) - position >= HEADER_BYTES:
            header = parse_header(records, position)
            if header.batch_length >= 0 and header.size > len(records) - position:
                break
            flaw = header_flaw(header, len(records) - position, contiguous=False)
            batch = records[position : position + max(header.size, LOG_OVERHEAD)]
            if flaw is None and not crc_holds(batch, header):
                flaw = "the CRC does not match"
            if flaw is not None:
                raise DivergedLog(f"the batch at offset {header.base_offset} is damaged: {flaw}")
            if log.config.contiguous_offsets and _leaves_offsets_out(log.next_offset, batch):
                log.expect_gaps()
                save_gaps()
            log.stage_as_is(batch, header, now_ms)
            position += header.size
            staged = position
    except BatchAnomaly as anomaly:
        raise DivergedLog(anomaly.reason) from None
    finally:
        if staged:
            _write(partition, staged, now_ms)
    return staged


def _leaves_offsets_out(next_offset: int, batch: memoryview) -> bool:
    header = parse_header(batch)
    return header.base_offset > next_offset or header.records_count <= header.last_offset_delta


def _write(partition: Partition, size: int, now_ms: int) -> None:
    partition.log.write_staged()
    partition.unseen_bytes += size
    if partition.unflushed_since_ms is None:
        partition.unflushed_since_ms = now_ms


def follow(partition: Partition, leader_high_watermark: int, leader_start_offset: int) -> None:
    """Takes over how far readers may read, and which records were deleted."""
    role, log = role_in(partition), partition.log
    partition.advance_high_watermark(role.fetched(leader_high_watermark, log.log_end_offset))
    if leader_start_offset > log.log_start_offset:
        # The leader deletes below its high watermark only, which this replica may not know yet.
        log.delete_records_before(min(leader_start_offset, log.log_end_offset))
        partition.advance_high_watermark(role.fetched(log.log_start_offset, log.log_end_offset))
    # The log remembers ended transactions until it is asked for this, which perhaps no reader ever does.
    log.last_stable_offset(partition.high_watermark)


def truncate(partition: Partition, epoch: int, end_offset: int) -> None:
    """The leader's log holds `epoch` up to `end_offset`, and other records behind it than this one."""
    role, log = role_in(partition), partition.log
    before = log.log_end_offset
    own_epoch, own_end_offset = log.leader_epochs.end_offset_for(epoch, before)
    if own_epoch < 0:
        # This log has no epochs: it holds nothing that could be compared.
        target = min(end_offset, before)
    elif own_epoch == epoch:
        target = min(end_offset, own_end_offset)
    else:
        # The leader's epoch is unknown here. The next fetch compares the end of the one before it.
        target = own_end_offset
    log.truncate_to(target)
    after = log.log_end_offset
    if after < before:
        text = "%s: truncated from offset %d to %d, where the leader's log is another one (leader epoch %d)"
        if after < partition.high_watermark:
            logger.warning(text + "; readers have seen records up to %d", partition, before, after, epoch,
                           partition.high_watermark)  # fmt: skip
        else:
            logger.info(text, partition, before, after, epoch)
    partition.high_watermark = role.truncated(after)
    _changed_below_its_end(partition)


def restart(partition: Partition, offset: int) -> None:
    """The leader's log begins at `offset`, behind the end of this one."""
    role, log = role_in(partition), partition.log
    logger.info("%s: starts again at offset %d, where the leader's log begins", partition, offset)
    log.restart_at(offset)
    partition.high_watermark = role.high_watermark = offset
    _changed_below_its_end(partition)


def _changed_below_its_end(partition: Partition) -> None:
    """Readers look again: what they wait for, or were given last, may be gone."""
    partition.unseen_bytes = 0
    partition.wake_waiters(limits.REQUEST_BYTES_MAX)
