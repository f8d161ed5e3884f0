"""Deletes old segments by time and size (`retention.ms`, `retention.bytes`), and removes the files of deleted segments.

Every `log.retention.check.interval.ms` all partitions are checked, some in each turn. A check renames the files of
segments that are due, which is quick; a thread removes them after `file.delete.delay.ms`, because to free a large file
may take long.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator

from penstock.broker.node import Node
from penstock.broker.partition import Partition
from penstock.core import limits

logger = logging.getLogger(__name__)


class LogRetention:
    """Belongs to the event loop."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._next_check_ms = node.now_ms() + node.config.log_initial_task_delay_ms
        self._unchecked: Iterator[Partition] = iter(())
        self._deleted_segments = node.metrics.counter(
            "penstock_retention_deleted_segments_total", "Segments that were deleted by time or size."
        )

    def take_turn(self, now_ms: int) -> None:
        if now_ms >= self._next_check_ms:
            self._next_check_ms = now_ms + self._node.config.log_retention_check_interval_ms
            self._unchecked = iter(tuple(self._node.topics.replicas()))
        for partition in itertools.islice(self._unchecked, limits.RETENTION_PARTITIONS_PER_TURN):
            self._check(partition, now_ms)
        self._remove_files(now_ms)

    def _check(self, partition: Partition, now_ms: int) -> None:
        if partition.is_deleted or partition.offline_reason is not None:
            return
        start_offset = partition.log.log_start_offset
        try:
            count = partition.log.lifecycle.delete_old_segments(partition.high_watermark, now_ms)
        except OSError as error:
            logger.warning("%s: cannot delete old segments: %s", partition, error.strerror)
            return
        if count:
            self._deleted_segments.value += count
            logger.info(
                "%s: deleted %d segments; the log start offset was %d and is %d",
                partition,
                count,
                start_offset,
                partition.log.log_start_offset,
            )
            self._unchecked = itertools.chain(
                self._unchecked, (partition,)
            )  # There may be more than one check deletes.

    def _remove_files(self, now_ms: int) -> None:
        due: list[str] = []
        for partition in self._node.topics.replicas():
            lifecycle = partition.log.lifecycle
            if lifecycle.has_retired and not partition.is_deleted and partition.offline_reason is None:
                due += lifecycle.take_retired(now_ms)
        if due:
            removal = self._node.loop.run_in_executor(None, self._node.log_directory.remove_retired, due)
            removal.add_done_callback(lambda done: _report(done.exception()))


def _report(failure: BaseException | None) -> None:
    if isinstance(failure, OSError):
        logger.warning("%s: cannot remove a deleted segment: %s", failure.filename, failure.strerror)
