"""A process with a Spark of its own, for tests that kill it.

It prints its process id and that of its JVM as a line of JSON, and waits for a line on stdin, so that its starter can
arm crash points with those ids.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

ROOT: Final = Path(__file__).resolve().parents[2]


class SparkProcess:
    """A module of the tests with a description of its work, as JSON. A context manager that kills it."""

    def __init__(self, module: str, work: Mapping[str, Any], crash_directory: Path, log: Path) -> None:
        environment = os.environ | {"PENSTOCK_CRASH_POINTS": str(crash_directory), "PENSTOCK_JAVA_ARCHIVE": "use"}
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, json.dumps(work)],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
            )
        self._log = log

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()

    def await_session(self) -> tuple[int, int]:
        """The ids of the process and of its JVM."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the process did not start: {self._log.read_text()[-2000:]}"
        pids = json.loads(line)
        return int(pids["process"]), int(pids["jvm"])

    def begin(self) -> None:
        """Lets it start its work; until then it only has its session."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"begin\n")
        self._process.stdin.flush()

    def wait(self, timeout_s: float) -> int:
        return self._process.wait(timeout_s)


def announce_session() -> None:
    """In the process, when it has a session. Returns when the work may begin."""
    from penstock.pipeline.spark import session

    assert session._running is not None
    print(json.dumps({"process": os.getpid(), "jvm": session._running.jvm.process.pid}), flush=True)
    sys.stdin.readline()
