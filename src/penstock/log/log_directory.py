"""A broker's data directory: its logs, and the files that cover all of them.

Owns: the lock against a second broker, the clean-shutdown marker, the offset checkpoints, directories of deleted
partitions.
Must never know: topics beyond their names; the caller provides the configuration of each log.

Invariants: the clean-shutdown marker exists only while no broker runs, and only if every log was closed. After `open`,
the files of deleted partitions are removed, and those of stray partitions that were set aside long ago. Nothing is
written under the path of a directory that was moved or deleted: another broker may use that path by then.
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Final

from penstock.core import limits
from penstock.core.ids import NO_LEADER_EPOCH, TopicPartition
from penstock.log.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    decode_offsets,
    decode_partition_metadata,
    encode_offsets,
    encode_partition_metadata,
)
from penstock.log.config import LogConfig
from penstock.log.damage import Damage, ReportDamage
from penstock.log.filesystem import TEMPORARY_SUFFIX, File, FileMoved, FileSystem
from penstock.log.flushing import FlushTicket, sync_in_turn
from penstock.log.partition_log import PartitionLog
from penstock.log.presence import NamedFile, PresenceCheck
from penstock.log.segment_caches import SegmentCaches

LOCK_NAME: Final = ".lock"
CLEAN_SHUTDOWN_NAME: Final = ".kafka_cleanshutdown"
DELETED_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"
SET_ASIDE_NAME: Final = "set-aside"  # when a stray directory was set aside, in milliseconds

_CHECKPOINTS: Final = (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS, CLEANER_OFFSETS)
_PARTITION_DIRECTORY: Final = re.compile(r"([a-zA-Z0-9._-]+)-(0|[1-9][0-9]*)")


SyncAll = Callable[[list[FlushTicket]], None]


class LogDirectoryInUse(Exception):
    """Another process holds the lock of the data directory."""


class LogDirectory:
    __slots__ = (
        "_caches",
        "_checkpointed",
        "_cleaned_offsets",
        "_fs",
        "_lock",
        "_report_damage",
        "clean_shutdown_epoch",
        "high_watermarks",
        "logs",
        "path",
        "removed_strays",
        "was_clean",
    )

    def __init__(self, path: str, fs: FileSystem, caches: SegmentCaches, report_damage: ReportDamage) -> None:
        """Use `open`."""
        self.path = path
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}  # from the checkpoint
        self.was_clean = False
        self.clean_shutdown_epoch: int | None = None  # the broker epoch in the marker of a clean shutdown
        self.removed_strays: list[str] = []
        self._checkpointed: set[TopicPartition] = set()  # partitions that may be in a checkpoint on disk
        self._cleaned_offsets: dict[TopicPartition, int] = {}  # as they are in the checkpoint
        self._fs = fs
        self._caches = caches
        self._report_damage = report_damage
        self._lock: File | None = None

    @classmethod
    def open(
        cls,
        path: str,
        fs: FileSystem,
        *,
        config_for: Callable[[str, int], LogConfig],
        leader_epoch_of: Callable[[str, int], int] = lambda _topic, _partition: NO_LEADER_EPOCH,
        now_ms: int,
        report_damage: ReportDamage,
        caches: SegmentCaches | None = None,
    ) -> LogDirectory:
        """Locks the directory, creates it if it is missing, and opens every log in it.

        `leader_epoch_of` gives the newest leader epoch of a partition; -1 where it is not known.
        """
        directory = cls(path, fs, caches or SegmentCaches(), report_damage)
        fs.make_directory(path)
        directory._take_lock()
        names = fs.list_directory(path)
        directory.was_clean = CLEAN_SHUTDOWN_NAME in names
        recovery_points = directory._read_offsets(names, RECOVERY_POINTS)
        log_start_offsets = directory._read_offsets(names, LOG_START_OFFSETS)
        directory.high_watermarks = directory._read_offsets(names, HIGH_WATERMARKS)
        cleaned_offsets = directory._cleaned_offsets = directory._read_offsets(names, CLEANER_OFFSETS)
        # Which logs were compacted is then unknown, and gaps in one of them must not seem to be damage.
        any_may_have_gaps = CLEANER_OFFSETS in names and not directory._is_whole(CLEANER_OFFSETS)
        directory._checkpointed = {
            *recovery_points,
            *log_start_offsets,
            *directory.high_watermarks,
            *cleaned_offsets,
        }
        if directory.was_clean:
            directory.clean_shutdown_epoch = _epoch_in(fs.read_file(f"{path}/{CLEAN_SHUTDOWN_NAME}"))
            # Removed before any log is opened: if this process crashes now, the next one must recover.
            fs.remove_file(f"{path}/{CLEAN_SHUTDOWN_NAME}")
            fs.sync_directory(path)
        for name in names:
            if name.endswith(TEMPORARY_SUFFIX) and name.startswith(_CHECKPOINTS):
                fs.remove_file(f"{path}/{name}")  # A crash interrupted its writing.
            elif name.endswith(DELETED_SUFFIX):
                fs.remove_directory(f"{path}/{name}")
            elif name.endswith(STRAY_SUFFIX):
                directory._remove_if_old(f"{path}/{name}", now_ms)
            elif found := _PARTITION_DIRECTORY.fullmatch(name):
                key = TopicPartition(found[1], int(found[2]))
                config = config_for(*key)
                directory.logs[key] = PartitionLog.open(
                    f"{path}/{name}",
                    config,
                    fs,
                    clean_shutdown=directory.was_clean,
                    recovery_point=recovery_points.get(key, 0),
                    log_start_offset=log_start_offsets.get(key, 0),
                    cleaned_offset=cleaned_offsets.get(key, int(any_may_have_gaps and not config.compacts)),
                    newest_epoch=leader_epoch_of(*key),
                    now_ms=now_ms,
                    report_damage=report_damage,
                    caches=directory._caches,
                )
        return directory

    def create(self, topic: str, partition: int, topic_id: bytes, config: LogConfig, now_ms: int) -> PartitionLog:
        """Creates the directory of a new partition and opens its log."""
        self._require_in_place()
        if (topic, partition) in self._checkpointed:
            self._drop_deleted()
        path = self._partition_path(topic, partition)
        self._fs.make_directory(path)
        self._fs.write_file(f"{path}/{PARTITION_METADATA}", encode_partition_metadata(topic_id), sync=False)
        log = PartitionLog.open(
            path,
            config,
            self._fs,
            clean_shutdown=True,
            now_ms=now_ms,
            report_damage=self._report_damage,
            caches=self._caches,
        )
        self.logs[TopicPartition(topic, partition)] = log
        return log

    def topic_id(self, topic: str, partition: int) -> bytes | None:
        """The topic id of the partition; None if `partition.metadata` is missing or damaged."""
        path = f"{self._partition_path(topic, partition)}/{PARTITION_METADATA}"
        try:
            content = self._fs.read_file(path)
        except FileNotFoundError:
            return None
        topic_id = decode_partition_metadata(content)
        if topic_id is None:
            self._report_damage(Damage(path, 0, len(content), "it has no valid topic id"))
        return topic_id

    def delete(self, topic: str, partition: int, unique_id: str) -> str:
        """Removes a partition from the directory. Returns the path for `remove_deleted`, which removes its files."""
        log = self.logs.pop(TopicPartition(topic, partition))
        try:
            return log.move_aside(f"{unique_id}{DELETED_SUFFIX}")
        except FileNotFoundError:
            # Something else has removed it already. A new log may take its name before the caller removes files, so the
            # path is not that one: nothing is there.
            return f"{self.path}/{unique_id}{DELETED_SUFFIX}"

    def set_aside(self, topic: str, partition: int, unique_id: str, now_ms: int) -> str:
        """Takes a stray partition out of service, and keeps its files under the returned path for some days."""
        path = self.logs.pop(TopicPartition(topic, partition)).move_aside(f"{unique_id}{STRAY_SUFFIX}")
        self._fs.write_file(f"{path}/{SET_ASIDE_NAME}", f"{now_ms}\n".encode(), sync=False)
        return path

    def _remove_if_old(self, path: str, now_ms: int) -> None:
        """Removes a stray directory that was set aside long ago. One without a valid time counts from now on."""
        marker = f"{path}/{SET_ASIDE_NAME}"
        try:
            set_aside_ms = int(self._fs.read_file(marker))
        except (FileNotFoundError, ValueError):
            self._fs.write_file(marker, f"{now_ms}\n".encode(), sync=False)
            return
        if now_ms - set_aside_ms > limits.STRAY_DIRECTORY_KEPT_MS:
            self._fs.remove_directory(path)
            self.removed_strays.append(path)

    def remove_deleted(self, path: str) -> None:
        """Removes the files of a deleted partition, in any thread. The next start removes what is left."""
        with suppress(FileNotFoundError):
            self._fs.remove_directory(path)

    def presence_check(self, partitions: Collection[TopicPartition]) -> PresenceCheck:
        """A check whether the directory, and the files that these partitions are written to, have their names."""
        active = [(place, self.logs[place].active_file) for place in partitions if place in self.logs]
        return PresenceCheck(self._fs, self._lock_file(), active)

    def is_in_place(self) -> bool:
        """Whether the path still leads to this directory; False if that cannot be found out."""
        lock = self._lock_file()
        try:
            return lock is None or lock.is_in_place(self._fs)
        except OSError:
            return False

    def has_log_in_place(self) -> bool:
        return any(log.is_in_place() for log in self.logs.values())

    def path_now(self) -> str | None:
        """Where a directory that is not in place has been moved; None if it was deleted, or this is unknown."""
        found = None if self._lock is None else self._fs.path_now(self._lock)
        return None if found is None else found.removesuffix(f"/{LOCK_NAME}")

    def _lock_file(self) -> NamedFile | None:
        return None if self._lock is None else NamedFile(f"{self.path}/{LOCK_NAME}", self._lock)

    def _require_in_place(self) -> None:
        if not self.is_in_place():
            raise FileMoved(self.path)

    def write_checkpoints(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Writes recovery points, log start offsets and high watermarks, which shorten the next recovery."""
        self._require_in_place()
        recovery_points = {key: log.recovery_point for key, log in self.logs.items()}
        log_start_offsets = {key: log.log_start_offset for key, log in self.logs.items() if log.log_start_offset}
        for name, offsets in (
            (RECOVERY_POINTS, recovery_points),
            (LOG_START_OFFSETS, log_start_offsets),
            (HIGH_WATERMARKS, high_watermarks),
        ):
            self._fs.write_file(f"{self.path}/{name}", encode_offsets(offsets), sync=True)
        self._checkpointed = {*self.logs, *high_watermarks}

    def cleaner_checkpoint(self) -> Callable[[], None] | None:
        """A call that writes the offsets up to which logs are compacted; None if they have not changed.

        It may run in any thread, but always in the same one, or after it.
        """
        cleaned_offsets = {
            key: log.lifecycle.cleaned_offset for key, log in self.logs.items() if log.lifecycle.cleaned_offset
        }
        if cleaned_offsets == self._cleaned_offsets:
            return None
        self._cleaned_offsets = cleaned_offsets
        path = f"{self.path}/{CLEANER_OFFSETS}"
        # Encoded when it is written: a topic may be deleted until then.
        return lambda: self._fs.write_file(path, encode_offsets(self._cleaned_offsets), sync=True)

    def remove_retired(self, paths: Collection[str]) -> None:
        """Removes files of deleted or replaced segments, in any thread. The next start removes what is left."""
        for path in paths:
            with suppress(FileNotFoundError):
                self._fs.remove_file(path)

    def close(
        self,
        high_watermarks: Mapping[TopicPartition, int],
        sync_all: SyncAll = sync_in_turn,
        *,
        offline: Collection[TopicPartition] = (),
        broker_epoch: int = -1,
    ) -> None:
        """Closes every log and, if everything reached the disk, writes the clean-shutdown marker with the broker epoch.

        `sync_all` syncs all tickets or raises; it may use threads. Logs that are `offline` are left as they are, and
        without a marker, so that the next start recovers them.
        """
        self._require_in_place()
        tickets = [(log, log.begin_close()) for place, log in self.logs.items() if place not in offline]
        sync_all([ticket for _, ticket in tickets if ticket.files or ticket.small_files or ticket.directory])
        for log, ticket in tickets:
            log.finish_close(ticket)
        self.write_checkpoints(high_watermarks)
        write_cleaned_offsets = self.cleaner_checkpoint()
        if write_cleaned_offsets is not None:
            write_cleaned_offsets()
        if not offline:
            marker = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()
            self._fs.write_file(f"{self.path}/{CLEAN_SHUTDOWN_NAME}", marker, sync=True)
        self.logs.clear()
        self._lock = None

    def _drop_deleted(self) -> None:
        """Removes deleted partitions from the checkpoints.

        Checkpoints use names: the offsets of a deleted topic would apply to a new topic of the same name.
        """
        names = self._fs.list_directory(self.path)
        for name in _CHECKPOINTS:
            offsets = self._read_offsets(names, name)
            kept = {key: offset for key, offset in offsets.items() if key in self.logs}
            if len(kept) < len(offsets):
                self._fs.write_file(f"{self.path}/{name}", encode_offsets(kept), sync=True)
        self._checkpointed &= self.logs.keys()
        self._cleaned_offsets = {key: offset for key, offset in self._cleaned_offsets.items() if key in self.logs}

    def _partition_path(self, topic: str, partition: int) -> str:
        return f"{self.path}/{topic}-{partition}"

    def _take_lock(self) -> None:
        try:
            self._lock = self._fs.lock(f"{self.path}/{LOCK_NAME}")
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise LogDirectoryInUse(f"the data directory {self.path} is in use by another broker") from error
            raise

    def _is_whole(self, name: str) -> bool:
        return decode_offsets(self._fs.read_file(f"{self.path}/{name}")) is not None

    def _read_offsets(self, names: list[str], name: str) -> dict[TopicPartition, int]:
        if name not in names:
            return {}
        path = f"{self.path}/{name}"
        content = self._fs.read_file(path)
        offsets = decode_offsets(content)
        if offsets is None:
            self._report_damage(Damage(path, 0, len(content), "it is not an offset checkpoint, and was not used"))
            return {}
        return offsets


def _epoch_in(marker: bytes) -> int | None:
    """The broker epoch in a clean-shutdown marker. Markers of old versions are empty, and -1 stands for none."""
    try:
        epoch = json.loads(marker)["brokerEpoch"]
    except (ValueError, KeyError, TypeError):
        return None
    return epoch if isinstance(epoch, int) and epoch >= 0 else None
