"""One long-lived process that hosts many pipelines, so that a second one starts without a second Spark.

Owns the socket, the pipelines that run and who asked for each. How a pipeline runs is the `Host`'s matter: the engine
must never know Spark.

Invariants:
- One engine for a data directory, by a lock that the kernel lets go of when the process ends.
- A pipeline runs exactly as long as the one who asked for it stays connected, unless it ends by itself or is stopped.
- A client that does not read slows no pipeline: what it misses is progress, and only the newest is kept.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import struct
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.engine.protocol import LOCK_FILE, SOCKET_FILE, SOCKET_PATH_BYTES_MAX, Lines, Message

STOP_TIMEOUT_S: Final = 60.0
_LAST_LINE_TIMEOUT_S: Final = 2.0
_EVENTS_KEPT: Final = 256


class EngineInUse(RuntimeError):
    """Another engine has the data directory."""


@dataclass(frozen=True, slots=True)
class Run:
    """What a host is given beside the pipeline itself."""

    name: str
    directory: Path  # where the command was given: relative paths mean this, not the engine's own directory
    report: Callable[[Message], None]  # progress for the one who asked; returns at once
    stop: threading.Event  # when set: finish the batch and return


Host = Callable[[dict[str, Any], dict[str, Any], Run], int]
"""`host(spec, options, run) -> exit code`: runs the pipeline to its end in the calling thread. An exception's text is
shown to the user, and is the failure's only line."""


@dataclass(slots=True)
class _Hosted:
    run: Run
    client_pid: int
    since: float
    ended: threading.Event = field(default_factory=threading.Event)


class Engine:
    """`serve` until `close`; both may be called from any thread."""

    def __init__(self, data_dir: Path, host: Host) -> None:
        self._host = host
        self._data_dir = data_dir
        self._hosted: dict[str, _Hosted] = {}
        self._connections: set[Lines] = set()
        self._outboxes: set[_Outbox] = set()
        self._changing = threading.Lock()
        self._closed = threading.Event()
        data_dir.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(data_dir / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise EngineInUse(f"another engine runs pipelines for {data_dir}") from None
        self._short_directory: Path | None = None
        self._listener = self._listen()

    def _listen(self) -> socket.socket:
        path = self._data_dir.absolute() / SOCKET_FILE
        # One that a killed engine left behind: no other engine can have it, because we hold the lock.
        path.unlink(missing_ok=True)
        address = path
        if len(os.fsencode(path)) > SOCKET_PATH_BYTES_MAX:
            self._short_directory = Path(tempfile.mkdtemp(prefix="penstock-engine-"))
            address = self._short_directory / SOCKET_FILE
            path.symlink_to(address)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(address))
        # Before `listen` no client can connect, so there is no moment at which another user could.
        address.chmod(0o600)
        listener.listen(64)
        return listener

    def serve(self) -> None:
        """Accepts commands until `close`."""
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if self._closed.is_set():
                    return
                raise
            threading.Thread(target=self._answer, args=(connection,), daemon=True, name="engine connection").start()

    def close(self, timeout_s: float = STOP_TIMEOUT_S) -> bool:
        """Stops every pipeline and waits for them. False: not all had ended in time."""
        if self._closed.is_set():
            return True
        self._closed.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes `serve`
        self._listener.close()
        with self._changing:
            hosted = list(self._hosted.values())
        for pipeline in hosted:
            pipeline.run.stop.set()
        deadline = time.monotonic() + timeout_s
        ended = [pipeline.ended.wait(max(0.0, deadline - time.monotonic())) for pipeline in hosted]
        with self._changing:
            connections, outboxes = list(self._connections), list(self._outboxes)
        # How it ended is still on its way to the command; one that does not read is not waited for for long.
        last_lines_by = time.monotonic() + _LAST_LINE_TIMEOUT_S
        for outbox in outboxes:
            outbox.sent_all.wait(max(0.0, last_lines_by - time.monotonic()))
        for connection in connections:
            connection.close()
        (self._data_dir / SOCKET_FILE).unlink(missing_ok=True)
        if self._short_directory is not None:
            shutil.rmtree(self._short_directory, ignore_errors=True)
        os.close(self._lock)
        return all(ended)

    def _answer(self, connection: socket.socket) -> None:
        lines = Lines(connection)
        with self._changing:
            self._connections.add(lines)
        try:
            for request in lines:
                match request:
                    case {"do": "ping"}:
                        lines.send({"engine": {"pid": os.getpid()}})
                    case {"do": "list"}:
                        lines.send({"pipelines": self._list()})
                    case {"do": "stop", "name": str(name)}:
                        lines.send({"stopped": self._stop(name)})
                    case {"do": "run", "name": str(name), "spec": dict(spec), "options": dict(options)}:
                        directory = Path(str(request.get("directory", ".")))
                        self._run(lines, _peer_pid(connection), name, directory, spec, options)
                        return
                    case _:
                        lines.send({"error": f"not a request: {str(request)[:200]}"})
        except (OSError, ValueError):
            pass  # the peer is gone, or is not one of ours
        finally:
            with self._changing:
                self._connections.discard(lines)
            lines.close()

    def _list(self) -> list[dict[str, Any]]:
        with self._changing:
            return [
                {
                    "name": name,
                    "pid": pipeline.client_pid,
                    "seconds": round(time.monotonic() - pipeline.since, 3),
                    "stopping": pipeline.run.stop.is_set(),
                }
                for name, pipeline in self._hosted.items()
            ]

    def _stop(self, name: str) -> bool:
        with self._changing:
            pipeline = self._hosted.get(name)
        if pipeline is None:
            return False
        pipeline.run.stop.set()
        return pipeline.ended.wait(STOP_TIMEOUT_S)

    def _run(
        self, lines: Lines, pid: int, name: str, directory: Path, spec: dict[str, Any], options: dict[str, Any]
    ) -> None:
        outbox = _Outbox(lines)
        run = Run(name, directory, lambda event: outbox.offer({"event": dict(event)}), threading.Event())
        pipeline = _Hosted(run, pid, time.monotonic())
        with self._changing:
            taken = self._closed.is_set() or name in self._hosted
            if not taken:
                self._hosted[name] = pipeline
                self._outboxes.add(outbox)
        if taken:
            reason = "the engine is stopping" if self._closed.is_set() else f"pipeline '{name}' runs already"
            outbox.finish({"exit": int(ExitCode.FAILURE), "message": reason})
            outbox.sent_all.wait(_LAST_LINE_TIMEOUT_S)
            return
        threading.Thread(
            target=self._host_pipeline, args=(pipeline, spec, options, outbox), daemon=True, name=f"pipeline {name}"
        ).start()
        try:
            for request in lines:
                if request.get("do") == "stop":
                    run.stop.set()
        finally:
            # The end of the connection, whether the client left or `_host_pipeline` closed it behind its last line.
            run.stop.set()
            pipeline.ended.wait()
            with self._changing:
                self._outboxes.discard(outbox)

    def _host_pipeline(self, pipeline: _Hosted, spec: dict[str, Any], options: dict[str, Any], outbox: _Outbox) -> None:
        exit_code = int(ExitCode.FAILURE)
        message: str | None = None
        try:
            exit_code = self._host(spec, options, pipeline.run)
        except Exception as failure:  # the boundary between pipelines: one that fails must not take the others along
            message = str(failure) or type(failure).__name__
        finally:
            with self._changing:
                del self._hosted[pipeline.run.name]
            outbox.finish({"exit": int(exit_code), "message": message})
            pipeline.ended.set()


class _Outbox:
    """Sends from a thread of its own, and keeps only the newest events for a client that does not read."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._waiting: deque[Message] = deque(maxlen=_EVENTS_KEPT)
        self._last: Message | None = None
        self._changed = threading.Condition()
        self.sent_all = threading.Event()
        threading.Thread(target=self._send_all, daemon=True, name="engine events").start()

    def offer(self, message: Message) -> None:
        with self._changed:
            self._waiting.append(message)
            self._changed.notify()

    def finish(self, message: Message) -> None:
        with self._changed:
            self._last = message
            self._changed.notify()

    def _send_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._last is not None)
                message = self._waiting.popleft() if self._waiting else None
                last = self._last
            try:
                if message is not None:
                    self._lines.send(message)
                    continue
                assert last is not None
                self._lines.send(last)
            except OSError:
                pass  # the reader of the connection notices, too, and stops the pipeline
            self.sent_all.set()
            self._lines.close()
            return


def _peer_pid(connection: socket.socket) -> int:
    """Who asked, for `list`; 0 where the system does not say."""
    if not hasattr(socket, "SO_PEERCRED"):
        return 0
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[0])
