"""A broker of ours as a child process: started, waited for until it answers, stopped.

Owns the command line of the child, the wait for its ready line, and what it printed when it failed. It must never know
why somebody wants a broker, and it speaks no Kafka.

Invariants: `start` returns a broker that accepts connections, or raises and leaves no process; every wait is bounded; a
child never outlives what its `lifetime` names, even when this process is killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from penstock.core.addresses import host_port_text

READY_TIMEOUT_S: Final = 30.0
STOP_TIMEOUT_S: Final = 30.0
_STDERR_SHOWN_BYTES: Final = 8192
_READY_LINE_BYTES_MAX: Final = 4096


class BrokerProcessError(RuntimeError):
    """The child did not start, or did not stop, as it should; the message ends with what it printed."""

    def __init__(self, what: str, *, printed: str, exit_code: int | None = None) -> None:
        lines = printed.splitlines()
        said = "; it printed on stderr:\n  " + "\n  ".join(lines) if lines else " and printed nothing on stderr"
        super().__init__(what + said)
        self.printed = printed
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class WithParent:
    """The child holds the other end of a pipe of ours and stops when it closes, so it ends when this process does."""


@dataclass(frozen=True, slots=True)
class WhileUsed:
    """The child stops when nobody holds a lock on this file any more, so several processes can share it."""

    lock_file: Path


Lifetime = WithParent | WhileUsed


class BrokerProcess:
    """A running child. Made by `start` alone."""

    def __init__(self, process: subprocess.Popen[bytes], stderr: IO[bytes], host: str, port: int) -> None:
        self._process = process
        self._stderr = stderr
        self.host = host
        self.port = port

    @classmethod
    def start(
        cls,
        data_dir: Path,
        *,
        listen: str = "127.0.0.1:0",
        settings: Mapping[str, str] | None = None,
        lifetime: Lifetime,
        timeout_s: float = READY_TIMEOUT_S,
    ) -> BrokerProcess:
        # A file, because a pipe that nobody empties would one day stop the child.
        stderr = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the child does
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own module
            _command(data_dir, listen, settings or {}, lifetime),
            stdin=subprocess.PIPE if isinstance(lifetime, WithParent) else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            # A ctrl-C at the terminal is for us; the child is told to stop when we are done with it.
            start_new_session=True,
            env=_environment(),
        )
        try:
            ready = _await_ready(process, time.monotonic() + timeout_s)
        except BaseException:
            _end(process)
            _close(process, stderr)
            raise
        if ready is None:
            timed_out = process.poll() is None
            _end(process)
            printed = _tail(stderr)
            _close(process, stderr)
            what = (
                f"the broker was not ready after {timeout_s:g} s"
                if timed_out
                else f"the broker ended at once with exit code {process.returncode}"
            )
            raise BrokerProcessError(what, printed=printed, exit_code=None if timed_out else process.returncode)
        host, port = ready
        return cls(process, stderr, host, port)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def bootstrap_servers(self) -> str:
        return host_port_text(self.host, self.port)

    def is_running(self) -> bool:
        return self._process.poll() is None

    def stderr_text(self) -> str:
        """The end of what the child has printed on stderr so far."""
        return _tail(self._stderr)

    def terminate(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """A clean stop, insisted upon: raises when the child had died before, fails, or must be killed."""
        if not self.is_running():
            code, printed = self._process.returncode, self.stderr_text()
            _close(self._process, self._stderr)
            what = f"the broker had died before it was stopped, with exit code {code}"
            raise BrokerProcessError(what, printed=printed, exit_code=code)
        self._process.send_signal(signal.SIGTERM)
        self.await_clean_exit(timeout_s)

    def await_clean_exit(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Past the time the child is killed, and that is an error."""
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            printed = self.stderr_text()
            self.kill()
            what = f"the broker did not stop within {timeout_s:g} s, was killed"
            raise BrokerProcessError(what, printed=printed) from None
        printed = self.stderr_text()
        _close(self._process, self._stderr)
        if code != 0:
            raise BrokerProcessError(f"the broker stopped with exit code {code}", printed=printed, exit_code=code)

    def kill(self) -> None:
        """SIGKILL: nothing is flushed or closed."""
        _end(self._process)
        _close(self._process, self._stderr)

    def abandon(self) -> None:
        """Lets the child go on without us, as `WhileUsed` allows."""
        _close(self._process, self._stderr)
        # Not our child to reap any more: without this, Popen warns about a process that is still running.
        self._process.returncode = 0


def _command(data_dir: Path, listen: str, settings: Mapping[str, str], lifetime: Lifetime) -> Sequence[str]:
    # -P: a module of the user's that is named like one of the standard library's must not be found first.
    command = [sys.executable, "-P", "-m", "penstock.cli.main", "broker", "--json"]
    command += ["--listen", listen, "--data-dir", str(data_dir)]
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    match lifetime:
        case WithParent():
            command.append("--exit-with-stdin")
        case WhileUsed(lock_file):
            command += ["--exit-when-unused", str(lock_file)]
    return command


def _environment() -> dict[str, str]:
    """Ours, less the broker settings in it: a PENSTOCK_LOG_DIRS of the user's must not give a test the user's data."""
    kept = {"PENSTOCK_LOG_LEVEL"}
    return {name: value for name, value in os.environ.items() if name in kept or not name.startswith("PENSTOCK_")}


def _await_ready(process: subprocess.Popen[bytes], deadline: float) -> tuple[str, int] | None:
    """Host and port of the ready line; None when the child ended, or said nothing in time."""
    assert process.stdout is not None
    descriptor = process.stdout.fileno()
    # Not select(): a process that has many files open has descriptors beyond its reach.
    readable = select.poll()
    readable.register(descriptor, select.POLLIN)
    received = b""
    while b"\n" not in received and len(received) < _READY_LINE_BYTES_MAX:
        remaining = deadline - time.monotonic()
        if remaining <= 0 or not readable.poll(remaining * 1000):
            return None
        piece = os.read(descriptor, _READY_LINE_BYTES_MAX)
        if not piece:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            return None
        received += piece
    try:
        ready = json.loads(received.partition(b"\n")[0])
        return str(ready["host"]), int(ready["port"])
    except (ValueError, KeyError, TypeError) as unexpected:
        what = f"the broker printed {received!r} instead of its ready line"
        raise BrokerProcessError(what, printed="") from unexpected


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()


def _close(process: subprocess.Popen[bytes], stderr: IO[bytes]) -> None:
    for stream in (process.stdin, process.stdout, stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def _tail(stderr: IO[bytes]) -> str:
    """Reads without moving the file's position: the child writes at the very same one."""
    if stderr.closed:
        return ""
    size = os.fstat(stderr.fileno()).st_size
    start = max(0, size - _STDERR_SHOWN_BYTES)
    return os.pread(stderr.fileno(), size - start, start).decode(errors="replace").strip()
