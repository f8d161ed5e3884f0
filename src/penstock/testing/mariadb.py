"""A MariaDB server for a test or a measurement: a free loopback port, a data directory of its own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from penstock.testing.database_server import DatabaseMissingError, DatabaseServer, running

_GREETING_HEADER: Final = 4  # length and sequence number; a protocol version or 0xff for an error follows
# Run at every start, before the server accepts connections.
_ACCOUNTS: Final = """
CREATE DATABASE IF NOT EXISTS penstock;
CREATE USER IF NOT EXISTS penstock@'127.0.0.1';
GRANT ALL ON *.* TO penstock@'127.0.0.1' WITH GRANT OPTION;
"""


class MariaDbServer(DatabaseServer):
    name = "MariaDB"
    stop_signal = signal.SIGTERM

    def __init__(self, directory: Path) -> None:
        self._server, install = find_mariadb()
        super().__init__(directory)
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

    @property
    def url(self) -> str:
        return f"mysql://penstock@127.0.0.1:{self.port}/penstock"

    def _command(self) -> list[str]:
        return [
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
        ]

    def _is_ready(self) -> bool:
        """A server that is ready speaks first; one that still starts does not listen."""
        try:
            if (self._directory / "server.pid").read_text(encoding="utf-8").strip() != str(self.pid):
                return False
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                greeting = connection.recv(_GREETING_HEADER + 1)
                return len(greeting) > _GREETING_HEADER and greeting[_GREETING_HEADER] != 0xFF
        except OSError:
            return False


def running_mariadb(directory: Path) -> AbstractContextManager[MariaDbServer]:
    """`directory` is empty. Raises DatabaseMissingError."""
    return running(MariaDbServer(directory))


def find_mariadb() -> tuple[str, str]:
    """The programs of the server and of its installation. Raises DatabaseMissingError."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
    server = shutil.which("mariadbd", path=path)
    install = shutil.which("mariadb-install-db", path=path)
    if server is None or install is None:
        raise DatabaseMissingError("MariaDB is not installed: apt install mariadb-server")
    return server, install
