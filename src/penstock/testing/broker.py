"""A real broker for a test: a process on a free port with a temporary data directory.

Owns the directory and the order of starts and stops; `client/local_broker/process.py` owns the process. It must not use
the broker's internals: a test sees what every Kafka client sees.

Invariants: port and data survive `stop`, `kill` and `start`; after the context, no process and no temporary directory
remains; the process exits together with this one, also if this one is killed.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from penstock.client.local_broker.process import PROGRAM, BrokerProcess, BrokerProcessError, WithParent
from penstock.core.addresses import host_port_text

_HOST: Final = "127.0.0.1"
_RETENTION_INTERVAL: Final = "log.retention.check.interval.ms"
_RETENTION_DELAY: Final = "log.initial.task.delay.ms"  # until the first check
_NEVER_MS: Final = str((1 << 62) - 1)


class Broker:
    """`config` has broker settings by Kafka's names. A given `data_dir` is kept, a temporary one is removed.

    Without `listeners` in `config`, the broker listens on a free port of 127.0.0.1, and keeps it over restarts.

    Records of a test are often older than a week. Retention deletes them only if `config` sets
    `log.retention.check.interval.ms`, the interval of its checks.

    with Broker(config={"num.partitions": "3"}) as broker:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
    """

    def __init__(
        self,
        *,
        config: Mapping[str, str] | None = None,
        data_dir: Path | str | None = None,
        start_timeout_s: float = 30.0,
    ) -> None:
        self.config = dict(config or {})
        self._data_dir = None if data_dir is None else Path(data_dir)
        self._remove_data_dir: weakref.finalize[..., Broker] | None = None
        self._start_timeout_s = start_timeout_s
        self._port = 0
        self._program: Sequence[str] = PROGRAM
        self._process: BrokerProcess | None = None

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients; restarts do not change it."""
        if self._port == 0:
            raise RuntimeError("this broker has not started: use it as a context manager, or call start()")
        return host_port_text(_HOST, self._port)

    @property
    def port(self) -> int:
        return int(self.bootstrap_servers.rpartition(":")[2])

    @property
    def data_dir(self) -> Path:
        if self._data_dir is None:
            raise RuntimeError("this broker has no data directory yet: use it as a context manager, or call start()")
        return self._data_dir

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("this broker is not running")
        return self._process.pid

    def is_running(self) -> bool:
        return self._process is not None and self._process.is_running()

    def stderr_text(self) -> str:
        """The last part of the running process's stderr."""
        return "" if self._process is None else self._process.stderr_text()

    def start(self) -> None:
        """Returns when the broker accepts connections; raises with its stderr if it fails to start."""
        if self._process is not None:
            raise RuntimeError(f"this broker is already running, as process {self.pid}")
        if self._data_dir is None:
            self._data_dir = Path(tempfile.mkdtemp(prefix="penstock-"))
            # Runs at the end of the context, at the latest when this object is collected or the interpreter exits.
            self._remove_data_dir = weakref.finalize(self, shutil.rmtree, self._data_dir, ignore_errors=True)
        self._process = BrokerProcess.start(
            self._data_dir,
            listen=host_port_text(_HOST, self._port),
            settings=self._settings,
            lifetime=WithParent(),
            timeout_s=self._start_timeout_s,
            program=self._program,
        )
        # A later start may report another port: that of `advertised.listeners`.
        self._port = self._port or self._process.port

    @property
    def _settings(self) -> dict[str, str]:
        if _RETENTION_INTERVAL in self.config:
            return {_RETENTION_DELAY: "0", **self.config}
        return {_RETENTION_DELAY: _NEVER_MS, **self.config}

    def stop(self) -> None:
        """Sends SIGTERM and waits for a clean exit; raises for any other exit. Does nothing if not running."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()

    def kill(self) -> None:
        """Sends SIGKILL. Does nothing if not running."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()

    def pause(self) -> None:
        """Sends SIGSTOP: the process keeps its connections and does nothing. A paused broker cannot be stopped, but it
        can be killed; it stays paused if the process of the test is killed."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Sends SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def restart(self) -> None:
        """Stops cleanly, and starts on the same port and data."""
        self.stop()
        self.start()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self._forget_data_dir()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.stop()
        except BrokerProcessError as failure:
            if error is None:
                raise
            error.add_note(f"and then, at the end of the context: {failure}")
        finally:
            self._forget_data_dir()

    def _forget_data_dir(self) -> None:
        if self._remove_data_dir is not None:
            self._remove_data_dir()
            self._remove_data_dir = self._data_dir = None
