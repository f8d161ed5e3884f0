"""Compacts the logs of topics with `cleanup.policy=compact`, one at a time, the one with the most to gain first.

A cleaning is a process of its own (`cleaning_process.py`): it decodes records, and in this process that would delay
every produce request. What is left for the event loop are renames, and a thread waits for the disk between them
(docs/adr/0014).

Owns: which log is next, and the steps of its swap.
Must never know: records.

Invariant: at most one cleaning runs. A failed one leaves its log as it was. A damaged log is not cleaned again until
the next start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from penstock.broker.cleaning_process import CleaningFailed, CleaningProcess
from penstock.broker.metrics import CleanerMetrics
from penstock.broker.node import Node
from penstock.broker.partition import Partition
from penstock.core import limits
from penstock.log.cleaning.cleaner import CleaningResult
from penstock.log.cleaning.plan import Cleanable, is_due

logger = logging.getLogger(__name__)

_RETRY_MS: Final = 300_000
_FLUSH_WAIT_SECONDS: Final = 0.05


class LogCleaner:
    """Belongs to the event loop."""

    def __init__(self, node: Node, new_process: Callable[[], CleaningProcess] = CleaningProcess) -> None:
        self._node = node
        self._new_process = new_process
        self._process: CleaningProcess | None = None
        self._is_running = False
        self._is_stopped = False
        self._next_check_ms = 0
        self._thread: ThreadPoolExecutor | None = None
        self._checked_ms = node.now_ms()
        self._began_s = 0.0
        self._metrics = CleanerMetrics(node.metrics, lambda: node.now_ms() - self._checked_ms)

    def take_turn(self, now_ms: int) -> None:
        if self._is_running or now_ms < self._next_check_ms or not self._node.config.log_cleaner_enable:
            return
        self._checked_ms = now_ms
        found = self._most_dirty(now_ms)
        if found is None:
            self._next_check_ms = now_ms + self._node.config.log_cleaner_backoff_ms
        else:
            self._start(*found, now_ms)

    def stop(self) -> None:
        """Ends a cleaning that runs; the next start removes its files. A swap that has begun ends with the log."""
        self._is_stopped = True
        if self._process is not None:
            self._process.end()
        if self._thread is not None:
            self._thread.shutdown(wait=True)

    def _most_dirty(self, now_ms: int) -> tuple[Partition, Cleanable] | None:
        due: list[tuple[float, int, Partition, Cleanable]] = []
        for partition in self._node.topics.replicas():
            log = partition.log
            if not log.config.compacts or partition.is_deleted or partition.offline_reason is not None:
                continue
            cleanable = log.lifecycle.cleanable(
                last_stable_offset=partition.last_stable_offset, recovery_point=log.recovery_point, now_ms=now_ms
            )
            if cleanable is not None and is_due(cleanable, log.config):
                due.append((cleanable.dirty_ratio, len(due), partition, cleanable))
        if not due:
            return None
        _, _, partition, cleanable = max(due)
        return partition, cleanable

    def _start(self, partition: Partition, cleanable: Cleanable, now_ms: int) -> None:
        entropy = self._node.entropy
        order = partition.log.lifecycle.cleaning_order(
            cleanable,
            keys_max=limits.CLEANER_KEYS_MAX,
            now_ms=now_ms,
            hash_seed=entropy.uuid() + entropy.uuid(),
        )
        self._is_running = True
        self._began_s = self._node.loop.time()
        self._process = self._new_process()
        self._run(self._process.run, order).add_done_callback(lambda done: self._cleaned(partition, done))

    def _run(self, call: Callable[..., object], *arguments: object) -> asyncio.Future[object]:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="penstock-cleaner")
        return self._node.loop.run_in_executor(self._thread, call, *arguments)

    def _cleaned(self, partition: Partition, done: asyncio.Future[object]) -> None:
        self._process = None
        if self._is_stopped or partition.is_deleted or partition.offline_reason is not None:
            self._is_running = False
            return
        try:
            result = done.result()
        except (CleaningFailed, OSError) as error:
            self._not_cleaned(partition, error)
            return
        assert isinstance(result, CleaningResult)
        self._begin_swap(partition, result)

    def _begin_swap(self, partition: Partition, result: CleaningResult) -> None:
        if self._is_stopped or partition.is_deleted or partition.offline_reason is not None:
            self._is_running = False
            return
        lifecycle = partition.log.lifecycle
        if lifecycle.flushing_indexes is not None:
            self._node.loop.call_later(_FLUSH_WAIT_SECONDS, self._begin_swap, partition, result)
            return
        try:
            has_begun = lifecycle.begin_swap(result, self._node.now_ms())
        except OSError as error:
            self._swap_failed(partition, error)
            return
        if has_begun:
            self._metrics.bytes_read.value += result.bytes_read
            self._metrics.bytes_written.value += result.bytes_written
            logger.info(
                "%s: compacted %d bytes to %d, up to offset %d",
                partition,
                result.bytes_read,
                result.bytes_written,
                result.clean_end_offset,
            )
            self._advance(partition)
        else:
            self._is_running = False

    def _advance(self, partition: Partition, done: asyncio.Future[object] | None = None) -> None:
        """Takes the next step of the swap after the disk has the last one."""
        if self._is_stopped or partition.is_deleted or partition.offline_reason is not None:
            self._is_running = False
            return
        try:
            if done is not None:
                done.result()
            sync = partition.log.lifecycle.advance_swap()
        except OSError as error:
            self._swap_failed(partition, error)
            return
        if sync is not None:
            self._run(sync).add_done_callback(lambda done: self._advance(partition, done))
            return
        self._is_running = False
        self._metrics.succeeded.value += 1
        self._metrics.seconds.value += self._node.loop.time() - self._began_s
        self.checkpoint()

    def checkpoint(self) -> None:
        """Writes the offsets up to which logs are compacted, if they have changed."""
        write = self._node.log_directory.cleaner_checkpoint()
        if write is not None and not self._is_stopped:
            self._run(write).add_done_callback(self._report)

    def _report(self, done: asyncio.Future[object]) -> None:
        failure = done.exception()
        if isinstance(failure, OSError):
            # The next start cleans a little more than it would have to.
            logger.warning("%s: cannot write a checkpoint: %s", self._node.log_directory.path, failure.strerror)

    def _not_cleaned(self, partition: Partition, error: CleaningFailed | OSError) -> None:
        """Damage stays; a full disk may have room later."""
        self._is_running = False
        self._failed()
        self._run(partition.log.lifecycle.discard_cleaned).add_done_callback(lambda done: done.exception())
        if isinstance(error, CleaningFailed) and not error.may_succeed_later:
            partition.log.lifecycle.uncleanable = str(error)
            logger.error("%s: not compacted until the broker starts again: %s", partition, error)
            return
        reason = error.strerror if isinstance(error, OSError) else error
        logger.warning("%s: cannot be compacted now: %s", partition, reason)
        self._next_check_ms = self._node.now_ms() + _RETRY_MS

    def _swap_failed(self, partition: Partition, error: OSError) -> None:
        self._is_running = False
        self._failed()
        partition.log.lifecycle.abandon_swap(str(error.strerror))
        logger.error("%s: not compacted until the broker starts again: %s", partition, error.strerror)

    def _failed(self) -> None:
        self._metrics.failed.value += 1
        self._metrics.seconds.value += self._node.loop.time() - self._began_s
