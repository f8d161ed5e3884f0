"""The mirror's source keeps what a worker relies on, with one broker as both clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import pytest

from penstock import Admin, Producer
from penstock.connect.connectors.mirror.source import MirrorSourceConnector
from penstock.testing import Broker
from penstock.testing.connectors import SourceAdapter, SourceConformance

pytestmark = pytest.mark.slow


class MirrorSource(SourceAdapter):
    """Two partitions of a topic; records arrive a few at a time."""

    connector = MirrorSourceConnector
    servers: ClassVar[str]

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._topic = f"mirrored-{uuid4().hex[:8]}"
        Admin({"bootstrap.servers": self.servers}).create_topic(self._topic, partitions=2)

    def config(self) -> Mapping[str, str]:
        return {
            "source.cluster.alias": "there",
            "target.cluster.alias": "here",
            "source.cluster.bootstrap.servers": self.servers,
            "topics": self._topic,
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "consumer.poll.timeout.ms": "5",
        }

    def target(self) -> Mapping[str, str]:
        return {"bootstrap.servers": self.servers}

    def put(self, numbers: Sequence[int]) -> None:
        with Producer({"bootstrap.servers": self.servers}) as producer:
            for number in numbers:
                producer.send(self._topic, str(number).encode(), partition=number % 2).result(60)

    def number_of(self, value: Any) -> int:
        return int(value)


class TestMirrorSource(SourceConformance):
    adapter = MirrorSource

    @pytest.fixture(autouse=True)
    def _broker(self, penstock_broker: Broker) -> None:
        MirrorSource.servers = penstock_broker.bootstrap_servers
