"""The journal of a one-node cluster: its metadata, kept in its own data directory.

Two files. `meta.properties` is Kafka's: the ids of this node and its cluster. `metadata.journal` holds every durable
change of the cluster image, in lines (`journal_lines.py`); a line is one append and is fsynced before `append` returns.
When the journal has grown well past the size of the live metadata, an atomic rename replaces it with a compact one.

Every method blocks on the disk. `broker/local_metadata_store.py` calls them on a thread, one at a time, and owns the
order of changes. It and `data_directory.py` are the only modules of the package that touch a disk. Knows nothing of
logs or requests.

Invariants:
- What `append` returned from is on disk, whole. What it failed on is not: a partly written line is cut off again.
- After a failed fsync, or once its file was moved or deleted, the journal accepts nothing more.
- One process at a time has the directory: it is locked for as long as the journal is open.
- Only its owner can read the journal: it holds the keys of SCRAM users, by which a reader could pose as the broker.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from penstock.core.ids import uuid_text
from penstock.metadata.change_records import decode_change, encode_change
from penstock.metadata.changes import DurableChange
from penstock.metadata.data_directory import (
    META_PROPERTIES,
    OWNER_ONLY,
    StoreError,
    lock_directory,
    put_in_place,
    read_meta_properties,
    replace_file,
    unusable,
    write_all,
    write_meta_properties,
)
from penstock.metadata.image import ClusterImage, InvalidChange
from penstock.metadata.journal_lines import JournalDamage, decode_lines, encode_line
from penstock.protocol.error_codes import BrokerError, ErrorCode

JOURNAL: Final = "metadata.journal"
JOURNAL_FORMAT: Final = 1
COMPACTION_BYTES_MIN: Final = 64 * 1024
COMPACTION_GROWTH: Final = 4


class LocalJournal:
    """Opened with `LocalJournal.open`. `image` is the cluster as the journal described it then."""

    def __init__(self, directory: Path, directory_fd: int, journal_fd: int, header: dict[str, Any]) -> None:
        self._directory = directory
        self._directory_fd = directory_fd
        self._journal_fd = journal_fd
        self._header = header
        self._size = 0
        self._compact_at = COMPACTION_BYTES_MIN
        self._failure: str | None = None
        self.image = ClusterImage(header["cluster_id"])

    @classmethod
    def open(
        cls, directory: Path, *, node_id: int, new_uuid: Callable[[], bytes], cluster_id: str | None = None
    ) -> LocalJournal:
        """Opens or creates the directory's metadata. Raises StoreError for what the operator has to repair.

        `new_uuid` names a new cluster and directory; an existing directory keeps its own names.
        """
        directory_fd = lock_directory(directory)
        try:
            identity = read_meta_properties(directory / META_PROPERTIES)
            journal_path = directory / JOURNAL
            if not journal_path.exists():
                if identity:
                    raise StoreError(
                        f"{journal_path} is missing although {META_PROPERTIES} is there; "
                        "restore it from a backup, use another data directory, or set metadata.store if this is a "
                        "broker of a cluster"
                    )
                header = _new_header(node_id, cluster_id, new_uuid)
                replace_file(journal_path, encode_line(header), directory_fd)
            return cls._open_journal(directory, directory_fd, identity, node_id, cluster_id)
        except OSError as error:
            os.close(directory_fd)
            raise unusable(directory, error) from error
        except BaseException:
            os.close(directory_fd)
            raise

    @classmethod
    def _open_journal(
        cls, directory: Path, directory_fd: int, identity: dict[str, str], node_id: int, cluster_id: str | None
    ) -> LocalJournal:
        path = directory / JOURNAL
        journal_fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            if os.fstat(journal_fd).st_mode & 0o077:  # written by an earlier version, or copied
                os.fchmod(journal_fd, OWNER_ONLY)
            content = path.read_bytes()
            try:
                values, valid_bytes = decode_lines(content)
                header = _checked_header(path, values)
                _check_identity(directory, header, identity, node_id, cluster_id)
                if not identity:
                    write_meta_properties(
                        directory,
                        directory_fd,
                        cluster_id=header["cluster_id"],
                        directory_id=header["directory_id"],
                        node_id=header["node_id"],
                    )
                journal = cls(directory, directory_fd, journal_fd, header)
                journal._replay(values)
            except JournalDamage as damage:
                raise StoreError(
                    f"{path}:{damage.line_number}: the line {damage.reason}; restore the file from a backup"
                ) from None
            if valid_bytes < len(content):
                os.ftruncate(journal_fd, valid_bytes)
                os.fsync(journal_fd)
            journal._size = valid_bytes
            if journal.has_grown:
                journal.compact(journal.image.live_changes())
        except BaseException:
            os.close(journal_fd)
            raise
        return journal

    def append(self, changes: Sequence[DurableChange]) -> None:
        """Writes the changes as one line and fsyncs it: all of them are kept, or none and a BrokerError.

        One line for one fsync: a crash can then tear the last line only, and only the last line may be torn.
        """
        if self._failure is not None:
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self._failure}; restart the broker.")
        line = encode_line([encode_change(change) for change in changes])
        try:
            write_all(self._journal_fd, line, self._size)
        except OSError as error:
            self._cut_back()
            raise BrokerError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"The metadata journal cannot be written: {error.strerror}."
            ) from error
        try:
            os.fsync(self._journal_fd)
        except OSError as error:
            # After a failed fsync the kernel may have dropped the pages and report success the next time, so that
            # only reading the file again tells what it holds.
            self._failure = f"The metadata journal could not be flushed to disk: {error.strerror}"
            self._cut_back()
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self._failure}; restart the broker.") from error
        self._check_in_place()
        self._size += len(line)

    def _check_in_place(self) -> None:
        """An open file outlives its name: what was written to it would be lost with this process."""
        path = self._directory / JOURNAL
        try:
            in_place = os.path.samestat(os.stat(path), os.fstat(self._journal_fd))
        except OSError:
            in_place = False
        if not in_place:
            self._failure = f"The metadata journal {path} was moved or deleted while the broker was running"
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self._failure}; restart the broker.")

    @property
    def has_grown(self) -> bool:
        """Whether `compact` may be worth its while."""
        return self._size > self._compact_at

    def compact(self, live_changes: Sequence[DurableChange]) -> None:
        """Replaces the journal by one that holds these changes only: all that are alive, after the last append."""
        lines = [encode_line(self._header)]
        lines.extend(encode_line([encode_change(change)]) for change in live_changes)
        snapshot = b"".join(lines)
        if self._size > COMPACTION_GROWTH * len(snapshot):
            try:
                fresh_fd = put_in_place(self._directory / JOURNAL, snapshot)
            except OSError:
                # The old journal still holds everything. On a full disk, try again when it has doubled.
                self._compact_at = self._size * 2
                return
            os.close(self._journal_fd)
            self._journal_fd = fresh_fd
            self._size = len(snapshot)
            try:
                os.fsync(self._directory_fd)
            except OSError as error:
                # Until the rename is known to be on disk, a crash may bring the old file back: nothing may be
                # acknowledged that only the new one holds.
                self._failure = f"The data directory could not be flushed to disk: {error.strerror}"
        self._compact_at = max(COMPACTION_BYTES_MIN, COMPACTION_GROWTH * len(snapshot))

    def close(self) -> None:
        os.close(self._journal_fd)
        os.close(self._directory_fd)

    def _replay(self, values: list[Any]) -> None:
        for line_number, changes in enumerate(values[1:], start=2):
            if not isinstance(changes, list):
                raise JournalDamage(line_number, "is not a list of changes")
            try:
                for change in changes:
                    self.image.apply(decode_change(change))
            except (ValueError, InvalidChange) as error:
                raise JournalDamage(line_number, f"cannot be applied ({error})") from None

    def _cut_back(self) -> None:
        try:
            os.ftruncate(self._journal_fd, self._size)
            os.fsync(self._journal_fd)
        except OSError as error:
            self._failure = f"The metadata journal could not be cut back: {error.strerror}"


def _new_header(node_id: int, cluster_id: str | None, new_uuid: Callable[[], bytes]) -> dict[str, Any]:
    return {
        "format": JOURNAL_FORMAT,
        "cluster_id": cluster_id or uuid_text(new_uuid()),
        "node_id": node_id,
        "directory_id": uuid_text(new_uuid()),
    }


def _checked_header(path: Path, values: list[Any]) -> dict[str, Any]:
    """The first line. It was on disk before the file got its name, so that a crash cannot have torn it."""
    header = values[0] if values else None
    if not isinstance(header, dict) or not isinstance(header.get("format"), int):
        raise JournalDamage(1, "is not the header of a metadata journal")
    if header["format"] > JOURNAL_FORMAT:
        raise StoreError(f"{path}: written by a newer Penstock (format {header['format']}); upgrade this one")
    well_formed = (
        isinstance(header.get("cluster_id"), str)
        and isinstance(header.get("node_id"), int)
        and isinstance(header.get("directory_id"), str)
    )
    if not well_formed:
        raise JournalDamage(1, "is not a complete header")
    return header


def _check_identity(
    directory: Path, header: dict[str, Any], identity: dict[str, str], node_id: int, cluster_id: str | None
) -> None:
    if header["node_id"] != node_id:
        raise StoreError(
            f"{directory} belongs to node {header['node_id']}, not to node {node_id}; "
            f"set node.id={header['node_id']}, or use another data directory"
        )
    if cluster_id is not None and header["cluster_id"] != cluster_id:
        raise StoreError(
            f"{directory} belongs to the cluster {header['cluster_id']}, not to {cluster_id}; "
            "use another data directory"
        )
    for key, field in (("cluster.id", "cluster_id"), ("node.id", "node_id")):
        if key in identity and identity[key] != str(header[field]):
            raise StoreError(
                f"{directory / META_PROPERTIES}: {key} is {identity[key]}, but {JOURNAL} says {header[field]}; "
                "restore both files from the same backup"
            )
