"""Three brokers for tests that know one: clients get all addresses, and start, stop and kill hold for all brokers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from penstock.testing.cluster import Cluster


class ClusterAsBroker:
    """Implements `RunningBroker`. Each topic has a replica on each broker, so that any data directory has all."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self._cluster = Cluster(brokers=3, config=config)

    @property
    def bootstrap_servers(self) -> str:
        return self._cluster.bootstrap_servers

    @property
    def port(self) -> int:
        return self._cluster.broker(1).port

    @property
    def data_dir(self) -> Path:
        return self._cluster.broker(1).data_dir

    def start(self) -> None:
        for number in self._cluster.broker_ids:
            self._cluster.broker(number).start()

    def stop(self) -> None:
        for number in self._cluster.broker_ids:
            self._cluster.stop(number)

    def kill(self) -> None:
        for number in self._cluster.broker_ids:
            self._cluster.kill(number)

    def __enter__(self) -> Self:
        self._cluster.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._cluster.close()
