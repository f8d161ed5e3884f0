"""A PostgreSQL server for a test or a measurement: a free loopback port, PostgreSQL's default settings.

Owns the server's process. The caller provides the directory and removes it.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

START_S_MAX: Final = 30
_INSTALLED: Final = Path("/usr/lib/postgresql")  # Debian's directory, by version; not on the PATH


class PostgresMissingError(Exception):
    """PostgreSQL is not installed; the message says how to install it."""


class PostgresServer:
    """`directory` must be empty. A killed server can be started again with its data."""

    def __init__(self, directory: Path) -> None:
        self._programs = find_postgres()
        self._directory = directory
        self._as_user = _unprivileged(directory)
        self._process: subprocess.Popen[bytes] | None = None
        subprocess.run(
            [self._programs / "initdb", "-D", directory / "data", "-A", "trust", "-U", "penstock", "--no-sync"],
            check=True,
            capture_output=True,
            user=self._as_user,
            cwd=directory,
        )
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]

    @property
    def address(self) -> str:
        """As libpq's keywords."""
        return f"host=127.0.0.1 port={self.port} user=penstock dbname=postgres"

    @property
    def url(self) -> str:
        return f"postgresql://penstock@127.0.0.1:{self.port}/postgres"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        deadline = time.monotonic() + START_S_MAX
        while time.monotonic() < deadline:
            # After a kill it exits immediately while a child of the killed server still holds the shared memory.
            if self._process is None or self._process.poll() is not None:
                self._process = self._started()
            if self._lets_in():
                return
            time.sleep(0.05)
        self.kill()
        raise RuntimeError(f"PostgreSQL did not start; see {self._directory / 'server.log'}")

    def _started(self) -> subprocess.Popen[bytes]:
        # Again, because a concurrent test run resets the permissions of the shared parent directory.
        _unprivileged(self._directory)
        data = self._directory / "data"
        with (self._directory / "server.log").open("ab") as log:
            return subprocess.Popen(
                [self._programs / "postgres", "-D", data, "-h", "127.0.0.1", "-p", str(self.port), "-k", ""],
                stdout=log,
                stderr=log,
                user=self._as_user,
                cwd=self._directory,
            )

    def await_death(self, timeout_s: float) -> None:
        """Waits until another process has killed the server."""
        assert self._process is not None
        self._process.wait(timeout_s)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)  # does not wait for clients
            self._process.wait(START_S_MAX)

    def kill(self) -> None:
        """Sends SIGKILL to all of its processes: backends would otherwise finish their work."""
        import psutil

        assert self._process is not None
        everybody = [psutil.Process(self._process.pid), *psutil.Process(self._process.pid).children(recursive=True)]
        for process in everybody:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait(START_S_MAX)

    def _lets_in(self) -> bool:
        """Whether it accepts connections; during recovery it listens, but responds with an error."""
        wanted = b"user\0penstock\0database\0postgres\0\0"
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(struct.pack(">ii", 8 + len(wanted), 3 << 16) + wanted)
                return connection.recv(1) == b"R"
        except OSError:
            return False


@contextmanager
def running_postgres(directory: Path) -> Iterator[PostgresServer]:
    """Raises PostgresMissingError."""
    server = PostgresServer(directory)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def find_postgres() -> Path:
    """The directory of PostgreSQL's programs. Raises PostgresMissingError."""
    found = [path.parent for path in sorted(_INSTALLED.glob("*/bin/initdb"))]
    on_path = shutil.which("initdb")
    if on_path is not None:
        found.append(Path(on_path).parent)
    if not found:
        raise PostgresMissingError("PostgreSQL is not installed: apt install postgresql")
    return found[-1]


def _unprivileged(directory: Path) -> int | None:
    """PostgreSQL refuses to run as root; root gives the directory to an unprivileged user, whose id is returned."""
    if os.geteuid() != 0:
        return None
    user = pwd.getpwnam("nobody")
    os.chown(directory, user.pw_uid, user.pw_gid)
    for parent in directory.parents:
        if parent.stat().st_uid == 0 and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)
    return user.pw_uid
