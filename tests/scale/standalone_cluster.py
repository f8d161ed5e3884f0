"""A Spark standalone cluster on this machine: a master and workers, from the jars of the installed PySpark.

Each is a process of its own on a free loopback port, stopped by whoever started it. A worker that is asked to stop
takes its executors along.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psutil

from penstock.pipeline.spark.java import find_java
from penstock.pipeline.spark.jvm import class_path, jvm_options, pyspark_home

START_S_MAX: Final = 300
STOP_S_MAX: Final = 30
_HOST: Final = "127.0.0.1"
_MASTER_CLASS: Final = "org.apache.spark.deploy.master.Master"
_WORKER_CLASS: Final = "org.apache.spark.deploy.worker.Worker"
_EXECUTOR_CLASS: Final = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_STARTED: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED: Final = "Successfully registered with master"
_LOGGING: Final = """\
rootLogger.level = info
rootLogger.appenderRef.stdout.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c{1}: %m%n%ex
"""


class StandaloneCluster:
    """A context manager; `directory` is empty and holds logs and the executors' directories."""

    def __init__(self, directory: Path, *, workers: int = 2) -> None:
        self._directory = directory
        self._worker_count = workers
        self._java = find_java()
        self._processes: list[subprocess.Popen[bytes]] = []
        self.url = ""

    def __enter__(self) -> Self:
        (self._directory / "log4j2.properties").write_text(_LOGGING, encoding="utf-8")
        try:
            self._launch("master", _MASTER_CLASS, "--host", _HOST, "--port", "0", "--webui-port", "0")
            self.url = self._await_log("master", _STARTED)[1]
            for number in range(self._worker_count):
                name = f"worker-{number}"
                # Room for two drivers at once, each with an executor of one core on each worker.
                sizes = ("--cores", "2", "--memory", "2g", "--work-dir", str(self._directory / name))
                self._launch(name, _WORKER_CLASS, "--host", _HOST, "--webui-port", "0", *sizes, self.url)
            for number in range(self._worker_count):
                self._await_log(f"worker-{number}", re.compile(_REGISTERED))
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def executor_pids(self) -> list[int]:
        """The JVMs of applications that run now, oldest first."""
        found = []
        for worker in self._processes[1:]:
            for child in psutil.Process(worker.pid).children():
                if _EXECUTOR_CLASS in child.cmdline():
                    found.append((child.create_time(), child.pid))
        return [pid for _, pid in sorted(found)]

    def _launch(self, name: str, main_class: str, *arguments: str) -> None:
        options = [*jvm_options(self._java, "256m"), f"-Dlog4j2.configurationFile={self._directory}/log4j2.properties"]
        command = [str(self._java.java), *options, "-cp", class_path(pyspark_home(), None), main_class, *arguments]
        environment = {
            **os.environ,
            "SPARK_LOCAL_IP": _HOST,
            # Where workers find what executors are started from.
            "SPARK_HOME": str(pyspark_home()),
            "SPARK_SCALA_VERSION": "2.13",
            "JAVA_HOME": str(self._java.home),
            "PYSPARK_PYTHON": sys.executable,
        }
        with self._log_file(name).open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=self._directory
                )
            )

    def _await_log(self, name: str, wanted: re.Pattern[str]) -> re.Match[str]:
        deadline = time.monotonic() + START_S_MAX
        text = ""
        while time.monotonic() < deadline:
            text = self._log_file(name).read_text(encoding="utf-8", errors="replace")
            if match := wanted.search(text):
                return match
            time.sleep(0.1)
        raise AssertionError(f"the {name} was not ready in {START_S_MAX} s:\n{text[-2000:]}")

    def _log_file(self, name: str) -> Path:
        return self._directory / f"{name}.log"

    def _stop(self) -> None:
        """Workers first: a worker without a master would look for it."""
        for process in reversed(self._processes):
            process.send_signal(signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()
