"""Contestants and measurements that start nothing, for tests of the order of things."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock.bench.measurement import Workbench
from penstock.bench.metric import Metric, Readings, Unit
from penstock.bench.peers import Contestant
from penstock.bench.results import Results

METRIC = Metric("fake.value", "a value", Unit.SECONDS)


class FakePeer:
    """Remembers what was done to it. Its data directory holds a file while it runs."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.calls: list[str] = []

    @property
    def bootstrap_servers(self) -> str:
        return "127.0.0.1:1"

    @property
    def pid(self) -> int:
        raise RuntimeError("no process")

    def start(self) -> None:
        self.calls.append("start")
        (self.data_dir / "data").write_text("something")

    def stop(self) -> None:
        self.calls.append("stop")

    def kill(self) -> None:
        self.calls.append("kill")


def contestant(name: str, peers: list[FakePeer] | None = None) -> Contestant:
    def launch(data_dir: Path, _config: Mapping[str, str]) -> FakePeer:
        peer = FakePeer(data_dir)
        if peers is not None:
            peers.append(peer)
        return peer

    return Contestant(name, name.title(), launch)


@dataclass
class FakeMeasurement:
    """`take` gets the contestant's name and the number of the turn, from 0."""

    take: Callable[[str, int], float]
    name: str = "fake"
    title: str = "Fake"
    turns: list[str] = field(default_factory=list)

    @property
    def metrics(self) -> Sequence[Metric]:
        return [METRIC]

    @property
    def disk_bytes(self) -> int:
        return 0

    def run(self, contestant: Contestant, _workbench: Workbench) -> Readings:
        self.turns.append(contestant.name)
        return {METRIC.key: self.take(contestant.name, len(self.turns) - 1)}


class SilentProgress:
    def begin(self, _step: str) -> None: ...

    def detail(self, _text: str) -> None: ...

    def end(self) -> None: ...


def empty_results(rounds: int) -> Results:
    machine: dict[str, str | int | float] = {
        "processor": "abacus",
        "cores": 2,
        "system": "desk",
        "librdkafka": "2",
        "load_average_at_start": 0.1,
    }
    return Results(
        rounds=rounds,
        quick=False,
        contestants={"penstock": "Penstock", "apache-kafka": "Apache Kafka"},
        machine=machine,
        sizes={},
        started_at="2024-01-01T00:00:00+00:00",
    )
