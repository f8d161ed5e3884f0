"""A PostgreSQL server of the test's own: a free loopback port, a temporary directory, stopped by whoever started it."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import optional_part_missing

START_S_MAX = 30


@contextmanager
def postgres_server(directory: Path) -> Iterator[str]:
    """The connection string of a running server; `directory` is empty."""
    programs = _programs()
    as_user = _unprivileged(directory)
    data = directory / "data"
    subprocess.run(
        [programs / "initdb", "-D", data, "-A", "trust", "-U", "penstock", "--no-sync"],
        check=True,
        capture_output=True,
        user=as_user,
        cwd=directory,
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with (directory / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [programs / "postgres", "-D", data, "-h", "127.0.0.1", "-p", str(port), "-k", ""],
            stdout=log,
            stderr=log,
            user=as_user,
            cwd=directory,
        )
    try:
        _await_port(port, process)
        yield f"host=127.0.0.1 port={port} user=penstock dbname=postgres"
    finally:
        process.terminate()
        process.wait(START_S_MAX)


def _programs() -> Path:
    found = [path.parent for path in sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))]
    on_path = shutil.which("initdb")
    if on_path is not None:
        found.append(Path(on_path).parent)
    if not found:
        optional_part_missing("PostgreSQL is not installed: apt install postgresql")
    return found[-1]


def _unprivileged(directory: Path) -> int | None:
    """PostgreSQL refuses to run as root; then somebody else has to, who gets the directory."""
    if os.geteuid() != 0:
        return None
    user = pwd.getpwnam("nobody")
    os.chown(directory, user.pw_uid, user.pw_gid)
    for parent in directory.parents:
        if parent.stat().st_uid == 0 and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)
    return user.pw_uid


def _await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S_MAX
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"PostgreSQL did not start (exit code {process.returncode})")
