"""Runs a Spark process: starts it, reads its output, and ends it in any case.

Owns the process and its stderr, whose last lines explain a failure. It must not know what is measured.

Invariant: after the context, the process has exited; its JVM and Python workers exit with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from penstock.bench.measurement import MeasurementError
from penstock.bench.process_usage import age_s
from penstock.bench.spark.workload import Workload

_ENDING_S: Final = 60.0
_ERROR_LINES: Final = 20


def driver_command(workload: Workload) -> list[str]:
    return [sys.executable, "-m", "penstock.bench.spark.driver", workload.as_json()]


class SparkProcess:
    """A command that starts Spark and prints lines of JSON.

    Our driver exits at the end of its stdin; other programs get SIGTERM.
    """

    def __init__(
        self, command: Sequence[str], parent: Path, *, directory: Path | None = None, ends_with_input: bool = True
    ) -> None:
        self._command = command
        self._ends_with_input = ends_with_input
        self._parent = parent
        self._directory = directory
        self._scratch: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._unread = b""

    def __enter__(self) -> Self:
        self._scratch = Path(tempfile.mkdtemp(prefix="spark-", dir=self._parent))
        with self._stderr_file.open("wb") as errors:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=_environment(self._scratch),
                cwd=self._directory or self._scratch,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process, scratch = self._running, self._scratch
        assert process.stdin is not None
        assert process.stdout is not None
        assert scratch is not None
        with contextlib.suppress(BrokenPipeError):  # it has exited already, with unread input
            process.stdin.close()
        if error is not None or not self._ends_with_input:
            process.terminate()
        try:
            process.wait(_ENDING_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        shutil.rmtree(scratch, ignore_errors=True)

    @property
    def age_s(self) -> float:
        return age_s(self._running.pid)

    def next_line(self, time_limit_s: float) -> dict[str, Any]:
        """Returns the next line of JSON; MeasurementError if the process exits or nothing arrives in time."""
        stdout = self._running.stdout
        assert stdout is not None
        deadline_s = time.monotonic() + time_limit_s
        while b"\n" not in self._unread:
            readable, _, _ = select.select([stdout], [], [], max(0.0, deadline_s - time.monotonic()))
            if not readable:
                raise MeasurementError(f"Spark printed nothing for {time_limit_s:g} s\n{self._last_errors()}")
            read = os.read(stdout.fileno(), 1 << 16)
            if not read:
                raise MeasurementError(f"Spark exited before it had finished\n{self._last_errors()}")
            self._unread += read
        line, self._unread = self._unread.split(b"\n", 1)
        told: dict[str, Any] = json.loads(line)
        return told

    def end_query(self) -> None:
        """Ends a query that runs until stopped; the next one starts."""
        stdin = self._running.stdin
        assert stdin is not None
        stdin.write(b"\n")
        stdin.flush()

    def check_alive(self) -> None:
        if self._running.poll() is not None:
            raise MeasurementError(f"Spark exited before it had finished\n{self._last_errors()}")

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    @property
    def _stderr_file(self) -> Path:
        assert self._scratch is not None
        return self._scratch / "stderr"

    def _last_errors(self) -> str:
        lines = self._stderr_file.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-_ERROR_LINES:])


def _environment(scratch: Path) -> Mapping[str, str]:
    from penstock.pipeline.spark import java_archive

    return {
        **os.environ,
        # All sockets listen on loopback, also those of a stock session.
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(scratch / "spark"),
        # A stock session would otherwise use any python3.
        "PYSPARK_PYTHON": sys.executable,
        # The archive exists already; no session may start a background process that creates one.
        java_archive.POLICY_VARIABLE: "use",
    }
