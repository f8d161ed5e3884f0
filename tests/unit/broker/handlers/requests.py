"""Asks handlers as a connection would: every request and response goes through the codec of its version.

`AdminNode` is the part of a node that administrative handlers use: a real journal and real settings, and a list of the
committed changes in place of the logs that a node would make.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from penstock.broker.access import authorizer_of
from penstock.broker.appends import AppendGroup
from penstock.broker.deferred import Deferred
from penstock.broker.producer_ids import ProducerIds
from penstock.broker.request_context import RequestContext
from penstock.broker.router import BY_API_KEY
from penstock.core.ids import BrokerId, TopicPartition
from penstock.metadata.broker_config import BrokerConfig
from penstock.metadata.changes import BrokerImage, BrokerRegistered, Change, Endpoint
from penstock.metadata.image import ClusterImage
from penstock.metadata.store import Decide, OnDecided
from penstock.metadata.topic_config import TopicConfig
from penstock.protocol.codec import reader, writer
from tests.clocks import SeededEntropy
from tests.unit.broker.nodes import LISTENER_NAME, FakeConnection
from tests.unit.metadata.stores import immediate_store

if TYPE_CHECKING:
    from penstock.broker.node import Node


class AdminNode:
    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        self.entropy = SeededEntropy()
        self.store = immediate_store(directory, self.entropy.uuid, cluster_id="test-cluster")
        self.broker_id = BrokerId(1)
        self.quotas = None
        self.is_fenced = False
        self.offline: set[TopicPartition] = set()
        self._static = BrokerConfig.load(overrides=[f"{name}={value}" for name, value in settings.items()])
        self._use_dynamic_config()
        self.producer_ids = ProducerIds(self.store)
        self.authorizer = authorizer_of(self.config, self.image)
        self.store.subscribe(lambda committed: self._use_dynamic_config())
        endpoints = {LISTENER_NAME: Endpoint("broker.test", 9092)}
        self.store.commit([BrokerRegistered(BrokerImage(self.broker_id, endpoints, "rack-1"))])
        self.store.committed.clear()

    @property
    def image(self) -> ClusterImage:
        return self.store.image

    @property
    def committed(self) -> list[Change]:
        return self.store.committed

    def propose(self, decide: Decide, on_decided: OnDecided) -> None:
        self.store.propose(decide, on_decided)

    def config_in(self, image: ClusterImage) -> BrokerConfig:
        return self._static.with_dynamic(
            cluster_wide=image.dynamic_configs_of(None), per_broker=image.dynamic_configs_of(self.broker_id)
        )

    def _use_dynamic_config(self) -> None:
        self.config = self.config_in(self.image)
        self.inherited_topic_config = TopicConfig.inherited(self.config.layers)


@dataclass
class Client:
    """Sends requests to the handlers of one node."""

    node: AdminNode
    connection: FakeConnection = field(default_factory=FakeConnection)

    def ask(self, request: Any, version: int | None = None) -> Any:
        return ask(cast("Node", self.node), request, version, self.connection)


def ask(node: Node, request: Any, version: int | None = None, connection: FakeConnection | None = None) -> Any:
    """The response as a client of that version reads it; without a version, of the newest one served."""
    route = BY_API_KEY[type(request).API_KEY]
    version = route.max_version if version is None else version
    frame = bytearray()
    writer(type(request), version)(frame, request)
    received = route.read(version, memoryview(frame), 0)
    context = RequestContext(node, version, "test", connection or FakeConnection())
    response = route.handle(received, context)
    if isinstance(response, AppendGroup):
        node.appends.write()
    if isinstance(response, Deferred):
        assert response.done, "the store commits at once"
        response = response.response
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
