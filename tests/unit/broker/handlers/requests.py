"""Asks handlers as a connection would: every request and response goes through the codec of its version.

`AdminNode` is the part of a node that administrative handlers use: a real store and real settings, and a note of what
was committed in place of the logs that a node would make.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from penstock.broker.request_context import RequestContext
from penstock.broker.router import BY_API_KEY
from penstock.core.ids import BrokerId
from penstock.metadata.broker_config import BrokerConfig
from penstock.metadata.image import BrokerImage, BrokerRegistered, ClusterImage, DurableChange, Endpoint
from penstock.metadata.store_local import LocalStore
from penstock.metadata.topic_config import TopicConfig
from penstock.protocol.codec import reader, writer
from tests.clocks import SeededEntropy
from tests.unit.broker.nodes import LISTENER_NAME, FakeConnection

if TYPE_CHECKING:
    from penstock.broker.node import Node


class AdminNode:
    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        self.entropy = SeededEntropy()
        self.store = LocalStore.open(directory, node_id=1, new_uuid=self.entropy.uuid, cluster_id="test-cluster")
        endpoints = {LISTENER_NAME: Endpoint("broker.test", 9092)}
        self.image.apply(BrokerRegistered(BrokerImage(self.broker_id, endpoints, "rack-1")))
        self._static = BrokerConfig.load(overrides=[f"{name}={value}" for name, value in settings.items()])
        self.committed: list[DurableChange] = []
        self._use_dynamic_config()

    @property
    def image(self) -> ClusterImage:
        return self.store.image

    @property
    def broker_id(self) -> BrokerId:
        return self.store.node_id

    def commit(self, changes: Iterable[DurableChange]) -> None:
        changes = list(changes)
        self.store.commit(changes)
        self.committed.extend(changes)
        self._use_dynamic_config()

    def _use_dynamic_config(self) -> None:
        self.config = self._static.with_dynamic(
            cluster_wide=self.image.dynamic_configs_of(None), per_broker=self.image.dynamic_configs_of(self.broker_id)
        )
        self.inherited_topic_config = TopicConfig.inherited(self.config.layers)


@dataclass
class Client:
    """Sends requests to the handlers of one node."""

    node: AdminNode
    connection: FakeConnection = field(default_factory=FakeConnection)

    def ask(self, request: Any, version: int | None = None) -> Any:
        """The response as a client of that version reads it; without a version, of the newest one served."""
        route = BY_API_KEY[type(request).API_KEY]
        version = route.max_version if version is None else version
        frame = bytearray()
        writer(type(request), version)(frame, request)
        received = route.read(version, memoryview(frame), 0)
        context = RequestContext(cast("Node", self.node), version, "test", self.connection)
        response = route.handle(received, context)
        out = bytearray()
        write: Any = writer(type(response), version)
        write(out, response)
        read: Any = reader(type(response), version)
        answer, end = read(memoryview(out), 0, len(out))
        assert end == len(out)
        return answer


def versions_of(request_class: Any) -> range:
    route = BY_API_KEY[request_class.API_KEY]
    return range(route.min_version, route.max_version + 1)
