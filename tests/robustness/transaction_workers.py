"""The copying workers as child processes: started, listened to, killed, started again.

Owns the processes and the threads that read what they say into the journal. Must never know why one is killed.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Final, Self

from tests.robustness.transaction_copier import PROBLEM
from tests.robustness.transaction_ledger import Event, Journal

WORKERS: Final = 2
_ROOT: Final = Path(__file__).parents[2]
_END_TIMEOUT_S: Final = 60.0


class Workers:
    """A context manager; leaving it leaves no process."""

    def __init__(
        self, bootstrap_servers: str, guarantee: str, journal: Journal, *, has_static_member: bool = True
    ) -> None:
        """With a static member of the group among dynamic ones, a death is met in both ways."""
        self.problems: list[str] = []
        self._bootstrap_servers = bootstrap_servers
        self._guarantee = guarantee
        self._journal = journal
        self._has_static_member = has_static_member
        self._incarnations = [0] * WORKERS
        self._processes: list[subprocess.Popen[bytes]] = []
        self._listeners: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._processes += [self._start(index) for index in range(WORKERS)]
        return self

    def __exit__(self, *_exception: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
            _close_stdin(process)
        for listener in self._listeners:
            listener.join()

    def kill(self, index: int) -> None:
        """SIGKILL, and a successor."""
        killed = self._processes[index]
        killed.kill()
        killed.wait()
        _close_stdin(killed)
        self._processes[index] = self._start(index)

    def kill_at(self, transaction: str | None) -> None:
        """The one whose transaction this is; any of them where it has ended."""
        owners = [index for index in range(WORKERS) if transaction and transaction.startswith(f"{_name(index)}.")]
        self.kill(owners[0] if owners else 0)

    def is_at(self, transaction: str) -> bool:
        """Whether this is a transaction of a worker that lives; those of the dead are for their successors to end."""
        incarnation = transaction.rpartition(".")[0]
        return incarnation in {f"{_name(index)}.{count}" for index, count in enumerate(self._incarnations)}

    def tend(self) -> None:
        """One that has died by itself is a problem, and gets a successor all the same."""
        for index, process in enumerate(self._processes):
            if process.poll() is not None:
                self.problems.append(f"worker {index} ended by itself with exit code {process.returncode}")
                self.kill(index)

    def finish(self) -> None:
        """Lets them come to their own end."""
        for process in self._processes:
            _close_stdin(process)
        for index, process in enumerate(self._processes):
            try:
                code = process.wait(_END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.problems.append(f"worker {index} does not end")
            else:
                if code != 0:
                    self.problems.append(f"worker {index} ended with exit code {code}")
        for listener in self._listeners:
            listener.join(_END_TIMEOUT_S)

    def _start(self, index: int) -> subprocess.Popen[bytes]:
        self._incarnations[index] += 1
        static = ["--static"] if self._has_static_member and index == 0 else []
        process = subprocess.Popen(
            [
                sys.executable, "-m", "tests.robustness.transaction_copier",
                "--bootstrap-servers", self._bootstrap_servers,
                "--name", _name(index),
                "--incarnation", str(self._incarnations[index]),
                "--guarantee", self._guarantee,
                *static,
            ],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None
        listener = threading.Thread(target=self._listen, args=(process.stdout,), name=_name(index))
        listener.start()
        self._listeners.append(listener)
        return process

    def _listen(self, stdout: IO[bytes]) -> None:
        with stdout:
            for line in stdout:
                when_ns, what, rest = line.decode().rstrip("\n").split(" ", 2)
                if what == PROBLEM:
                    self.problems.append(f"a worker failed: {rest}")
                else:
                    self._journal.note(rest, Event(what), int(when_ns))


def _name(index: int) -> str:
    return f"copier-{index}"


def _close_stdin(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
