"""Pipelines that call functions of their author, in the engine of `penstock up`: each is a `penstock run` of its own.

Modules of two pipelines would meet under one name in the engine's process, so such a pipeline has its own, and its own
Spark. The engine sees the same events: the child prints them as JSON lines.

Owns the child process. It knows no Spark.

Invariant: the child ends with the engine, however that ends: it watches its standard input.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, Final

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.engine.host import Host, Outcome, Run, Runner, Work

EXIT_WITH_STDIN: Final = "--exit-with-stdin"
_PREFIX: Final = "penstock: "
_ERROR_BYTES_MAX: Final = 64 * 1024
_POLL_S: Final = 0.1


def penstock_run(work: Work) -> list[str]:
    """The command that runs a pipeline's file."""
    command = [sys.executable, "-P", "-m", "penstock.cli.main", "run", "--json", EXIT_WITH_STDIN]
    for option, key in (("--bootstrap-server", "bootstrap_servers"), ("--checkpoint", "checkpoint")):
        if work.settings.get(key):
            command += [option, str(work.settings[key])]
    return [*command, str(work.file)]


class ProcessHost:
    """A `Runner` for pipelines that came from a file."""

    def __init__(self, command: Callable[[Work], Sequence[str]] = penstock_run) -> None:
        self._command = command

    def run(self, work: Work, run: Run) -> Outcome:
        child = subprocess.Popen(  # noqa: S603 (this interpreter)
            self._command(work),
            cwd=work.directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # ctrl-C reaches every process of the terminal; the engine stops its pipelines itself.
            start_new_session=True,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        errors = _Tail(child.stderr)
        events = threading.Thread(target=_relay, args=(child.stdout, run), daemon=True, name=f"events {work.name}")
        events.start()
        try:
            while child.poll() is None:
                if run.stop.wait(_POLL_S):
                    child.terminate()
                    child.wait()
        finally:
            child.kill()
            child.wait()
            events.join()
            said = errors.text()
            for stream in (child.stdin, child.stdout, child.stderr):
                stream.close()
        return _outcome(child.returncode, said)


class HostByKind:
    """Pipelines of SQL alone share the engine's Spark; those that call functions have a process each."""

    def __init__(self, shared: Host, own_process: Runner, calls_functions: Callable[[Work], bool]) -> None:
        self._shared = shared
        self._own_process = own_process
        self._calls_functions = calls_functions

    def run(self, work: Work, run: Run) -> Outcome:
        host = self._own_process if self._calls_functions(work) else self._shared
        return host.run(work, run)

    def check(self, work: Work) -> Mapping[str, Any]:
        return self._shared.check(work)


def _relay(lines: IO[bytes], run: Run) -> None:
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue  # something that a function of the author printed
        if isinstance(event, dict) and "event" in event and event["event"] != "starting":
            run.report({key: value for key, value in event.items() if key != "at"})


class _Tail:
    """The last bytes of a stream, read by a thread of its own so that the writer never waits."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._kept = b""
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True, name="errors")
        self._thread.start()

    def _read(self, stream: IO[bytes]) -> None:
        while part := os.read(stream.fileno(), 65536):
            self._kept = (self._kept + part)[-_ERROR_BYTES_MAX:]

    def text(self) -> str:
        """When the writer has ended."""
        self._thread.join()
        return self._kept.decode("utf-8", "replace")


def _outcome(code: int, said: str) -> Outcome:
    if code == ExitCode.OK:
        return Outcome()
    lines = [line.removeprefix(_PREFIX) for line in said.splitlines() if line.strip()]
    if code < 0:
        return Outcome(int(ExitCode.ENGINE_LOST), f"its process was ended by signal {-code}")
    is_invalid = code in (ExitCode.INVALID_PIPELINE, ExitCode.INVALID_SQL)
    # One line is the failure. Several are the mistakes of a file, or a traceback, whose last line is the exception.
    message = (lines[0] if is_invalid else lines[-1]) if lines else f"its process ended with exit code {code}"
    details = {"problems": lines} if len(lines) > 1 else {}
    return Outcome(code, message, may_return=code == ExitCode.UNREACHABLE, details=details)
