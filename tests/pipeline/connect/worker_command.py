"""`penstock connect` as a process, and a client of its REST API."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx

ROOT: Final = Path(__file__).resolve().parents[3]
WAIT_S: Final = 120
_POLL_S: Final = 0.1


def becomes_true(condition: Callable[[], bool], what: str, within_s: float = WAIT_S) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
        time.sleep(_POLL_S)


class WorkerCommand:
    """A worker process; killed at the end of its context if it still runs."""

    def __init__(self, servers: str, log: Path, *words: str, settings: Mapping[str, str] | None = None) -> None:
        self._log = log
        options = [word for name, value in (settings or {}).items() for word in ("--set", f"{name}={value}")]
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "penstock.cli.main", "connect", *words, "--bootstrap-server", servers,
                 "--listen", "127.0.0.1:0", "--json", *options],
                cwd=ROOT,
                env=os.environ | {"PENSTOCK_JAVA_ARCHIVE": "use", "PENSTOCK_LOG_LEVEL": "INFO"},
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )  # fmt: skip
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the worker did not start: {log.read_text()[-3000:]}"
        self.url = str(json.loads(line)["rest"])
        self._client = httpx.Client(base_url=self.url, timeout=WAIT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self.kill()
        self._client.close()
        assert self._process.stdout is not None
        self._process.stdout.close()
        if error is not None:
            error.add_note(f"{self._log}: {self._log.read_text()[-3000:]}")

    def kill(self) -> None:
        """SIGKILL, to its JVM and its Python workers as well."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def await_crash(self) -> None:
        """Until a crash point has killed it; what it has started is killed then."""
        assert self._process.wait(WAIT_S) == -signal.SIGKILL
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def stop(self) -> int:
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(WAIT_S)

    def get(self, path: str) -> Any:
        answer = self._client.get(path)
        assert answer.status_code == 200, (path, answer.status_code, answer.text)
        return answer.json()

    def post(self, path: str, body: Mapping[str, Any]) -> httpx.Response:
        return self._client.post(path, json=body)

    def put(self, path: str) -> None:
        answer = self._client.put(path)
        assert answer.is_success, (path, answer.status_code, answer.text)

    def delete(self, path: str) -> None:
        answer = self._client.delete(path)
        assert answer.is_success, (path, answer.status_code, answer.text)

    def create(self, name: str, config: Mapping[str, str]) -> None:
        answer = self.post("/connectors", {"name": name, "config": config})
        assert answer.status_code == 201, answer.text

    def states(self, name: str) -> list[str]:
        """Of the connector and its tasks."""
        status = self.get(f"/connectors/{name}/status")
        return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
