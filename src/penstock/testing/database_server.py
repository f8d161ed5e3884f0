"""A database server for a test or a measurement: its process, on a free loopback port, with data of its own.

Owns what all databases share: start, readiness, stop and kill. `postgres.py` and `mariadb.py` know the programs. The
caller provides an empty directory and removes it.
"""

from __future__ import annotations

import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Final, TypeVar

from penstock.testing.apache_kafka import free_ports

START_S_MAX: Final = 60
_POLL_S: Final = 0.05


class DatabaseMissingError(Exception):
    """The database is not installed; the message says how to install it."""


class DatabaseServer(ABC):
    """A killed server can be started again with its data."""

    name: ClassVar[str]
    stop_signal: ClassVar[signal.Signals]

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._has_run = False
        (self.port,) = free_ports(1)

    @property
    @abstractmethod
    def url(self) -> str: ...

    @abstractmethod
    def _command(self) -> list[str]: ...

    @abstractmethod
    def _is_ready(self) -> bool:
        """Whether this very server accepts connections, and not one of another test that took the port before."""

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        deadline = time.monotonic() + START_S_MAX
        while time.monotonic() < deadline:
            if self._process is None:
                self._process = self._spawn()
            elif self._process.poll() is not None:
                # After a kill, PostgreSQL exits immediately while a child of the killed server holds the shared memory.
                # A server that has never run may have found its port taken.
                if not self._has_run:
                    (self.port,) = free_ports(1)
                self._process = self._spawn()
            if self._is_ready():
                self._has_run = True
                return
            time.sleep(_POLL_S)
        self.kill()
        raise RuntimeError(f"{self.name} did not start; see {self._directory / 'server.log'}")

    def _run_as(self) -> int | None:
        """The id of the user whose process the server is; None for this process's own."""
        return None

    def _spawn(self) -> subprocess.Popen[bytes]:
        with (self._directory / "server.log").open("ab") as log:
            return subprocess.Popen(self._command(), stdout=log, stderr=log, user=self._run_as(), cwd=self._directory)

    def await_death(self, timeout_s: float) -> None:
        """Waits until another process has killed the server."""
        assert self._process is not None
        self._process.wait(timeout_s)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(self.stop_signal)
            self._process.wait(START_S_MAX)

    def kill(self) -> None:
        """Sends SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(START_S_MAX)


Server = TypeVar("Server", bound=DatabaseServer)


@contextmanager
def running(server: Server) -> Iterator[Server]:
    server.start()
    try:
        yield server
    finally:
        server.stop()
