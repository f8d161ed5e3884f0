"""What happened to each pipeline, on disk: its events as JSON lines, of bounded size, for `penstock logs`.

Owns the files and which events are worth a line. It must not know what the events mean to a person.

Invariants:
- A log takes at most `FILES_KEPT` times `FILE_BYTES_MAX`.
- A disk that is full, or a log that cannot be written, stops no pipeline.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from penstock.pipeline.run_settings import Event

FILE_BYTES_MAX: Final = 1024 * 1024
FILES_KEPT: Final = 4
_PROGRESS_EVERY_S: Final = 10.0
_FOLLOW_POLL_S: Final = 0.2
_NOT_LOGGED: Final = frozenset({"batch"})


def log_path(directory: Path, name: str) -> Path:
    return directory / f"{quote(name, safe='')}.jsonl"


class EventLog:
    """The log of one pipeline; any thread may append."""

    def __init__(
        self,
        path: Path,
        *,
        file_bytes_max: int = FILE_BYTES_MAX,
        files_kept: int = FILES_KEPT,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._file_bytes_max = file_bytes_max
        self._files_kept = files_kept
        self._clock = clock
        self._wall_clock = wall_clock
        self._progress_at = float("-inf")
        self._last_kind = ""
        self._writing = threading.Lock()

    def append(self, event: Event) -> None:
        with self._writing, contextlib.suppress(OSError):
            if self._is_worth_a_line(event):
                self._write(json.dumps({"at": round(self._wall_clock(), 3), **event}, default=str) + "\n")

    def _is_worth_a_line(self, event: Event) -> bool:
        """A pipeline of small batches reports twenty times a second, and each report holds the totals."""
        kind, before = str(event["event"]), self._last_kind
        if kind in _NOT_LOGGED or (kind == "idle" and before == "idle"):
            return False
        if kind == "progress":
            if self._clock() - self._progress_at < _PROGRESS_EVERY_S:
                return False
            self._progress_at = self._clock()
        self._last_kind = kind
        return True

    def _write(self, line: str) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        data = line.encode()
        with contextlib.suppress(FileNotFoundError):
            if self._path.stat().st_size + len(data) > self._file_bytes_max:
                self._rotate()
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, data)
        finally:
            os.close(descriptor)

    def _rotate(self) -> None:
        for number in range(self._files_kept - 1, 0, -1):
            older = _numbered(self._path, number - 1)
            with contextlib.suppress(FileNotFoundError):
                older.replace(_numbered(self._path, number))


class LogReader:
    """The events of a log: what there is, then what comes. It follows a log that rotates."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode = 0
        self._position = 0

    def history(self, last: int | None = None) -> list[dict[str, Any]]:
        """Oldest first; the `last` ones only. Empty if there is no log."""
        events = self._read_current()
        for number in range(1, FILES_KEPT):
            if last is not None and len(events) >= last:
                break
            events = [*_events(_content(_numbered(self._path, number))), *events]
        return events if last is None else events[max(0, len(events) - last) :]

    def follow(self, wait: Callable[[float], object] = time.sleep) -> Iterator[dict[str, Any]]:
        """Events behind those of `history`, for as long as the caller asks for the next one."""
        while True:
            yield from self._read_current()
            wait(_FOLLOW_POLL_S)

    def _read_current(self) -> list[dict[str, Any]]:
        """Whole lines that were not read before."""
        unread = b""
        try:
            with self._path.open("rb") as file:
                inode = os.fstat(file.fileno()).st_ino
                if inode != self._inode:
                    if self._inode:  # what came between the last look and the rotation
                        unread = _content(_numbered(self._path, 1))[self._position :]
                    self._inode, self._position = inode, 0
                file.seek(self._position)
                grown = file.read()
        except FileNotFoundError:
            return []
        whole = grown[: grown.rfind(b"\n") + 1]
        self._position += len(whole)
        return _events(unread + whole)


def _numbered(path: Path, number: int) -> Path:
    return path if number == 0 else path.with_name(f"{path.name}.{number}")


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _events(data: bytes) -> list[dict[str, Any]]:
    """A line that a crash or a full disk cut short is left out."""
    events = []
    for line in data.splitlines():
        with contextlib.suppress(ValueError):
            event = json.loads(line)
            if isinstance(event, dict) and "event" in event:
                events.append(event)
    return events
