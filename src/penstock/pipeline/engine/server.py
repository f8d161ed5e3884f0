"""The engine's socket: accepts commands and passes them to the herder.

Owns the socket, its connections and the words of refusals. What a request does is in `herder.py`; `protocol.py` lists
the requests.

Invariants:
- An attached run lasts exactly as long as the command that asked for it stays connected, unless it ends by itself.
- A client that does not read slows no pipeline: what it misses is progress, and only the newest is kept.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import struct
import tempfile
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any, Final

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.engine.desired_state import DesiredState
from penstock.pipeline.engine.herder import Herder, Refused, UnknownPipeline
from penstock.pipeline.engine.host import Host, Outcome, Work
from penstock.pipeline.engine.layout import SOCKET_FILE
from penstock.pipeline.engine.protocol import Lines, Message
from penstock.pipeline.run_settings import Event

_SOCKET_PATH_BYTES_MAX: Final = 100  # the kernel's limit is 104 on macOS and 108 on Linux
_LAST_LINE_TIMEOUT_S: Final = 2.0
_EVENTS_KEPT: Final = 256


class EngineServer:
    """`serve` until `close`; both may be called from any thread. The caller holds the engine's lock."""

    def __init__(self, data_dir: Path, herder: Herder, host: Host) -> None:
        self._data_dir = data_dir
        self._herder = herder
        self._host = host
        self._connections: set[Lines] = set()
        self._outboxes: set[_Outbox] = set()
        self._changing = threading.Lock()
        self._closed = threading.Event()
        self._short_directory: Path | None = None
        self._listener = self._listen()

    def _listen(self) -> socket.socket:
        path = self._data_dir.absolute() / SOCKET_FILE
        # One that a killed engine left behind: no other engine can have it, because we hold the lock.
        path.unlink(missing_ok=True)
        address = path
        if len(os.fsencode(path)) > _SOCKET_PATH_BYTES_MAX:
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

    def close(self) -> None:
        """Hangs up. Call it after `Herder.close`: how runs ended is still on its way to their commands."""
        if self._closed.is_set():
            return
        self._closed.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes `serve`
        self._listener.close()
        with self._changing:
            connections, outboxes = list(self._connections), list(self._outboxes)
        # A command that does not read is not waited for for long.
        last_lines_by = time.monotonic() + _LAST_LINE_TIMEOUT_S
        for outbox in outboxes:
            outbox.sent_all.wait(max(0.0, last_lines_by - time.monotonic()))
        for connection in connections:
            connection.close()
        (self._data_dir / SOCKET_FILE).unlink(missing_ok=True)
        if self._short_directory is not None:
            shutil.rmtree(self._short_directory, ignore_errors=True)

    def _answer(self, connection: socket.socket) -> None:
        lines = Lines(connection)
        with self._changing:
            self._connections.add(lines)
        try:
            for request in lines:
                if request.get("do") == "run":
                    self._run(lines, _peer_pid(connection), request)
                    return
                lines.send(self._answer_to(request))
        except (OSError, ValueError):
            pass  # the peer is gone, or is not one of ours
        finally:
            with self._changing:
                self._connections.discard(lines)
            lines.close()

    def _answer_to(self, request: Message) -> Message:
        try:
            match request:
                case {"do": "ping"}:
                    return {"engine": {"pid": os.getpid()}}
                case {"do": "list"}:
                    return {"pipelines": self._herder.statuses()}
                case {"do": "status", "name": str(name)}:
                    return {"pipeline": self._herder.status(name)}
                case {"do": "put", "desired": dict(desired)}:
                    return {"pipeline": self._herder.put(DesiredState.of_json(desired))}
                case {"do": "stop", "name": str(name)}:
                    return {"pipeline": self._herder.stop(name)}
                case {"do": "restart", "name": str(name)}:
                    return {"pipeline": self._herder.restart(name)}
                case {"do": "delete", "name": str(name)}:
                    return {"pipeline": self._herder.delete(name)}
                case {"do": "check", "work": dict(work)}:
                    return {"found": self._host.check(_work(work))}
                case _:
                    return _refusal(f"not a request: {str(request)[:200]}", ExitCode.FAILURE)
        except UnknownPipeline as unknown:
            return _refusal(f"no pipeline '{unknown.args[0]}' is known to the engine", ExitCode.NOT_FOUND)
        except Refused as refused:
            return _refusal(str(refused), refused.exit_code, refused.condition)
        except Exception as failure:  # the boundary between requests
            return _refusal(str(failure) or type(failure).__name__, ExitCode.FAILURE)

    def _run(self, lines: Lines, pid: int, request: Message) -> None:
        outbox = _Outbox(lines)
        with self._changing:
            self._outboxes.add(outbox)
        try:
            work = _work(request.get("work", {}))
            execution = self._herder.attach(work, outbox.offer_event, pid, str(request.get("guarantee", "")))
        except (Refused, ValueError) as refused:
            exit_code = refused.exit_code if isinstance(refused, Refused) else ExitCode.FAILURE
            condition = refused.condition if isinstance(refused, Refused) else None
            outbox.finish(Outcome(int(exit_code), str(refused), condition))
            outbox.sent_all.wait(_LAST_LINE_TIMEOUT_S)
            self._forget(outbox)
            return

        def tell_the_end() -> None:
            execution.ended.wait()
            outbox.finish(execution.outcome)

        threading.Thread(target=tell_the_end, daemon=True, name="engine outcome").start()
        try:
            for message in lines:
                if message.get("do") == "stop":
                    execution.stop.set()
        finally:
            # The end of the connection, whether the client left or the outbox closed it behind its last line.
            execution.stop.set()
            execution.ended.wait()
            self._forget(outbox)

    def _forget(self, outbox: _Outbox) -> None:
        with self._changing:
            self._outboxes.discard(outbox)


class _Outbox:
    """Sends from a thread of its own, and keeps only the newest events for a client that does not read."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._waiting: deque[Message] = deque(maxlen=_EVENTS_KEPT)
        self._last: Message | None = None
        self._changed = threading.Condition()
        self.sent_all = threading.Event()
        threading.Thread(target=self._send_all, daemon=True, name="engine events").start()

    def offer_event(self, event: Event) -> None:
        with self._changed:
            self._waiting.append({"event": dict(event)})
            self._changed.notify()

    def finish(self, outcome: Outcome) -> None:
        with self._changed:
            self._last = {"exit": outcome.exit_code, "message": outcome.message, "condition": outcome.condition}
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


def _work(value: Message) -> Work:
    """Raises ValueError for what is none."""
    match value:
        case {"name": str(name), "spec": dict(spec), "settings": dict(settings), "directory": str(directory)}:
            return Work(name, spec, settings, Path(directory))
    raise ValueError(f"not a pipeline: {str(value)[:200]}")


def _refusal(message: str, exit_code: ExitCode, condition: str | None = None) -> dict[str, Any]:
    return {"error": message, "exit": int(exit_code), "condition": condition}


def _peer_pid(connection: socket.socket) -> int:
    """Who asked; 0 where the system does not say."""
    if not hasattr(socket, "SO_PEERCRED"):
        return 0
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[0])
