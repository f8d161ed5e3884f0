"""The contestants of a comparison: two brokers with one interface, or two engines on the same broker.

Owns the start of the brokers and the deletion of their data. It must not know what is measured.

Invariant: after the context of `fresh`, also after an exception, the process has exited and its data is deleted.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

PENSTOCK: Final = "penstock"
APACHE_KAFKA: Final = "apache-kafka"
STOCK_SPARK: Final = "stock-spark"
KAFKA_CONNECT: Final = "kafka-connect"


class Peer(Protocol):
    """A broker process that can be stopped and started again on the same port and data."""

    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def data_dir(self) -> Path: ...

    @property
    def pid(self) -> int:
        """Raises RuntimeError if the broker is not running."""

    def start(self) -> None:
        """Returns when the broker accepts requests."""

    def stop(self) -> None: ...

    def kill(self) -> None: ...


Launch = Callable[[Path, Mapping[str, str]], Peer]
"""Creates a peer with a data directory and broker settings, without starting it."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """One side of the comparison."""

    name: str
    title: str
    launch: Launch

    @contextlib.contextmanager
    def fresh(self, parent: Path, config: Mapping[str, str] | None = None) -> Iterator[Peer]:
        """A running broker on an empty data directory below `parent`."""
        parent.mkdir(parents=True, exist_ok=True)
        data_dir = Path(tempfile.mkdtemp(prefix=f"{self.name}-", dir=parent))
        try:
            peer = self.launch(data_dir, config or {})
            try:
                peer.start()
                yield peer
                peer.stop()
            finally:
                peer.kill()
        finally:
            shutil.rmtree(data_dir, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Field:
    """The contestants, and why others are absent."""

    contestants: tuple[Contestant, ...]
    absences: Mapping[str, str] = field(default_factory=dict)


def assemble(*, with_apache_kafka: bool) -> Field:
    """Fetches Apache Kafka's jars before any measurement; if that fails, Penstock is measured alone."""
    contestants: list[Contestant] = []
    absences: dict[str, str] = {}
    if with_apache_kafka:
        from penstock.testing.apache_kafka import KAFKA_VERSION, kafka_jars
        from penstock.testing.java import JavaMissingError, find_java

        try:
            find_java()
            kafka_jars()
        except (JavaMissingError, OSError, subprocess.SubprocessError) as missing:
            absences[APACHE_KAFKA] = str(missing).strip()
        else:
            contestants.append(Contestant(APACHE_KAFKA, f"Apache Kafka {KAFKA_VERSION}", _launch_apache_kafka))
    else:
        absences[APACHE_KAFKA] = "it was not requested"
    contestants.append(Contestant(PENSTOCK, "Penstock", _launch_penstock))
    return Field(tuple(contestants), absences)


def assemble_engines(*, with_stock_spark: bool) -> Field:
    """Stock Spark with its connector, and Penstock, both on a Penstock broker. Prepares what they require."""
    from penstock.bench.spark.preparation import SparkMissing, prepare

    try:
        stock_title = prepare()
    except (SparkMissing, OSError, subprocess.SubprocessError) as missing:
        return Field((), {STOCK_SPARK: str(missing).strip()})
    ours = Contestant(PENSTOCK, "Penstock", _launch_penstock)
    if not with_stock_spark:
        return Field((ours,), {STOCK_SPARK: "it was not requested"})
    return Field((Contestant(STOCK_SPARK, stock_title, _launch_penstock), ours))


def assemble_workers(*, with_kafka_connect: bool) -> Field:
    """Kafka Connect and Penstock's workers, both on a Penstock broker. Fetches Kafka Connect's jars."""
    from penstock.bench.connect.workers import connect_jars
    from penstock.testing.apache_kafka import KAFKA_VERSION
    from penstock.testing.java import JavaMissingError, find_java

    ours = Contestant(PENSTOCK, "Penstock", _launch_penstock)
    if not with_kafka_connect:
        return Field((ours,), {KAFKA_CONNECT: "it was not requested"})
    try:
        find_java()
        connect_jars()
    except (JavaMissingError, OSError, subprocess.SubprocessError) as missing:
        return Field((ours,), {KAFKA_CONNECT: str(missing).strip()})
    return Field((Contestant(KAFKA_CONNECT, f"Kafka Connect {KAFKA_VERSION}", _launch_penstock), ours))


def _launch_apache_kafka(data_dir: Path, config: Mapping[str, str]) -> Peer:
    from penstock.testing.apache_kafka import ApacheKafka

    return ApacheKafka(data_dir=data_dir, config=config)


def _launch_penstock(data_dir: Path, config: Mapping[str, str]) -> Peer:
    from penstock.testing import Broker

    return Broker(data_dir=data_dir, config=config)
