"""Runs `penstock run` as a subprocess that the demo observes, kills and restarts."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import psutil

_STEP_S: Final = 0.02
_SILENCE_S_MAX: Final = 120.0
_END_S_MAX: Final = 30.0


class DriverFailed(Exception):
    """The command exited, or reported nothing, when it should not have."""


class Driver:
    """Runs `penstock run` in `directory`; the process and its JVM write nowhere else."""

    def __init__(self, pipeline: Path, bootstrap_servers: str, directory: Path, *options: str) -> None:
        words = ["run", "--json", *options, "--bootstrap-server", bootstrap_servers, str(pipeline)]
        temporary = directory / "tmp"
        temporary.mkdir(exist_ok=True)
        self._log = directory / "driver.log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 (this interpreter)
                [sys.executable, "-m", "penstock.cli.main", *words],
                cwd=directory,
                env=os.environ
                | {
                    "TMPDIR": str(temporary),
                    "JDK_JAVA_OPTIONS": f"-Djava.io.tmpdir={temporary}",
                    "PENSTOCK_JAVA_ARCHIVE": "use",  # starts no background process that would outlive the demo
                },
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._events: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read_events, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def events(self) -> Iterator[dict[str, Any] | None]:
        """Yields the events of the command until it exits, and None while there is no event."""
        heard_at = time.monotonic()
        while True:
            try:
                event = self._events.get(timeout=_STEP_S)
            except queue.Empty:
                if time.monotonic() - heard_at > _SILENCE_S_MAX:
                    raise DriverFailed(
                        f"penstock run reported nothing for {_SILENCE_S_MAX:g} s{self._last_words()}"
                    ) from None
                yield None
                continue
            if event is None:
                return
            heard_at = time.monotonic()
            yield event

    def wait(self) -> None:
        """Waits for exit code 0; raises otherwise."""
        if self._exit_code() != 0:
            raise self.ended()

    def ended(self) -> DriverFailed:
        return DriverFailed(f"penstock run ended with exit code {self._exit_code()}{self._last_words()}")

    def kill(self) -> list[int]:
        """Sends SIGKILL to the driver's Python and JVM, and waits until their workers have exited too."""
        try:
            driver = psutil.Process(self._process.pid)
            family = driver.children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        victims = [driver, *(process for process in family if _is_jvm(process))]
        for victim in victims:
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.kill()
        self._process.wait()
        _gone, alive = psutil.wait_procs(family, _END_S_MAX)
        for process in alive:
            process.kill()
        if alive:
            raise DriverFailed(
                f"{len(alive)} worker processes still ran {_END_S_MAX:g} s after their driver was killed"
            )
        return [victim.pid for victim in victims]

    def _exit_code(self) -> int:
        try:
            return self._process.wait(_END_S_MAX)
        except subprocess.TimeoutExpired:
            raise DriverFailed(f"penstock run finished, but did not exit within {_END_S_MAX:g} s") from None

    def _read_events(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._events.put(json.loads(line))
        self._events.put(None)

    def _last_words(self) -> str:
        said = self._log.read_text(errors="replace").strip().splitlines()
        return f": {said[-1]}" if said else ""


def _is_jvm(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.name() == "java"
    return False
