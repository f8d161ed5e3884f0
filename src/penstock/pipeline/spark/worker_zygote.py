"""One preloaded Python process that every Python process of a local Spark session is forked from.

Spark starts a Python interpreter for each kind of work (finding data sources, planning reads, writing, committing, the
streaming source, tasks): seven of them, one after the other, and each imports the same modules. Here those are
imported once, while the JVM is still starting. What Spark starts instead is worker_shim.py: it hands its arguments,
environment, directory and standard streams over a socket and waits; the zygote forks, and the child becomes what
`python ARGUMENTS` would have been.

Owns the serving end of that socket. It must never know what the children do.

Invariants:
- The shim lives as long as its child and ends with the same status, so Spark sees one process. When the shim is
  terminated, so is the child.
- Without a zygote that answers, the shim becomes the ordinary interpreter: slower, and otherwise the same.
- The zygote has one thread, and ends when the process that started it ends, however that ends.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import runpy
import select
import shutil
import signal
import socket
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from penstock.pipeline.spark.worker_daemon import preload

SOCKET_VARIABLE: Final = "PENSTOCK_ZYGOTE"
# Spark takes the daemon that it is configured with for tasks, and pyspark's own for everything else.
_STAND_INS: Final = {"pyspark.daemon": "penstock.pipeline.spark.worker_daemon"}
_STANDARD_STREAMS: Final = 3
_REQUEST_TIMEOUT_S: Final = 10
_CLEARING_S: Final = 10.0
_CLEARING_PAUSE_S: Final = 0.05
_REQUEST_BYTES_MAX: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Request:
    """What `python -m MODULE ARGUMENTS` was to be started with."""

    module: str
    arguments: list[str]
    environment: dict[str, str]
    directory: str
    streams: list[int]


class Zygote:
    """Serves until its standard input ends."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._import_path = list(sys.path)
        self._shims: dict[int, socket.socket] = {}  # by the process id of the child
        self._children: dict[int, int] = {}  # by the descriptor of the shim's connection
        self._poll = select.poll()
        self._signal_in, self._signal_out = os.pipe()
        for descriptor in (self._signal_in, self._signal_out):
            os.set_blocking(descriptor, False)

    def serve(self) -> None:
        signal.set_wakeup_fd(self._signal_out, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)  # only to be woken
        for descriptor in (0, self._listener.fileno(), self._signal_in):
            self._poll.register(descriptor, select.POLLIN)
        while True:
            for descriptor, _event in self._poll.poll():
                if descriptor == 0:
                    if not os.read(0, 1):
                        self._end_children()
                        return
                elif descriptor == self._listener.fileno():
                    self._accept()
                elif descriptor == self._signal_in:
                    os.read(self._signal_in, 4096)
                    self._reap()
                elif descriptor in self._children:
                    # A shim says nothing after its request, so this is its end.
                    self._let_go(descriptor)

    def _accept(self) -> None:
        shim, _ = self._listener.accept()
        shim.settimeout(_REQUEST_TIMEOUT_S)
        try:
            request = _read_request(shim)
        except (OSError, ValueError, KeyError, TypeError):
            shim.close()
            return
        child = os.fork()
        if child == 0:
            self._become(request, shim)
        for stream in request.streams:
            os.close(stream)
        self._shims[child] = shim
        self._children[shim.fileno()] = child
        self._poll.register(shim, select.POLLIN)
        with contextlib.suppress(OSError):
            shim.sendall(b"+")

    def _become(self, request: _Request, shim: socket.socket) -> NoReturn:
        """In the child: as if the interpreter had just been started for the request."""
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for descriptor in (self._signal_in, self._signal_out):
                os.close(descriptor)
            for connection in (self._listener, shim, *self._shims.values()):
                connection.close()
            for number, stream in enumerate(request.streams):
                os.dup2(stream, number)
                os.close(stream)
            status = _run(request, self._import_path)
        except BrokenPipeError:
            pass  # Spark hangs up when a query is stopped
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)

    def _reap(self) -> None:
        while self._shims:
            try:
                child, wait_status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if child == 0:
                return
            shim = self._shims.pop(child, None)
            if shim is not None:
                if shim.fileno() in self._children:
                    self._poll.unregister(shim)
                    del self._children[shim.fileno()]
                with contextlib.suppress(OSError):
                    shim.sendall(os.waitstatus_to_exitcode(wait_status).to_bytes(4, "big", signed=True))
                shim.close()

    def _let_go(self, descriptor: int) -> None:
        child = self._children.pop(descriptor)
        self._poll.unregister(descriptor)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGTERM)

    def _end_children(self) -> None:
        for child in self._shims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)


def _read_request(shim: socket.socket) -> _Request:
    head, streams, _flags, _address = socket.recv_fds(shim, 4, _STANDARD_STREAMS)
    try:
        length = int.from_bytes(head, "big")
        if len(streams) != _STANDARD_STREAMS or len(head) != 4 or not 0 < length <= _REQUEST_BYTES_MAX:
            raise ValueError("not a request of a shim")
        body = bytearray()
        while len(body) < length:
            part = shim.recv(length - len(body))
            if not part:
                raise ValueError("a request that ends early")
            body += part
        asked = json.loads(body)
        _option, module, *arguments = asked["arguments"]
        module = _STAND_INS.get(module, module)
        return _Request(module, arguments, asked["environment"], asked["directory"], list(streams))
    except BaseException:
        for stream in streams:
            os.close(stream)
        raise


def _run(request: _Request, import_path: list[str]) -> int:
    """Runs the module as `__main__`; the exit status, as the interpreter would give it."""
    os.environ.clear()
    os.environ.update(request.environment)
    os.environ.pop(SOCKET_VARIABLE, None)
    time.tzset()
    os.chdir(request.directory)
    ahead = [request.directory, *filter(None, request.environment.get("PYTHONPATH", "").split(os.pathsep))]
    sys.path[:] = list(dict.fromkeys([*ahead, *import_path]))
    importlib.invalidate_caches()
    sys.argv[:] = [request.module, *request.arguments]
    # It runs again under the name `__main__`, as it does under `python -m`; a copy under its own name would only warn.
    sys.modules.pop(request.module, None)
    try:
        runpy.run_module(request.module, run_name="__main__", alter_sys=True)
    except SystemExit as exit_request:
        if exit_request.code is None:
            return 0
        if isinstance(exit_request.code, int):
            return exit_request.code & 0xFF
        print(exit_request.code, file=sys.stderr)
        return 1
    return 0


def main() -> None:
    """`python -m penstock.pipeline.spark.worker_zygote SOCKET PURPOSE...`: the socket is there at once, and requests
    wait."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(sys.argv[1])
    listener.listen(64)
    preload(sys.argv[2:])
    Zygote(listener).serve()
    _clear(Path(sys.argv[1]).parent)


def _clear(directory: Path) -> None:
    """A driver that was killed leaves the socket, the shim and the files of its JVM, which is ending at this moment."""
    deadline = time.monotonic() + _CLEARING_S
    while directory.exists() and time.monotonic() < deadline:
        shutil.rmtree(directory, ignore_errors=True)
        time.sleep(_CLEARING_PAUSE_S)


if __name__ == "__main__":
    main()
