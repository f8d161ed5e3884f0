"""Notices that the data directory, or the files of a partition, were moved or deleted under the running broker.

A file that is open outlives its name: writes would go on to succeed, and the broker would acknowledge records that the
next start does not find. As in Kafka, a partition whose files are gone goes offline (KAFKA_STORAGE_ERROR), and a broker
whose only log directory is gone stops.

Owns the intervals and the messages; `log/presence.py` makes the comparison. The comparison runs in a thread, because a
file system may be slow, and the hot path is not touched. What a write or an fsync finds out is noticed at once
(`partition.py`, `flush.py`).

Invariant: once the directory is found missing, nothing more is acknowledged, and nothing is written under its path.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from typing import Final

from penstock.broker.node import Node
from penstock.core.ids import TopicPartition
from penstock.log.filesystem import FileMoved
from penstock.log.log_directory import LOCK_NAME, LogDirectory
from penstock.log.presence import Absence
from penstock.metadata.changes import PartitionImage

_IDLE_PARTITIONS_PER_CHECK: Final = 200


class PresenceWatch:
    """Belongs to the event loop."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._is_running = False
        self._checked_end_offsets: dict[TopicPartition, int] = {}
        self._rotation: Iterator[TopicPartition] = iter(())

    def begin_check(self) -> asyncio.Future[Absence] | None:
        """Checks the directory, all partitions that were written to since the last check, and some of the others.

        Returns None if the last check still runs.
        """
        if self._is_running:
            return None
        self._is_running = True
        check = self._node.log_directory.presence_check(self._due())
        checking = self._node.loop.run_in_executor(None, check.run)
        checking.add_done_callback(self._checked)
        return checking

    def _due(self) -> set[TopicPartition]:
        known = self._checked_end_offsets
        end_offsets = {place: log.log_end_offset for place, log in self._node.log_directory.logs.items()}
        due = {place for place, end_offset in end_offsets.items() if known.get(place) != end_offset}
        self._checked_end_offsets = end_offsets
        rest = list(itertools.islice(self._rotation, _IDLE_PARTITIONS_PER_CHECK))
        if len(rest) < _IDLE_PARTITIONS_PER_CHECK:
            self._rotation = iter(list(end_offsets))
        return due.union(rest)

    def _checked(self, done: asyncio.Future[Absence]) -> None:
        self._is_running = False
        try:
            absence = done.result()
        except (OSError, asyncio.CancelledError):
            absence = Absence(directory=True)
        if absence.directory:
            loss = loss_of(self._node.log_directory)
            if loss is not None:
                self._node.lose_log_directory(loss)
            return
        for place in absence.partitions:
            partition = self._node.replica(place)
            # Looked at again: the topic may have been deleted, or the segment rolled, while the check ran.
            if partition is not None and not partition.log.is_in_place():
                partition.take_offline(FileMoved(partition.log.directory))
        self._node.leave_offline_partitions()


def loss_of(directory: LogDirectory) -> str | None:
    """What happened to a data directory that is not in its place, in one line; None if it is."""
    if directory.is_in_place():
        return None
    if directory.has_log_in_place():
        return (
            f"{directory.path}: the lock file {LOCK_NAME} was moved or deleted while the broker was running, so that "
            "another broker may use the data directory; stop that one, then start again"
        )
    moved_to = directory.path_now()
    if moved_to is None:
        return (
            f"{directory.path}: the data directory was deleted while the broker was running, and the records in it are "
            "lost; restore it from a backup, or start again with an empty one"
        )
    return (
        f"{directory.path}: the data directory was moved to {moved_to} while the broker was running; move it back, or "
        f"start again with --data-dir {moved_to}"
    )


def offline_replicas(node: Node, topic: str, partition: PartitionImage) -> list[int]:
    """The replicas of brokers that are not in the cluster now, and this broker's own if its files are gone."""
    offline: list[int] = [broker for broker in partition.replicas if broker not in node.image.brokers]
    if node.offline and (topic, partition.index) in node.offline:
        offline.append(node.broker_id)
    return offline
