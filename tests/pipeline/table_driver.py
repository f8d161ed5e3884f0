"""A driver that runs a TableJob: for tests that kill it.

    python -m tests.pipeline.table_driver '{"url": ..., "checkpoint": ..., "run": ...}'

It prints its process id and that of its JVM as a line of JSON, waits for a line on stdin, so that whoever started it
can arm crash points with those ids, and runs until all numbers are written. A query that fails and may pass is started
again, as a supervisor does. Exit codes: 0 all written, else that of the error.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from penstock.core.exit_codes import ExitCode
from tests.pipeline.table_job import TableJob

ROOT: Final = Path(__file__).resolve().parents[2]
_RESTARTS_MAX: Final = 20


class TableDriver:
    """A driver as a process. `begin` lets it start its query; until then it only has its session."""

    def __init__(self, job: TableJob, crash_directory: Path, log: Path) -> None:
        environment = os.environ | {"PENSTOCK_CRASH_POINTS": str(crash_directory), "PENSTOCK_JAVA_ARCHIVE": "use"}
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.pipeline.table_driver", json.dumps(asdict(job))],
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
        """The ids of the driver's process and of its JVM."""
        pids = json.loads(self._line())
        return int(pids["driver"]), int(pids["jvm"])

    def await_first_batch(self) -> None:
        assert self._line() == b"running\n"

    def begin(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"begin\n")
        self._process.stdin.flush()

    def wait(self, timeout_s: float) -> int:
        return self._process.wait(timeout_s)

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the driver ended: {self._log.read_text()[-2000:]}"
        return line


def main() -> ExitCode:
    from penstock.pipeline.sinks.dead_letter_relay import relay_at_start
    from penstock.pipeline.sinks.errors import error_in
    from penstock.pipeline.spark import session

    job = TableJob(**json.loads(sys.argv[1]))
    spark = session.start_session(job.pipeline)
    assert session._running is not None
    print(json.dumps({"driver": os.getpid(), "jvm": session._running.jvm.process.pid}), flush=True)
    sys.stdin.readline()
    job.claim(spark)
    relay_at_start(job.target)
    code = ExitCode.PIPELINE_FAILED
    for _ in range(_RESTARTS_MAX):
        try:
            query = job.start(spark)
            print("running", flush=True)
            query.awaitTermination()
            code = ExitCode.OK
            break
        except Exception as failure:
            known = error_in(str(failure))
            print("failed:", repr(known or failure), file=sys.stderr, flush=True)
            if known is None or not known.may_pass:
                code = known.exit_code if known else code
                break
    spark.stop()
    return code


if __name__ == "__main__":
    sys.exit(main())
