"""How soon a Connect worker answers and moves its first record, and what it costs while it has nothing to do."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.bench.connect.workers import Worker, running_worker
from penstock.bench.measurement import MeasurementError, Workbench
from penstock.bench.metric import Metric, Readings, Target, Unit
from penstock.bench.peers import Contestant
from penstock.bench.process_usage import idle_cpu_seconds, memory
from penstock.bench.sizes import Sizes
from penstock.bench.topics import create_topic
from penstock.core.ids import TopicPartition
from penstock.wire.client import WireClient

_TOPIC: Final = "first-records"
_POLL_S: Final = 0.01
_UNDER_1_S: Final = Target(value_below=1.0)
_UNDER_2_S: Final = Target(value_below=2.0)


@dataclass(frozen=True, slots=True)
class ConnectStart:
    sizes: Sizes
    name: str = "connect-start"
    title: str = "A Connect worker: start, first records, idle"

    @property
    def metrics(self) -> Sequence[Metric]:
        many = self.sizes.connect_idle_count
        return [
            Metric("connect-start.rest", "process start to the first answer over REST", Unit.SECONDS, _UNDER_1_S),
            Metric("connect-start.first", "creating a first connector to its first record", Unit.SECONDS),
            Metric("connect-start.second", "creating a second one to its first record", Unit.SECONDS, _UNDER_2_S),
            Metric("connect-start.memory_one", "memory with one idle connector", Unit.BYTES),
            Metric("connect-start.memory_many", f"memory with {many} idle connectors", Unit.BYTES),
            Metric("connect-start.idle_cpu", f"idle CPU with {many} connectors", Unit.CORES),
        ]

    @property
    def disk_bytes(self) -> int:
        return 50_000_000

    def run(self, contestant: Contestant, workbench: Workbench) -> Readings:
        sizes = self.sizes
        workbench.data_parent.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            broker = stack.enter_context(contestant.fresh(workbench.data_parent))
            directory = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="connect-", dir=workbench.data_parent))
            )
            create_topic(broker.bootstrap_servers, _TOPIC, sizes.time_limit_s)
            client = stack.enter_context(WireClient({"bootstrap.servers": broker.bootstrap_servers}))
            workbench.tell("starting a worker")
            worker = stack.enter_context(
                running_worker(contestant.name, broker.bootstrap_servers, directory, sizes.time_limit_s)
            )
            first_s = self._first_record(worker, client, directory, "first")
            time.sleep(sizes.settle_s)
            memory_one = memory(worker.pid).proportional_bytes
            second_s = self._first_record(worker, client, directory, "second")
            workbench.tell(f"{sizes.connect_idle_count} connectors that have nothing to do")
            for number in range(sizes.connect_idle_count - 2):
                self._create(worker, directory, f"idle-{number}")
            for number in range(sizes.connect_idle_count - 2):
                worker.await_running(f"idle-{number}", sizes.time_limit_s)
            time.sleep(sizes.settle_s)
            idle_s = max(1.0, sizes.idle_s)
            return {
                "connect-start.rest": worker.start_s,
                "connect-start.first": first_s,
                "connect-start.second": second_s,
                "connect-start.memory_one": memory_one,
                "connect-start.memory_many": memory(worker.pid).proportional_bytes,
                "connect-start.idle_cpu": idle_cpu_seconds(worker.pid, idle_s) / idle_s,
            }

    def _create(self, worker: Worker, directory: Path, name: str) -> None:
        file = directory / f"{name}.txt"
        file.write_text(f"{name}\n" if not name.startswith("idle") else "")
        worker.create(
            name,
            {
                "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
                "file": str(file),
                "topic": _TOPIC,
                "tasks.max": "1",
            },
        )

    def _first_record(self, worker: Worker, client: WireClient, directory: Path, name: str) -> float:
        place = TopicPartition(_TOPIC, 0)

        def end() -> int:
            return client.list_offsets({place: "latest"})[place].offset

        before = end()
        begun_s = time.perf_counter()
        self._create(worker, directory, name)
        while end() == before:
            if time.perf_counter() - begun_s > self.sizes.time_limit_s:
                raise MeasurementError(f"no record of connector {name} after {self.sizes.time_limit_s:g} s")
            time.sleep(_POLL_S)
        return time.perf_counter() - begun_s
