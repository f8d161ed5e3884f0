"""`penstock run` against a cluster, as the process that a person starts: watched, killed, frozen and started again.

Tests arm crash points for the whole of a driver, which is two processes: its Python and its JVM.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import psutil

from tests import crash_points

RUN_S_MAX: Final = 600
_POLL_S: Final = 0.02


def driver_environment() -> dict[str, str]:
    """Of a driver on this machine. A session of the tests' own process has left a Python for its own workers there."""
    return {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}


def await_that(what: str, condition: Callable[[], bool], timeout_s: float = RUN_S_MAX) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not in {timeout_s} s: {what}"
        time.sleep(_POLL_S)


class PipelineProcess:
    """Everything that it says stays in `directory`; `words` are what follows `penstock run`."""

    def __init__(self, directory: Path, crash_directory: Path, *words: str) -> None:
        self._crash_directory = crash_directory
        self._log = directory / "driver.log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [Path(sys.executable).with_name("penstock"), "run", "--json", *words],
                cwd=directory,
                env=driver_environment() | {crash_points.ENVIRONMENT_VARIABLE: str(crash_directory)},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.events: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read_events, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def await_start(self) -> None:
        self.await_event("started", lambda event: event["event"] == "started")

    def await_offsets(self, topic: str, ends: dict[int, int]) -> None:
        """Until batches up to these offsets are committed."""
        wanted = {str(partition): end for partition, end in ends.items()}
        self.await_event(f"{wanted}", lambda event: event.get("offsets", {}).get(topic) == wanted)

    def await_event(self, what: str, wanted: Callable[[dict[str, Any]], bool]) -> None:
        def came() -> bool:
            ended = self._process.poll() is not None
            assert any(map(wanted, self.events)) or not ended, f"it ended before this came: {what}; {self.said()}"
            return any(map(wanted, self.events))

        await_that(f"{what}; {self.events[-3:]}", came)

    def arm(self, step: str) -> None:
        """The whole driver is killed with -9 where it, or a task of it, next arrives at the step."""
        victims = [process.pid for process in self._driver()]
        assert len(victims) == 2, victims
        crash_points.arm(self._crash_directory, step, *victims, crash_points.SELF)

    def require_killed_at(self, step: str) -> None:
        assert self.wait() == -signal.SIGKILL, self.said()
        assert crash_points.was_hit(self._crash_directory, step)

    def freeze(self) -> None:
        """As on a machine that stands still: its Python, its JVM, and the Python processes that plan and commit."""
        self._to_all(psutil.Process.suspend)

    def thaw(self) -> None:
        self._to_all(psutil.Process.resume)

    def kill(self) -> None:
        """With -9, also while it is frozen."""
        self._to_all(psutil.Process.kill)

    def terminate(self) -> int:
        """SIGTERM, which lets the batch finish."""
        self._process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        return self._process.wait(RUN_S_MAX)

    def said(self) -> str:
        return f"{self.events[-3:]} {self._log.read_text()[-3000:]}"

    def _driver(self) -> list[psutil.Process]:
        driver, *children = self._family()
        return [driver, *(child for child in children if child.name() == "java")]

    def _to_all(self, action: Callable[[psutil.Process], None]) -> None:
        with suppress(psutil.NoSuchProcess):
            for process in self._family():
                with suppress(psutil.NoSuchProcess):  # some live for one question only
                    action(process)

    def _family(self) -> list[psutil.Process]:
        driver = psutil.Process(self._process.pid)
        return [driver, *driver.children(recursive=True)]

    def _read_events(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.events.append(json.loads(line))
