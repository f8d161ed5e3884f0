"""Workers of one Connect cluster on a real broker, with runners that only pretend: in this process, or as processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self
from uuid import uuid4

from penstock.connect.herder.distributed import DistributedSettings, distributed_herder
from penstock.connect.herder.herder import ConnectRestError, Herder
from penstock.connect.herder.worker_herder import WorkerHerder, WorkerSettings
from tests.unit.connect.herder.fakes import FakePlugins, FakeRunner

BROKER_CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


def state_of(herder: Herder, name: str) -> str | None:
    """None while there is no status."""
    try:
        return herder.status(name).state
    except ConnectRestError:
        return None


def worker_id_of(herder: Herder, name: str) -> str | None:
    try:
        return herder.status(name).worker_id
    except ConnectRestError:
        return None


class ConnectCluster:
    """The names and topics of one cluster; a context manager that stops its workers."""

    def __init__(
        self, bootstrap_servers: str, directory: Path, *, session_timeout_ms: int = 6000, heartbeat_ms: int = 50
    ) -> None:
        self.name = f"connect-{uuid4().hex[:8]}"
        self.directory = directory
        self.properties = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": self.name,
            **{f"{kind}.storage.topic": self.topic(kind) for kind in ("config", "offset", "status")},
            **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
            "session.timeout.ms": str(session_timeout_ms),
            "heartbeat.interval.ms": str(heartbeat_ms),
        }
        self._herders: list[WorkerHerder] = []

    def topic(self, kind: str) -> str:
        return f"{self.name}-{kind}"

    def worker(self, worker_id: str) -> tuple[WorkerHerder, FakeRunner]:
        runner = FakeRunner(self.directory, worker_id)
        settings = DistributedSettings.parse(self.properties)
        herder = distributed_herder(settings, WorkerSettings(worker_id, "4.3.1"), runner, FakePlugins())
        herder.start()
        self._herders.append(herder)
        return herder, runner

    def stop(self, herder: WorkerHerder) -> None:
        self._herders.remove(herder)
        herder.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for herder in self._herders:
            herder.stop()

    def runs(self) -> list[tuple[float, str, str, str]]:
        """Time, `start`, `end` or `TWICE`, connector and worker, in the order in which they happened."""
        log = self.directory / "runs.log"
        lines = log.read_text().splitlines() if log.exists() else []
        fields = [line.split(" ") for line in lines]
        return [(float(time), what, name, worker) for time, what, name, worker in fields]

    def owners(self, dead: frozenset[str] = frozenset()) -> dict[str, str]:
        """The worker that runs each connector now."""
        owners = {}
        for _time, what, name, worker in self.runs():
            if what == "start":
                owners[name] = worker
            elif owners.get(name) == worker:
                del owners[name]
        return {name: worker for name, worker in owners.items() if worker not in dead}


class WorkerProcess:
    """A worker as a process of its own. It creates connectors that come in on stdin, one name a line."""

    def __init__(self, cluster: ConnectCluster, worker_id: str) -> None:
        self.worker_id = worker_id
        command = [sys.executable, "-P", "-c", "from tests.integration.connect.workers import main; main()"]
        command += [str(cluster.directory), worker_id]
        command += [f"{name}={value}" for name, value in cluster.properties.items()]
        root = Path(__file__).parents[3]
        path = os.pathsep.join([str(root), str(root / "src")])
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}
        )

    def create(self, name: str) -> None:
        assert self._process.stdin is not None
        print(name, file=self._process.stdin, flush=True)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


def main() -> None:
    directory, worker_id, *pairs = sys.argv[1:]
    properties: Mapping[str, str] = dict(pair.split("=", 1) for pair in pairs)
    herder = distributed_herder(
        DistributedSettings.parse(properties),
        WorkerSettings(worker_id, "4.3.1"),
        FakeRunner(Path(directory), worker_id),
        FakePlugins(),
    )
    herder.start()
    for line in sys.stdin:
        herder.put_config(line.strip(), {"connector.class": "Source"})
    herder.stop()
