"""Rows per second of connectors: file to topic, topic to file, three transforms, topic to table.

Both workers run on a Penstock broker, with the same configurations. Ours move rows exactly once; Kafka Connect's file
connectors and Debezium's JDBC sink move them at least once.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.bench.connect.flows import FLOWS, RECORDS_PER_BATCH, Flow
from penstock.bench.connect.workers import running_worker
from penstock.bench.measurement import Workbench
from penstock.bench.metric import AT_LEAST_LEVEL, Metric, Readings, Target, Unit
from penstock.bench.peers import Contestant
from penstock.bench.sizes import Sizes

_BYTES_PER_ROW = 400
NewFlow = Callable[[str, Path, float], Flow]


@dataclass(frozen=True, slots=True)
class ConnectRows:
    sizes: Sizes
    name: str = "connect-rows"
    title: str = "Connectors: ours exactly once, Kafka Connect's at least once"

    @property
    def metrics(self) -> Sequence[Metric]:
        return [Metric(f"{self.name}.{flow.key}", flow.title, Unit.ROWS_PER_SECOND, AT_LEAST_LEVEL) for flow in FLOWS]

    @property
    def disk_bytes(self) -> int:
        return 2 * len(FLOWS) * self.sizes.connect_row_count * _BYTES_PER_ROW

    def run(self, contestant: Contestant, workbench: Workbench) -> Readings:
        return {
            f"{self.name}.{flow.key}": rows_per_second(
                contestant, flow, self.sizes.connect_row_count, self.sizes, workbench
            )
            for flow in FLOWS
        }


@dataclass(frozen=True, slots=True)
class ConnectTable:
    sizes: Sizes
    name: str = "connect-table"
    title: str = "Connectors into PostgreSQL: ours exactly once, Debezium's JDBC sink at least once"

    @property
    def metrics(self) -> Sequence[Metric]:
        title = "records of 100 B with a schema, topic to table"
        return [Metric("connect-table.rows", title, Unit.ROWS_PER_SECOND, Target(ratio_at_least=2.0))]

    @property
    def disk_bytes(self) -> int:
        return 4 * self.sizes.connect_table_row_count * _BYTES_PER_ROW

    def run(self, contestant: Contestant, workbench: Workbench) -> Readings:
        from penstock.bench.connect.table import TopicToTable
        from penstock.testing.postgres import running_postgres

        with _directory(workbench) as directory, running_postgres(directory) as server:

            def new_flow(bootstrap_servers: str, scratch: Path, time_limit_s: float) -> Flow:
                return TopicToTable(bootstrap_servers, scratch, time_limit_s, server)

            rows = self.sizes.connect_table_row_count
            return {"connect-table.rows": rows_per_second(contestant, new_flow, rows, self.sizes, workbench)}


def rows_per_second(contestant: Contestant, new_flow: NewFlow, rows: int, sizes: Sizes, workbench: Workbench) -> float:
    """A worker, a broker and a connector of their own."""
    with contestant.fresh(workbench.data_parent) as broker, _directory(workbench) as directory:
        flow = new_flow(broker.bootstrap_servers, directory, sizes.time_limit_s)
        with contextlib.closing(flow):
            flow.prepare()
            workbench.tell(flow.title)
            with running_worker(contestant.name, broker.bootstrap_servers, directory, sizes.time_limit_s) as worker:
                worker.create(flow.key, flow.config(contestant.name))
                worker.await_running(flow.key, sizes.time_limit_s)
                flow.move(max(RECORDS_PER_BATCH, int(rows * sizes.warm_up_share)))
                return rows / flow.move(rows)


@contextlib.contextmanager
def _directory(workbench: Workbench) -> Iterator[Path]:
    workbench.data_parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="connect-", dir=workbench.data_parent) as directory:
        yield Path(directory)
