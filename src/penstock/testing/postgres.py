"""A PostgreSQL server for a test or a measurement: a free loopback port, PostgreSQL's default settings."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Final

from penstock.testing.database_server import START_S_MAX, DatabaseMissingError, DatabaseServer, running

_INSTALLED: Final = Path("/usr/lib/postgresql")  # Debian's directory, by version; not on the PATH


class PostgresServer(DatabaseServer):
    name = "PostgreSQL"
    stop_signal = signal.SIGINT  # does not wait for clients

    def __init__(self, directory: Path) -> None:
        self._programs = find_postgres()
        super().__init__(directory)
        subprocess.run(
            [self._programs / "initdb", "-D", directory / "data", "-A", "trust", "-U", "penstock", "--no-sync"],
            check=True,
            capture_output=True,
            user=self._run_as(),
            cwd=directory,
        )

    @property
    def address(self) -> str:
        """As libpq's keywords."""
        return f"host=127.0.0.1 port={self.port} user=penstock dbname=postgres"

    @property
    def url(self) -> str:
        return f"postgresql://penstock@127.0.0.1:{self.port}/postgres"

    def _command(self) -> list[str]:
        data = str(self._directory / "data")
        return [str(self._programs / "postgres"), "-D", data, "-h", "127.0.0.1", "-p", str(self.port), "-k", ""]

    def _run_as(self) -> int | None:
        # At every start, because a concurrent test run resets the permissions of the shared parent directory.
        return _unprivileged(self._directory)

    def kill(self) -> None:
        """Sends SIGKILL to all of its processes: backends would otherwise finish their work."""
        import psutil

        assert self._process is not None
        everybody = [psutil.Process(self._process.pid), *psutil.Process(self._process.pid).children(recursive=True)]
        for process in everybody:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait(START_S_MAX)

    def _is_ready(self) -> bool:
        """By the file in which the server keeps its process id and, in the eighth line, its status, as pg_ctl does."""
        try:
            lines = (self._directory / "data" / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0] == str(self.pid) and lines[7].strip() == "ready"


def running_postgres(directory: Path) -> AbstractContextManager[PostgresServer]:
    """`directory` is empty. Raises DatabaseMissingError."""
    return running(PostgresServer(directory))


def find_postgres() -> Path:
    """The directory of PostgreSQL's programs. Raises DatabaseMissingError."""
    found = [path.parent for path in sorted(_INSTALLED.glob("*/bin/initdb"))]
    on_path = shutil.which("initdb")
    if on_path is not None:
        found.append(Path(on_path).parent)
    if not found:
        raise DatabaseMissingError("PostgreSQL is not installed: apt install postgresql")
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
