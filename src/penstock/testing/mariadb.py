"""A MariaDB server for the length of a test or a measurement: a free loopback port, a data directory of its own.

Owns the server's process. The caller gives an empty directory and removes it.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

START_S_MAX: Final = 60
_GREETING_HEADER: Final = 4  # length and sequence number; a protocol version or 0xff for an error follows
# Run at every start, before the server accepts connections.
_ACCOUNTS: Final = """
CREATE DATABASE IF NOT EXISTS penstock;
CREATE USER IF NOT EXISTS penstock@'127.0.0.1';
GRANT ALL ON *.* TO penstock@'127.0.0.1' WITH GRANT OPTION;
"""


class MariaDbMissingError(Exception):
    """MariaDB is not installed; the message says how to install it."""


class MariaDbServer:
    """`directory` is empty. A server that was killed is started again with the same data."""

    def __init__(self, directory: Path) -> None:
        self._server, install = find_mariadb()
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        # The server refuses to run as root unless it is told to.
        self._as_user = ["--user=root"] if os.geteuid() == 0 else []
        (directory / "accounts.sql").write_text(_ACCOUNTS)
        subprocess.run(
            [
                install,
                "--no-defaults",
                f"--datadir={directory / 'data'}",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                *self._as_user,
            ],
            check=True,
            capture_output=True,
            cwd=directory,
        )
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]

    @property
    def url(self) -> str:
        return f"mysql://penstock@127.0.0.1:{self.port}/penstock"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        deadline = time.monotonic() + START_S_MAX
        self._process = self._started()
        while time.monotonic() < deadline and self._process.poll() is None:
            if self._greets():
                return
            time.sleep(0.05)
        self.kill()
        raise RuntimeError(f"MariaDB did not start; see {self._directory / 'server.log'}")

    def _started(self) -> subprocess.Popen[bytes]:
        with (self._directory / "server.log").open("ab") as log:
            return subprocess.Popen(
                [
                    self._server,
                    "--no-defaults",
                    f"--datadir={self._directory / 'data'}",
                    f"--port={self.port}",
                    "--bind-address=127.0.0.1",
                    # A path of a socket may have 107 characters, and a directory of a test has more.
                    "--socket=socket",
                    f"--pid-file={self._directory / 'server.pid'}",
                    f"--init-file={self._directory / 'accounts.sql'}",
                    "--innodb-buffer-pool-size=64M",
                    "--skip-name-resolve",
                    *self._as_user,
                ],
                stdout=log,
                stderr=log,
                cwd=self._directory,
            )

    def await_death(self, timeout_s: float) -> None:
        """Of a server that another process has killed."""
        assert self._process is not None
        self._process.wait(timeout_s)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(START_S_MAX)

    def kill(self) -> None:
        """With -9."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(START_S_MAX)

    def _greets(self) -> bool:
        """A server that is ready speaks first; one that still starts does not listen."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                greeting = connection.recv(_GREETING_HEADER + 1)
                return len(greeting) > _GREETING_HEADER and greeting[_GREETING_HEADER] != 0xFF
        except OSError:
            return False


@contextmanager
def running_mariadb(directory: Path) -> Iterator[MariaDbServer]:
    """Raises MariaDbMissingError."""
    server = MariaDbServer(directory)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def find_mariadb() -> tuple[str, str]:
    """The programs of the server and of its installation. Raises MariaDbMissingError."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
    server = shutil.which("mariadbd", path=path)
    install = shutil.which("mariadb-install-db", path=path)
    if server is None or install is None:
        raise MariaDbMissingError("MariaDB is not installed: apt install mariadb-server")
    return server, install
