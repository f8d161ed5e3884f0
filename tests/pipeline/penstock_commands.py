"""`penstock` commands as processes, as a person or a script starts them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from penstock.pipeline.spark import java_archive

PATIENCE_S = 120
ENVIRONMENT = {**os.environ, java_archive.POLICY_VARIABLE: "use"}


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "penstock.cli.main", *words]


def penstock(
    directory: Path, *words: str, stdin: str = "", variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words),
        cwd=directory,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={**ENVIRONMENT, **(variables or {})},
        check=False,
    )


class Lines:
    """The JSON lines of a process as they come."""

    def __init__(self, directory: Path, *words: str) -> None:
        self.process = subprocess.Popen(
            command(*words), cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
        )
        self.events: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                self.events.append(json.loads(line))

    def wait_for(self, kind: str) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            for event in self.events:
                if event["event"] == kind:
                    return event
            assert self.process.poll() is None, self.process.stderr and self.process.stderr.read()
            assert time.monotonic() < deadline, self.events
            time.sleep(0.02)

    def wait_for_end(self) -> tuple[int, str]:
        """Its exit code, and what it said of it."""
        code = self.process.wait(PATIENCE_S)
        assert self.process.stderr is not None
        return code, self.process.stderr.read()

    def terminate(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code


@contextlib.contextmanager
def running(directory: Path, *words: str) -> Iterator[Lines]:
    lines = Lines(directory, *words)
    try:
        yield lines
    finally:
        if lines.process.poll() is None:
            lines.terminate()
        assert lines.process.stderr is not None
        lines.process.stderr.close()
        assert lines.process.stdout is not None
        lines.process.stdout.close()
