"""A real broker process for the tests of this directory: one that they share, and one of a test's own where it dies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from penstock.testing import Broker
from tests.integration.broker.conversation import Topic, create_topic
from tests.wire_client import WireClient

NewTopic = Callable[..., Topic]


@pytest.fixture(scope="session")
def shared_broker() -> Iterator[Broker]:
    """Tests tell their topics apart by name."""
    with Broker() as broker:
        yield broker


@pytest.fixture
def client(shared_broker: Broker) -> Iterator[WireClient]:
    with WireClient(shared_broker.bootstrap_servers) as client:
        yield client


@pytest.fixture
def other_client(shared_broker: Broker) -> Iterator[WireClient]:
    with WireClient(shared_broker.bootstrap_servers) as client:
        yield client


@pytest.fixture
def new_topic(client: WireClient) -> NewTopic:
    """Creates a topic under a name of its own: `new_topic(partitions=2, configs={...})`."""

    def create(**options: object) -> Topic:
        return create_topic(client, f"topic-{uuid4().hex}", **options)  # type: ignore[arg-type]

    return create


@pytest.fixture
def own_broker() -> Iterator[Broker]:
    """For tests that stop it, kill it, or look at its process."""
    with Broker() as broker:
        yield broker
