"""Connect workers as processes: Kafka's own, and `penstock connect`. Both are distributed, on the same kind of broker.

Owns their start, their settings and their end. It must not know what is measured.

Invariant: after the context, the process has exited, and its JVM and Python workers with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from penstock.bench.measurement import MeasurementError
from penstock.bench.peers import PENSTOCK
from penstock.testing.apache_kafka import KAFKA_VERSION, LOG4J_VERSION, free_ports
from penstock.testing.java import Artifact, fetch_jars, find_java

DEBEZIUM_VERSION: Final = "3.3.1.Final"
POSTGRES_DRIVER_VERSION: Final = "42.7.8"
STRING: Final = "org.apache.kafka.connect.storage.StringConverter"
JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_POLL_S: Final = 0.005
_LOGGING: Final = "status = error\nrootLogger.level = error\n"
_ERROR_BYTES: Final = 2000


def connect_jars() -> Path:
    """Kafka's worker, its file connectors, and Debezium's JDBC sink; fetched on first use."""
    return fetch_jars(
        f"kafka-connect-{KAFKA_VERSION}",
        [
            Artifact("org.apache.kafka", "connect-runtime", KAFKA_VERSION),
            Artifact("org.apache.kafka", "connect-file", KAFKA_VERSION),
            Artifact("io.debezium", "debezium-connector-jdbc", DEBEZIUM_VERSION),
            Artifact("org.postgresql", "postgresql", POSTGRES_DRIVER_VERSION),
            Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J_VERSION),
        ],
    )


@dataclass(frozen=True, slots=True)
class Worker:
    """`start_s` is the time from the process's creation to its first answer over REST."""

    url: str
    pid: int
    start_s: float

    def create(self, name: str, config: Mapping[str, str]) -> None:
        self._ask("POST", "/connectors", {"name": name, "config": {**config, "name": name}})

    def await_running(self, name: str, time_limit_s: float) -> None:
        deadline_s = time.monotonic() + time_limit_s
        while True:
            with contextlib.suppress(urllib.error.HTTPError):  # not known everywhere yet
                status = self._ask("GET", f"/connectors/{name}/status")
                states = [each["state"] for each in (status["connector"], *status["tasks"])]
                if "FAILED" in states:
                    raise MeasurementError(f"connector {name} failed: {json.dumps(status)[:_ERROR_BYTES]}")
                if status["tasks"] and set(states) == {"RUNNING"}:
                    return
            if time.monotonic() > deadline_s:
                raise MeasurementError(f"connector {name} does not run after {time_limit_s:g} s")
            time.sleep(_POLL_S)

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        request = urllib.request.Request(  # noqa: S310 (our own worker)
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as refusal:
            if method == "GET":
                raise
            raise MeasurementError(f"{method} {path}: {refusal.read().decode()[:_ERROR_BYTES]}") from refusal


@contextlib.contextmanager
def running_worker(contestant: str, bootstrap_servers: str, directory: Path, time_limit_s: float) -> Iterator[Worker]:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    properties = directory / "worker.properties"
    settings = _settings(bootstrap_servers, url)
    if contestant == PENSTOCK:
        settings["exactly.once.source.support"] = "enabled"
        command = [sys.executable, "-P", "-m", "penstock.cli.main", "connect", str(properties)]
    else:
        logging = directory / "log4j2.properties"
        logging.write_text(_LOGGING, encoding="utf-8")
        command = [str(find_java().java), "-Xmx2G", f"-Dlog4j2.configurationFile={logging}"]
        command += ["-cp", f"{connect_jars()}/*", "org.apache.kafka.connect.cli.ConnectDistributed", str(properties)]
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")
    errors = directory / "worker.log"
    begun_s = time.perf_counter()
    with errors.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=directory, start_new_session=True
        )
    try:
        _await_answer(url, process, errors, time_limit_s)
        yield Worker(url, process.pid, time.perf_counter() - begun_s)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _settings(bootstrap_servers: str, url: str) -> dict[str, str]:
    """As Kafka ships them, with what makes a start on one machine quick."""
    return {
        "bootstrap.servers": bootstrap_servers,
        "group.id": "connect-cluster",
        "listeners": url,
        "config.storage.topic": "connect-configs",
        "offset.storage.topic": "connect-offsets",
        "status.storage.topic": "connect-status",
        **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
        "key.converter": STRING,
        "value.converter": STRING,
        "plugin.discovery": "service_load",
        "scheduled.rebalance.max.delay.ms": "0",
    }


def _await_answer(url: str, process: subprocess.Popen[bytes], errors: Path, time_limit_s: float) -> None:
    deadline_s = time.monotonic() + time_limit_s
    while True:
        if process.poll() is not None or time.monotonic() > deadline_s:
            said = errors.read_text(errors="replace")[-_ERROR_BYTES:]
            raise MeasurementError(f"the Connect worker does not answer on {url}: {said}")
        try:
            with urllib.request.urlopen(f"{url}/connectors", timeout=5) as answer:  # noqa: S310
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(_POLL_S)
