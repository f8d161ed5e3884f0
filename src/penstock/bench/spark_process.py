"""A Spark process seen from the benchmark: started, listened to, and ended whatever happens.

Owns the process and its standard error, whose end explains a failure. It must never know what is measured.

Invariant: when the context is left, the process has ended; its JVM and Python workers end with it.
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

from penstock.bench.errors import MeasurementError
from penstock.bench.process_usage import age_s
from penstock.bench.spark_orders import Orders

_ENDING_S: Final = 60.0
_ERROR_LINES: Final = 20


def driver_command(orders: Orders) -> list[str]:
    return [sys.executable, "-m", "penstock.bench.spark_driver", orders.as_json()]


class SparkProcess:
    """A command that starts Spark and prints lines of JSON.

    A driver of ours ends in good order with its input, which stays open until then; other programs want a signal.
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
        with contextlib.suppress(BrokenPipeError):  # it has ended already, with something unread
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
        """The next line of JSON. MeasurementError: the process ended, or nothing came in time."""
        stdout = self._running.stdout
        assert stdout is not None
        deadline_s = time.monotonic() + time_limit_s
        while b"\n" not in self._unread:
            readable, _, _ = select.select([stdout], [], [], max(0.0, deadline_s - time.monotonic()))
            if not readable:
                raise MeasurementError(f"Spark had nothing to tell for {time_limit_s:g} s\n{self._last_errors()}")
            read = os.read(stdout.fileno(), 1 << 16)
            if not read:
                raise MeasurementError(f"Spark ended before it had done its work\n{self._last_errors()}")
            self._unread += read
        line, self._unread = self._unread.split(b"\n", 1)
        told: dict[str, Any] = json.loads(line)
        return told

    def end_query(self) -> None:
        """For one that follows: it ends, and the next one begins."""
        stdin = self._running.stdin
        assert stdin is not None
        stdin.write(b"\n")
        stdin.flush()

    def check_alive(self) -> None:
        if self._running.poll() is not None:
            raise MeasurementError(f"Spark ended before it had done its work\n{self._last_errors()}")

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
        # Everything listens on loopback, also what a stock session opens.
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(scratch / "spark"),
        # A stock session otherwise takes whatever is called python3.
        "PYSPARK_PYTHON": sys.executable,
        # The archive was made before any clock ran; no turn leaves behind a process that makes one.
        java_archive.POLICY_VARIABLE: "use",
    }
