"""`penstock run --json` as a process, with everything that belongs to it: its JVM, and the Python processes of tasks.

Invariant: what this started is gone when the context is left, however the pipeline ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import psutil

from penstock.pipeline.spark import java_archive
from tests import crash_points

_POLL_S: Final = 0.02
_END_S_MAX: Final = 120.0
_ZYGOTE: Final = "penstock.pipeline.spark.worker_zygote"


class PipelineProcess:
    """One start of a pipeline. What it prints on stderr is added to `log`."""

    def __init__(self, pipeline: Path, crash_directory: Path, log: Path, *options: str) -> None:
        environment = {
            crash_points.ENVIRONMENT_VARIABLE: str(crash_directory),
            java_archive.POLICY_VARIABLE: "use",
            # A JVM that lives for seconds spends most of them on compiling what it will not run long enough.
            "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1",
        }
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "penstock.cli.main", "run", "--json", *options, pipeline.name],
                cwd=pipeline.parent,
                env=os.environ | environment,
                stdout=subprocess.PIPE,
                stderr=output,
            )
        self._driver = psutil.Process(self._process.pid)
        self._family: set[psutil.Process] = {self._driver}
        self._events: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with suppress(ValueError):  # the last line of a process that was killed
                self._events.append(json.loads(line))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill_all()

    # What it is doing

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    @property
    def has_started(self) -> bool:
        """What was to be done before the first batch is done, and earlier runs are fenced."""
        return any(event.get("event") == "started" for event in list(self._events))

    @property
    def batches(self) -> int:
        """How many it has reported, since this start."""
        return sum(event.get("event") == "progress" for event in list(self._events))

    @property
    def restarts(self) -> int:
        """How often the query has failed and was started again, since this start."""
        return sum(event.get("event") == "restarting" for event in list(self._events))

    @property
    def last_words(self) -> list[dict[str, Any]]:
        return self._events[-2:]

    # Who belongs to it

    @property
    def driver(self) -> int:
        return self._process.pid

    def await_jvm(self, timeout_s: float) -> int | None:
        """The JVM is there some time before it does anything. None: the pipeline has ended, or takes too long."""
        deadline = time.monotonic() + timeout_s
        while self.is_running and time.monotonic() < deadline:
            for process in self._descendants():
                with suppress(psutil.NoSuchProcess):
                    if process.name() == "java":
                        return process.pid
            time.sleep(_POLL_S)
        return None

    def workers(self) -> list[int]:
        """Those that plan and commit batches and those of tasks: all that were forked from the zygote."""
        forked = []
        for process in self._descendants():
            with suppress(psutil.NoSuchProcess):
                if _ZYGOTE in process.cmdline() and process.ppid() != self._process.pid:
                    forked.append(process.pid)
        return forked

    def _descendants(self) -> list[psutil.Process]:
        try:
            found = self._driver.children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        self._family.update(found)
        return found

    # How it ends

    def wait(self, timeout_s: float) -> int | None:
        """None: it still runs."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def terminate(self) -> int:
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(_END_S_MAX)

    def await_orphans(self) -> int:
        """After the driver's end: its processes are expected to notice by themselves. How many have not."""
        deadline = time.monotonic() + _END_S_MAX
        while (left := sum(map(_is_alive, self._family))) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return left

    def kill_all(self) -> None:
        self._descendants()
        for process in self._family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
