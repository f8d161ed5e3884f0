"""Writes statuses to the status table, in a thread of its own: whatever reports one never waits for a broker.

Owns the statuses that are not written yet: the latest one for each connector and task, so their number is bounded. It
must not know why a status changes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import Final

from penstock.connect.runtime.runner import State
from penstock.connect.storage.status_records import Status, StatusRecord, encode
from penstock.connect.storage.table import Table
from penstock.core.errors import ClientError
from penstock.protocol.error_codes import BrokerError

_log = logging.getLogger(__name__)

_RETRY_PAUSE_S: Final = 0.5
_PROGRESS_INTERVAL_S: Final = 5.0
_STOP_TIMEOUT_S: Final = 5.0
_Key = tuple[str, int | str | None]


class StatusWriter:
    """Progress of what runs (`details` of RUNNING) is written every few seconds, everything else at once."""

    def __init__(self, table: Table, *, progress_interval_s: float = _PROGRESS_INTERVAL_S) -> None:
        self._table = table
        self._progress_interval_s = progress_interval_s
        self._waiting: dict[_Key, StatusRecord] = {}
        self._in_flight: dict[_Key, StatusRecord] = {}
        self._written: dict[_Key, tuple[StatusRecord, float]] = {}
        self._changed = threading.Condition()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="status writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Waits until everything is written, but not for a broker that is away."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        self._thread.join(_STOP_TIMEOUT_S)

    def put(self, *records: StatusRecord) -> None:
        with self._changed:
            for record in records:
                if not self._is_repetition(record):
                    self._waiting[_key(record)] = record
            self._changed.notify_all()

    def is_settled(self, name: str) -> bool:
        """Whether all statuses of a connector are written."""
        with self._changed:
            return all(key[0] != name for key in (*self._waiting, *self._in_flight))

    def _is_repetition(self, record: StatusRecord) -> bool:
        key = _key(record)
        before = self._waiting.get(key) or self._in_flight.get(key)
        if before is None and key in self._written:
            before, written_at = self._written[key]
            if time.monotonic() - written_at > self._progress_interval_s:
                return False
        return _without_progress(record) == _without_progress(before)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_stopping)
                batch, self._waiting = self._waiting, {}
                self._in_flight = dict(batch)
            if not batch:
                return
            if not self._write(list(batch.values())):
                with self._changed:
                    self._waiting = {**self._in_flight, **self._waiting}  # what came later counts
                    self._in_flight = {}
                    if self._changed.wait_for(lambda: self._is_stopping, _RETRY_PAUSE_S):
                        return
                continue
            now = time.monotonic()
            with self._changed:
                self._in_flight = {}
                for key, record in batch.items():
                    # What is removed, here or by another worker, may come back in the same form.
                    if isinstance(record, Status) and record.state is not State.DESTROYED:
                        self._written[key] = (record, now)
                    else:
                        self._written.pop(key, None)
                self._changed.notify_all()

    def _write(self, records: Sequence[StatusRecord]) -> bool:
        try:
            self._table.write([encode(record) for record in records])
        except (BrokerError, ClientError) as error:
            _log.warning("statuses cannot be written, trying again: %s", error)
            return False
        return True

    def forget(self, name: str, *, also_waiting: bool) -> None:
        """The connector belongs to another worker, which writes its statuses from now on."""
        with self._changed:
            if also_waiting:
                self._waiting = {key: record for key, record in self._waiting.items() if key[0] != name}
                self._in_flight = {key: record for key, record in self._in_flight.items() if key[0] != name}
            self._written = {key: value for key, value in self._written.items() if key[0] != name}


def _key(record: StatusRecord) -> _Key:
    return (record.name, record.task) if isinstance(record, Status) else (record.name, record.topic)


def _without_progress(record: StatusRecord | None) -> object:
    if isinstance(record, Status) and record.state is State.RUNNING:
        return (record.name, record.task, record.state, record.worker_id, record.generation, record.version)
    return record
