"""Finds the broker: the one that was named, or the embedded broker of `./.penstock/`, which it starts on demand.

Owns the discovery file that a running broker writes to its data directory, and the lifetime of a broker that it
started. It must never know commands or options, and it does not use the Kafka protocol.

Several commands may share one embedded broker (`penstock consume a -e | penstock produce b`). Each holds a shared lock
on `users.lock` while it runs. The broker waits for the exclusive lock, which the kernel grants when the last command
has exited or crashed, and then stops.

Invariant: a discovery file whose process is dead or whose port does not accept connections is ignored.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from penstock.client.local_broker.process import BrokerProcess, BrokerProcessError, WhileUsed
from penstock.core.addresses import DEFAULT_DATA_DIR, host_port_text, parse_bootstrap_servers
from penstock.core.errors import BrokerUnreachable
from penstock.core.exit_codes import ExitCode

DISCOVERY_FILE: Final = "broker.json"
USERS_LOCK_FILE: Final = "users.lock"

_PROBE_TIMEOUT_S: Final = 3.0
_SHARED_START_TIMEOUT_S: Final = 10.0
_SHARED_START_RETRY_S: Final = 0.1


def require_listener(servers: Sequence[tuple[str, int]]) -> None:
    """Raises BrokerUnreachable unless one of the servers accepts a connection.

    librdkafka would retry until its timeouts expire; a mistyped port is reported at once.
    """
    reasons = []
    for host, port in servers:
        try:
            with socket.create_connection((host, port), timeout=_PROBE_TIMEOUT_S):
                return
        except OSError as failure:
            reasons.append(f"{host}:{port} ({(failure.strerror or str(failure)).lower()})")
    raise BrokerUnreachable(f"cannot reach a broker at {', '.join(reasons)}; is it running?")


def find_running_broker(data_dir: Path) -> str | None:
    """The address of the broker that runs on this data directory, or those of a cluster; None if there is none."""
    try:
        discovered = json.loads((data_dir / DISCOVERY_FILE).read_bytes())
        host, port, pid = str(discovered["host"]), int(discovered["port"]), int(discovered["pid"])
        # The brokers of `penstock up --brokers N`: any of them leads to the others.
        servers = str(discovered.get("bootstrap_servers") or host_port_text(host, port))
        addresses = parse_bootstrap_servers(servers)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not _is_alive(pid):
        return None
    for address in addresses:
        with contextlib.suppress(OSError):
            socket.create_connection(address, timeout=_PROBE_TIMEOUT_S).close()
            return servers
    return None


@contextlib.contextmanager
def embedded_broker(
    data_dir: Path = DEFAULT_DATA_DIR, *, on_start: Callable[[str], None] | None = None
) -> Iterator[str]:
    """The address of the broker of `data_dir`, which runs at least until the context exits.

    `on_start` is called with the address if the broker had to be started.
    """
    data_dir.mkdir(parents=True, exist_ok=True)
    users = os.open(data_dir / USERS_LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        # Waits for an unused broker that is stopping.
        fcntl.flock(users, fcntl.LOCK_SH)
        address = find_running_broker(data_dir)
        if address is not None:
            yield address
            return
        started = _start_or_join(data_dir)
        if isinstance(started, str):
            yield started
            return
        try:
            if on_start is not None:
                on_start(started.bootstrap_servers)
            yield started.bootstrap_servers
        finally:
            _leave(started, users)
    finally:
        os.close(users)


def _start_or_join(data_dir: Path) -> BrokerProcess | str:
    """A new broker process, or the address of the one that another command started at the same time."""
    deadline = time.monotonic() + _SHARED_START_TIMEOUT_S
    while True:
        try:
            return BrokerProcess.start(data_dir, lifetime=WhileUsed(data_dir / USERS_LOCK_FILE))
        except BrokerProcessError as failure:
            if failure.exit_code != ExitCode.DATA_DIR_IN_USE:
                raise
            address = find_running_broker(data_dir)
            if address is not None:
                return address
            # The broker that holds the directory is not ready yet, or is stopping.
            if time.monotonic() > deadline:
                raise
        time.sleep(_SHARED_START_RETRY_S)


def _leave(process: BrokerProcess, users: int) -> None:
    """Releases the broker. The last user waits until it has stopped; otherwise the other users keep it."""
    try:
        # A failure releases the shared lock too, which is intended in both cases.
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        process.abandon()
        return
    fcntl.flock(users, fcntl.LOCK_UN)
    process.await_clean_exit()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
