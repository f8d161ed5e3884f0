"""A Penstock broker as a child process: starts it, waits until it is ready, stops it.

Owns the child's command line, the wait for its ready line, and its error output. It must never know what the broker is
used for, and it does not use the Kafka protocol.

Invariants: `start` returns a broker that accepts connections, or raises and leaves no process behind; every wait is
bounded; a child never outlives its `lifetime`, even when this process is killed.
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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from penstock.core.addresses import host_port_text
from penstock.core.properties import format_properties

READY_TIMEOUT_S: Final = 30.0
STOP_TIMEOUT_S: Final = 30.0
_STDERR_SHOWN_BYTES: Final = 8192
_READY_LINE_BYTES_MAX: Final = 4096
PROGRAM: Final = ("penstock.cli.main",)
_SECRET_SUFFIXES: Final = ("password", ".key", "sasl.jaas.config")


class BrokerProcessError(RuntimeError):
    """The child failed to start or to stop; the message ends with its error output."""

    def __init__(self, what: str, *, printed: str, exit_code: int | None = None) -> None:
        lines = printed.splitlines()
        said = "; it printed on stderr:\n  " + "\n  ".join(lines) if lines else " and printed nothing on stderr"
        super().__init__(what + said)
        self.printed = printed
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class WithParent:
    """The child stops when its stdin, a pipe from this process, closes: it ends with this process."""


@dataclass(frozen=True, slots=True)
class WhileUsed:
    """The child stops when no process holds a lock on this file: several processes can share it."""

    lock_file: Path


Lifetime = WithParent | WhileUsed


@dataclass(frozen=True, slots=True)
class ReadyLine:
    """What a broker that accepts connections prints: its address, and that of its metrics if it serves any."""

    host: str
    port: int
    metrics: str | None


class BrokerProcess:
    """A running child. Create it with `start`."""

    def __init__(self, process: subprocess.Popen[bytes], stderr: IO[bytes], ready: ReadyLine) -> None:
        self._process = process
        self._stderr = stderr
        self.host = ready.host
        self.port = ready.port
        self.metrics = ready.metrics

    @classmethod
    def start(
        cls,
        data_dir: Path,
        *,
        listen: str = "127.0.0.1:0",
        settings: Mapping[str, str] | None = None,
        lifetime: Lifetime,
        timeout_s: float = READY_TIMEOUT_S,
        metrics: str | None = None,
        program: Sequence[str] = PROGRAM,
    ) -> BrokerProcess:
        """`metrics` is an address for its metrics; without one it serves none. `program` is a module that runs the
        command line, with its own arguments before those of `penstock broker`."""
        # A file: a pipe that is not read would eventually block the child.
        stderr = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the child does
        with _secrets_file(settings or {}) as secrets_file:
            process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own module
                [
                    *_command(program, data_dir, listen, settings or {}, secrets_file, lifetime),
                    *([] if metrics is None else ["--metrics", metrics]),
                ],
                stdin=subprocess.PIPE if isinstance(lifetime, WithParent) else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                # Ctrl-C at the terminal must not reach the child: this process stops it when it is done.
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
                else f"the broker exited during its start with exit code {process.returncode}"
            )
            raise BrokerProcessError(what, printed=printed, exit_code=None if timed_out else process.returncode)
        return cls(process, stderr, ready)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def bootstrap_servers(self) -> str:
        return host_port_text(self.host, self.port)

    def is_running(self) -> bool:
        return self._process.poll() is None

    def stderr_text(self) -> str:
        """The end of the child's stderr so far."""
        return _tail(self._stderr)

    def terminate(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Stops the child with SIGTERM; raises if it had already exited, fails to stop cleanly, or must be killed."""
        if not self.is_running():
            code, printed = self._process.returncode, self.stderr_text()
            _close(self._process, self._stderr)
            what = f"the broker had exited before it was stopped, with exit code {code}"
            raise BrokerProcessError(what, printed=printed, exit_code=code)
        self._process.send_signal(signal.SIGTERM)
        self.await_clean_exit(timeout_s)

    def await_clean_exit(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Kills the child after `timeout_s` and raises."""
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            printed = self.stderr_text()
            self.kill()
            what = f"the broker did not stop within {timeout_s:g} s and was killed"
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
        """Leaves the child running, as `WhileUsed` allows."""
        _close(self._process, self._stderr)
        # Without this, Popen warns about a process that is still running.
        self._process.returncode = 0


@contextlib.contextmanager
def _secrets_file(settings: Mapping[str, str]) -> Iterator[str | None]:
    """A file for the settings that the broker refuses on a command line, which everybody can read."""
    secrets = {name: value for name, value in settings.items() if name.endswith(_SECRET_SUFFIXES)}
    if not secrets:
        yield None
        return
    with tempfile.NamedTemporaryFile("w", prefix="penstock-", suffix=".properties") as file:  # for its owner only
        file.write(format_properties(secrets))
        file.flush()
        yield file.name


def _command(
    program: Sequence[str],
    data_dir: Path,
    listen: str,
    settings: Mapping[str, str],
    secrets_file: str | None,
    lifetime: Lifetime,
) -> Sequence[str]:
    # -P: a user's module must not shadow one of the standard library.
    command = [sys.executable, "-P", "-m", *program, "broker", "--json"]
    command += ["--data-dir", str(data_dir)]
    if "listeners" not in settings:  # which --listen would override
        command += ["--listen", listen]
    if secrets_file is not None:
        command += ["--config", secrets_file]
    for name, value in settings.items():
        if not name.endswith(_SECRET_SUFFIXES):
            command += ["--set", f"{name}={value}"]
    match lifetime:
        case WithParent():
            command.append("--exit-with-stdin")
        case WhileUsed(lock_file):
            command += ["--exit-when-unused", str(lock_file)]
    return command


def _environment() -> dict[str, str]:
    """This process's environment without broker settings: a user's PENSTOCK_LOG_DIRS must not apply to the child."""
    kept = {"PENSTOCK_LOG_LEVEL"}
    return {name: value for name, value in os.environ.items() if name in kept or not name.startswith("PENSTOCK_")}


def _await_ready(process: subprocess.Popen[bytes], deadline: float) -> ReadyLine | None:
    """None if the child exited or printed none in time."""
    assert process.stdout is not None
    descriptor = process.stdout.fileno()
    # Not select(): it does not support the high descriptors of a process with many open files.
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
        return ReadyLine(str(ready["host"]), int(ready["port"]), ready.get("metrics"))
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
    """Reads without moving the file position, which the child shares."""
    if stderr.closed:
        return ""
    size = os.fstat(stderr.fileno()).st_size
    start = max(0, size - _STDERR_SHOWN_BYTES)
    return os.pread(stderr.fileno(), size - start, start).decode(errors="replace").strip()
