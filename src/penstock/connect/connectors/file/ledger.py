"""The ledger of a file: how many of its bytes count, which offsets they stand for, and which run may append.

It is a file `.NAME.ledger` beside the file, in JSON, replaced by renaming. `hold` locks the file itself while a run
checks that it is still the current one and appends, so that a run that was replaced can append nothing more.

Owns the ledger's format and its atomicity. It must not know records.

Invariants:
- Bytes beyond the ledger's length do not count: the next run cuts them off.
- Appending and changing the ledger happen under the lock of the file, and only by the ledger's run.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from penstock.connect.connector import ConnectError
from penstock.core.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class Ledger:
    run: str
    length: int
    inode: int
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)

    def to_json(self) -> str:
        topics: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in sorted(self.offsets.items()):
            topics.setdefault(topic, {})[str(partition)] = offset
        return json.dumps({"run": self.run, "length": self.length, "inode": self.inode, "offsets": topics})

    @classmethod
    def from_json(cls, text: str) -> Ledger:
        content = json.loads(text)
        offsets = {
            TopicPartition(topic, int(partition)): offset
            for topic, partitions in content["offsets"].items()
            for partition, offset in partitions.items()
        }
        return cls(content["run"], content["length"], content["inode"], offsets)


class FileLedger:
    """Of one file. Its methods open what they need, so that it may be pickled."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._path = file.with_name(f".{file.name}.ledger")

    def read(self) -> Ledger | None:
        try:
            return Ledger.from_json(self._path.read_text())
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as mistake:
            raise ConnectError(
                f"{self._path}: this is not a ledger ({mistake}); restore it, or remove it to begin at the end of the"
                " file"
            ) from mistake

    def begin(self, run: str) -> Ledger:
        """The run takes over: earlier ones can append nothing more, and what they did not commit is cut off."""
        with _locked(self._file) as data:
            found = os.fstat(data.fileno())
            known = self.read()
            if known is None:
                ledger = Ledger(run, found.st_size, found.st_ino)
            elif known.inode != found.st_ino and found.st_size > 0:
                raise ConnectError(
                    f"{self._file}: this is not the file that the ledger {self._path} describes, so it is unknown which"
                    " of its lines count; restore the file, or move it away"
                )
            else:
                length = min(known.length, found.st_size) if known.inode == found.st_ino else 0
                data.truncate(length)
                os.fsync(data.fileno())
                ledger = replace(known, run=run, length=length, inode=found.st_ino)
            self._write(ledger)
            return ledger

    @contextlib.contextmanager
    def hold(self, run: str) -> Iterator[BinaryIO]:
        """The file, to append to. Raises ConnectError if another run has taken over."""
        with _locked(self._file) as data:
            self._require(run)
            yield data

    def commit(self, run: str, offsets: Mapping[TopicPartition, int]) -> None:
        """All bytes that the file has now count, and stand for the records before these offsets."""
        with _locked(self._file) as data:
            known = self._require(run)
            os.fsync(data.fileno())
            found = os.fstat(data.fileno())
            self._write(Ledger(run, found.st_size, found.st_ino, {**known.offsets, **offsets}))

    def set_offsets(self, changes: Mapping[TopicPartition, int | None]) -> None:
        """By a person; None removes an offset. The run is a new one: one that still ends cannot commit over it."""
        with _locked(self._file) as data:
            found = os.fstat(data.fileno())
            known = self.read() or Ledger("", found.st_size, found.st_ino)
            offsets = {each: offset for each, offset in {**known.offsets, **changes}.items() if offset is not None}
            self._write(replace(known, run=uuid.uuid4().hex, offsets=offsets))

    def _require(self, run: str) -> Ledger:
        known = self.read()
        if known is None or known.run != run:
            raise ConnectError(f"{self._file}: another run of the connector has taken over")
        return known

    def _write(self, ledger: Ledger) -> None:
        waiting = self._path.with_name(self._path.name + ".new")
        with waiting.open("w") as output:
            output.write(ledger.to_json())
            output.flush()
            os.fsync(output.fileno())
        waiting.rename(self._path)
        directory = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[BinaryIO]:
    """The file, open for appending, created if it is missing."""
    with file.open("ab") as data:
        fcntl.flock(data, fcntl.LOCK_EX)
        yield data
